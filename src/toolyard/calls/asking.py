"""A call that a rule `ask` stops: claimed and run, refused, or held for somebody to decide.

    claim -> run -> outcome                          somebody approved this very call
          -> refused                                 somebody denied it
          -> preview -> hold -> held                 nobody decided yet; unless the policy has an approver, who does

A call that runs goes the one way of every call (`run` is `call_flow`), past the policy, which has had its say. A call
that is only simulated is never held: what could have an effect is not run, as for callers who may not execute it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from toolyard.calls.approval import ANONYMOUS, PROGRAM, Approval, Outcome, format_time
from toolyard.calls.batch import Batch
from toolyard.calls.drive import EitherWay, Flow, Wait, ask_approval, run_beside
from toolyard.calls.failure import failure_result
from toolyard.calls.plan import CallPath, CallPlans, RunCall, ScopedPlans
from toolyard.calls.policy import Ask, Policy, RuleLine, deny_call
from toolyard.calls.previews import foresee_call, make_outcome
from toolyard.calls.tracer import CallTrace
from toolyard.loop.threads import wrapped
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ApprovalError, CallError, Denied, Held, Interrupted, SessionError
from toolyard.model.tool import json_digest
from toolyard.registry.bind import Bound
from toolyard.sessions.session import Session
from toolyard.sessions.state import State

_LONGEST_ARGUMENTS = 256 * 1024

_log = logging.getLogger(__name__)


class Asked(Exception):
    """The policy's step of a call found a rule that asks."""

    def __init__(self, policy: Policy, line: RuleLine, keys: tuple[str, ...] | None, shared: dict[str, int] | None):
        super().__init__()
        self.policy, self.line, self.keys, self.shared = policy, line, keys, shared


def asked_flow(
    run: RunCall,
    path: CallPath,
    plans: CallPlans | ScopedPlans,
    batch: Batch,
    session: Session,
    call: ToolCall,
    asked: Asked,
    trace: CallTrace | None,
) -> Flow:
    """Answer a call that somebody must approve first."""
    bound = batch.bound
    assert bound is not None
    # What was sent, read again: what is approved is what runs, whoever else still has the caller's object.
    call = replace(call, arguments=msgspec.json.decode(bound.sent))
    claimed: Approval | None = None
    try:
        if batch.mode == "execute":
            claimed = yield from _obtain_approval(run, path, batch, session, call, asked, bound, trace)
        try:
            asked.policy.spend(bound.tool, asked.shared)
        except CallError:
            if claimed is not None:
                yield _use_store(path, partial(path.approvals.release, claimed))
            raise
    except Held as held:
        result, _ = failure_result(call, bound, None, held, path.redactor, discreet=path.discreet)
        if trace is not None:
            trace.end(None, result)
        return result
    except CallError as error:
        return (yield from run(path.past_policy(trace, error), plans, batch, session, call))
    except BaseException:
        if trace is not None:
            trace.cut(None)
        raise
    if claimed is None:
        return (yield from run(path.past_policy(trace), plans.restricted, batch, session, call))
    return (yield from _run_approved(run, path, plans, batch, session, call, claimed, trace))


def _run_approved(
    run: RunCall,
    path: CallPath,
    plans: CallPlans | ScopedPlans,
    batch: Batch,
    session: Session,
    call: ToolCall,
    claimed: Approval,
    trace: CallTrace | None,
) -> Flow:
    before = session.state.fork()
    try:
        result = yield from run(path.past_policy(trace), plans, batch, session, call)
    except GeneratorExit:
        raise  # nothing can be waited for; used, and no outcome: nobody knows
    except BaseException:
        with suppress(SessionError):
            yield _use_store(
                path, partial(path.approvals.finish, claimed, Outcome(code=Interrupted.code, effect="unknown"))
            )
        raise
    try:
        yield _use_store(path, partial(_record_outcome, path, claimed, result, before, session), is_long=True)
    except (SessionError, ApprovalError) as error:
        # The call has run, and the session has it: what cannot be written down must not take its result away.
        _log.warning("approval %s: what came of its call could not be recorded: %s", claimed.id, error)
    return result


def _record_outcome(path: CallPath, claimed: Approval, result: ToolResult, before: State, session: Session) -> None:
    path.approvals.finish(claimed, make_outcome(path, claimed, result, before, session.state))


def _obtain_approval(
    run: RunCall,
    path: CallPath,
    batch: Batch,
    session: Session,
    call: ToolCall,
    asked: Asked,
    bound: Bound,
    trace: CallTrace | None,
) -> Flow:
    """The approval of this very call, now used; raises `Held` or `Denied` if there is none."""
    approvals, line = path.approvals, asked.line
    draft: Approval = yield run_beside(path.threads, _draft_approval, path, session, call, asked, bound)
    standing: Approval | None = None
    while standing is None or standing.state == "approved":
        standing = yield _use_store(path, partial(approvals.claim, draft), undo=approvals.release)
        if standing is None:
            if draft.preview is None:
                preview = yield from foresee_call(run, path, batch, session, call, line, bound)
                draft = replace(draft, preview=preview)
            standing = yield _use_store(path, partial(approvals.hold, draft, line.rule.expires), is_long=True)
    if standing.state == "pending" and asked.policy.approver is not None:
        ask = Ask(bound.tool, session.key.session_id, bound.arguments, batch.mode, standing)
        standing = yield ask_approval(path.approver_threads, partial(_ask_operator, path, asked, ask, draft))
    if trace is not None:
        trace.approval = standing.id
    if standing.state == "used":
        return standing
    name = bound.tool.qualified_name
    if standing.state == "denied":
        why = f"was denied by {standing.decided_by}" + (f" ({standing.reason})" if standing.reason else "")
        raise deny_call(name, line, why, "go on without this call", approval=_tell_approval(standing))
    raise Held(
        f"{name} waits for approval {standing.id}; nothing has run",
        hint=f"have it approved before {format_time(standing.expires)} (in the console, by POST "
        f"/v1/approvals/{standing.id}:approve or toolyard approvals), then send the same call again",
        details={"approval": _tell_approval(standing), "rule": {"number": line.number, "text": line.text}},
    )


def _draft_approval(path: CallPath, session: Session, call: ToolCall, asked: Asked, bound: Bound) -> Approval:
    rule, keys, tool = asked.line.rule, asked.keys, bound.tool
    if len(bound.sent) > _LONGEST_ARGUMENTS:
        raise Denied(
            f"{tool.qualified_name} needs approval, and its arguments, {len(bound.sent):,} bytes, are too long to show",
            hint=f"send at most {_LONGEST_ARGUMENTS:,} bytes, or change the rule ({asked.line.text})",
        )
    return Approval(
        owner=session.key.owner,
        caller=PROGRAM if keys is None else keys[-1] if keys else ANONYMOUS,
        session_id="" if session.is_alone else session.key.session_id,
        tool=tool.qualified_name,
        definition_hash=tool.definition_hash,
        digest=json_digest(bound.arguments),
        arguments=path.redactor.value(bound.arguments),
        call_id=call.call_id,
        rule_number=asked.line.number,
        rule=asked.line.text,
        approvers=tuple(rule.approvers or ()),
        self_allowed=rule.self_approval,
    )


def _ask_operator(path: CallPath, asked: Asked, ask: Ask, draft: Approval) -> Approval:
    """Have the approver of the policy decide now, unless somebody else does meanwhile."""
    standing = ask.approval
    assert standing is not None
    try:
        asked.policy.ask_approver(asked.line, ask)
    except Denied as denied:
        with suppress(ApprovalError):
            path.approvals.deny(standing.id, reason=str(denied), lasts=False)
        raise
    with suppress(ApprovalError):
        path.approvals.approve(standing.id)
    return path.approvals.claim(draft) or path.approvals.get(standing.id)


def _use_store(
    path: CallPath, work: Callable[[], object], undo: Callable[[Any], object] | None = None, *, is_long: bool = False
) -> Wait:
    """What the records say; a task that is cancelled meanwhile undoes what came of it."""

    async def work_beside() -> object:
        if path.sessions.store is None:
            return (await wrapped(path.threads.submit(work))) if is_long else work()
        value, cancelled = await path.sessions.in_thread(work)
        if cancelled is not None:
            if undo is not None and value is not None:
                with suppress(ApprovalError):
                    await path.sessions.in_thread(partial(undo, value))
            raise cancelled
        return value

    return EitherWay(work, work_beside)


def _tell_approval(approval: Approval) -> dict[str, str]:
    return {"id": approval.id, "state": approval.state, "expires": format_time(approval.expires)}
