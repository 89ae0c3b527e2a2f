"""Handles a call that matches a rule `ask`: it runs, is refused, or is held, with a preview, until a person decides.

    claim -> run -> outcome                          this call was approved
          -> refused                                 it was denied
          -> preview -> hold -> held                 undecided; if the policy has an approver, it decides at once

Simulated calls are never held; they run without effects, as for callers that may not execute the tool. A preview is
such a simulation in a temporary copy of the session, compared later with what the call did. The default simulator
makes none, since its answers are invented.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from toolyard.calls.approval import ANONYMOUS, PROGRAM, Approval, Outcome, Preview, format_time
from toolyard.calls.batch import Batch
from toolyard.calls.call_path import CallPath, CallPlans, ScopedPlans, SimulatedAnswerer
from toolyard.calls.policy import Ask, Policy, RuleLine, deny_call
from toolyard.calls.tracer import CallTrace
from toolyard.calls.waits import Flow, Wait, WaitPair, call_approver, offload
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ApprovalError, CallError, Denied, Held, Interrupted, SessionError
from toolyard.model.tool import json_digest
from toolyard.parsing.json_text import json_decoder
from toolyard.registry.bind import Bound
from toolyard.sessions.session import Session
from toolyard.sessions.state import State
from toolyard.sessions.world_diff import WorldChange, diff_states
from toolyard.words.redactor import REDACTED, looks_secret

_decode = json_decoder()
_log = logging.getLogger("toolyard.calls.asking")  # filters of users may name it
_LONGEST_ARGUMENTS = 256 * 1024
_PREVIEW_SECONDS = 10.0
"""Maximum duration of a preview; shorter if its call has less time."""
_MOST_CHANGES = 100
_LONGEST_RESULT = 16 * 1024
_LONGEST_VALUE = 200

RunCall = Callable[[CallPath, CallPlans | ScopedPlans, Batch, Session, ToolCall], Flow]
"""`call_flow`, passed in because a preview runs through it, too, and an import would be circular."""


class NeededApproval(msgspec.Struct, frozen=True):
    """A call that needs approval: the policy's rule, and the caller it applies to."""

    policy: Policy
    bound: Bound
    line: RuleLine
    keys: tuple[str, ...] | None
    shared: dict[str, int] | None


def require_approval(
    run: RunCall,
    path: CallPath,
    plans: CallPlans | ScopedPlans,
    batch: Batch,
    session: Session,
    call: ToolCall,
    asked: NeededApproval,
    trace: CallTrace | None,
) -> Flow:
    """The call to run, and its plan; raises `Held` or `Denied` if it may not run. `run` answers previews."""
    bound = asked.bound
    # A copy of what was sent, so that the caller cannot change the arguments after they were approved.
    call = replace(call, arguments=_decode(bound.sent))
    claimed: Approval | None = None
    if batch.mode == "execute":
        claimed = yield from _obtain_approval(run, path, batch, session, call, asked, trace)
    else:
        plans = plans.restricted
    try:
        refund = asked.policy.spend(bound.tool, asked.shared)
    except CallError:
        if claimed is not None:
            yield _use_store(path, partial(path.approvals.release, claimed))
        raise
    batch.claim = None if claimed is None else (claimed, session.state.fork(), refund)
    batch.begun = path.clock()
    if trace is not None:
        trace.restart()
    return call, plans.get(bound.prepared) or plans.add(bound.prepared)


def settle_claim(
    path: CallPath, batch: Batch, session: Session, result: ToolResult | None, *, begun: bool = True
) -> Flow:
    """Record the outcome of an approved call; `result` None if it is unknown. If it never began, it stays approved."""
    assert batch.claim is not None
    (claimed, before, refund), batch.claim = batch.claim, None

    def write() -> None:
        if not begun:
            refund()
            path.approvals.release(claimed)
            return
        outcome = Outcome(code=Interrupted.code, effect="unknown")
        if result is not None:
            outcome = make_outcome(path, claimed, result, before, session.state)
        path.approvals.finish(claimed, outcome)

    try:
        yield _use_store(path, write, is_long=True)
    except (SessionError, ApprovalError) as error:
        # The call has run and is recorded in the session, so the caller gets its result all the same.
        _log.warning("approval %s: what came of its call could not be recorded: %s", claimed.id, error)


def _obtain_approval(
    run: RunCall,
    path: CallPath,
    batch: Batch,
    session: Session,
    call: ToolCall,
    asked: NeededApproval,
    trace: CallTrace | None,
) -> Flow:
    """Claim the approval of this call, which is then used; raises `Held` or `Denied` if there is none."""
    approvals, line, bound = path.approvals, asked.line, asked.bound
    draft: Approval = yield offload(path.threads, _draft_approval, path, session, call, asked)
    standing: Approval | None = None
    while standing is None or standing.state == "approved":
        standing = yield _use_store(path, partial(approvals.claim, draft), undo=approvals.release)
        if standing is None:
            if draft.preview is None:
                preview = yield from predict_call(run, path, batch, session, call, line, bound)
                draft = replace(draft, preview=preview)
            standing = yield _use_store(path, partial(approvals.hold, draft, line.rule.expires), is_long=True)
    if standing.state == "pending" and asked.policy.approver is not None:
        ask = Ask(bound.tool, session.key.session_id, bound.arguments, batch.mode, standing)
        answer = yield call_approver(path.approver_threads, partial(asked.policy.ask_approver, ask))
        yield _use_store(path, partial(_record_answer, path, asked, answer, standing.id), is_long=True)
        claimed = yield _use_store(path, partial(approvals.claim, draft), undo=approvals.release)
        standing = claimed or (yield _use_store(path, partial(approvals.get, standing.id)))
    if trace is not None:
        trace.approval = standing.id
    if standing.state == "used":
        return standing
    name = bound.tool.qualified_name
    if standing.state == "denied":
        why = f"was denied by {standing.decided_by}" + (f" ({standing.reason})" if standing.reason else "")
        raise deny_call(name, line, why, "go on without this call", approval=_approval_details(standing))
    ways = _describe_ways_to_decide(path, asked, standing)
    raise Held(
        f"{name} waits for approval {standing.id}; nothing has run",
        hint=f"have it approved before {format_time(standing.expires)} ({ways}), then send the same call again",
        details={"approval": _approval_details(standing), "rule": {"number": line.number, "text": line.text}},
    )


def _draft_approval(path: CallPath, session: Session, call: ToolCall, asked: NeededApproval) -> Approval:
    rule, keys, bound, tool = asked.line.rule, asked.keys, asked.bound, asked.bound.tool
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
        yard=path.sessions.yard,
        definition_hash=tool.definition_hash,
        digest=json_digest(bound.arguments),
        arguments=path.redactor.value(bound.arguments),
        call_id=call.call_id,
        rule_number=asked.line.number,
        rule=asked.line.text,
        approvers=tuple(rule.approvers or ()),
        self_allowed=rule.self_approval,
    )


def _record_answer(path: CallPath, asked: NeededApproval, answer: object, approval_id: str) -> None:
    """Record what the policy's approver answered; a decision made elsewhere in the meantime wins."""
    try:
        asked.policy.check_answer(asked.line, asked.bound.tool, answer)
    except Denied as denied:
        with suppress(ApprovalError):
            path.approvals.deny(approval_id, reason=str(denied), lasts=False)
        raise
    with suppress(ApprovalError):
        path.approvals.approve(approval_id)


def _use_store(
    path: CallPath, work: Callable[[], object], undo: Callable[[Any], object] | None = None, *, is_long: bool = False
) -> Wait:
    """Wait for work on the records. If a task is cancelled meanwhile, `undo` gets the value that the work returned."""

    def undo_found(value: object) -> None:
        if undo is not None and value is not None:
            with suppress(ApprovalError):
                undo(value)

    if path.sessions.store is None and is_long:
        return offload(path.threads, work)
    return WaitPair(work, lambda: path.sessions.off_loop(work, undo_found))


def _describe_ways_to_decide(path: CallPath, asked: NeededApproval, approval: Approval) -> str:
    """How to decide on a call, as text. Without keys, remote callers are all one caller, who may not decide."""
    # The command runs in another process, which does not see records in memory.
    command = "" if path.sessions.store is None else f"toolyard approvals approve {approval.id}"
    command += f" -c {approval.yard or 'CONFIG'}" if command else ""
    if asked.keys != () or approval.self_allowed:
        return f"in the console, by POST /v1/approvals/{approval.id}:approve{f' or by {command}' if command else ''}"
    where = f"by {command} on the server; " if command else ""
    return f"{where}over HTTP only if the rule says self: true, or callers have keys"


def _approval_details(approval: Approval) -> dict[str, str]:
    return {"id": approval.id, "state": approval.state, "expires": format_time(approval.expires)}


def predict_call(
    run: RunCall, path: CallPath, batch: Batch, session: Session, call: ToolCall, line: RuleLine, bound: Bound
) -> Flow:
    """The `Preview` of a call that is about to be held. If none can be made, it says why; errors do not propagate."""
    if not line.rule.preview:
        return Preview(why_not="the rule says preview: false")
    plans = path.plans["simulate", path.registry.snapshot].restricted
    try:
        plan = plans.get(bound.prepared) or plans.add(bound.prepared)
    except CallError as error:
        return Preview(why_not=_show_line(path.redactor.text(str(error))))
    simulated = cast("SimulatedAnswerer", plan.engine)
    maker = simulated.name_predictor(bound.tool)
    if maker is None:
        return Preview(why_not="only running it would show; simulate_with in the config names a simulation that can")
    draft = session.draft() if session.is_recorded else Session.alone(session.key.owner, "simulate")
    limit = _PREVIEW_SECONDS if batch.at_most is None else min(batch.at_most, _PREVIEW_SECONDS)
    inner = Batch("simulate", batch.timeout, batch.context, on_loop=batch.on_loop, at_most=limit, scope=batch.scope)
    try:
        result: ToolResult = yield from run(path.past_policy(), plans, inner, draft, call)
    except Exception as error:  # noqa: BLE001 - the call can be held and decided without a preview
        # Only the type: the message may quote the arguments.
        _log.warning("%s could not be predicted: %s", bound.tool.qualified_name, type(error).__name__)
        return Preview(why_not=f"predicting it failed with {type(error).__name__}")
    preview = Preview(maker=maker, is_stand_in=simulated.stands_in, code=_code_of(result))
    return (yield offload(path.threads, _show_effects, path, preview, result, session.state, draft.state))


def _show_effects(path: CallPath, preview: Preview, result: ToolResult, before: State, after: State) -> Preview:
    changes = _describe_changes(path, before, after)
    return msgspec.structs.replace(preview, result=_show_result(path, result), changes=changes)


def make_outcome(path: CallPath, approval: Approval, result: ToolResult, before: State, after: State) -> Outcome:
    """What the call did, and how that differs from its preview."""
    info, code = result.error_info, _code_of(result)
    changes = _describe_changes(path, before, after)
    predicted, differences = approval.preview or Preview(), []
    if predicted.maker is not None and predicted.code != code:
        differences.append(f"predicted to end with {predicted.code}, and ended with {code}")
    if predicted.maker is not None and not predicted.is_stand_in:
        differences += [f"predicted, but did not happen: {line}" for line in predicted.changes if line not in changes]
        differences += [f"happened, but was not predicted: {line}" for line in changes if line not in predicted.changes]
    effect = None if info is None else info.effect
    return Outcome(code=code, effect=effect, changes=changes, differences=tuple(differences))


def _describe_changes(path: CallPath, before: State, after: State) -> tuple[str, ...]:
    """The changes between two worlds, one line each, redacted."""
    found = diff_states(before, after, max_changes=_MOST_CHANGES)
    lines = [_describe_change(path, change) for change in found.changes if not change.is_note]
    return (*lines, f"... and {found.left_out} more") if found.left_out else tuple(lines)


def _describe_change(path: CallPath, change: WorldChange) -> str:
    # The first name is the engine's; the rest reads `orders.1042.status`.
    names = change.names[1:]
    place = _show_line(path.redactor.text(change.label if change.thing else ".".join(names) + ":"))
    is_secret = any(map(looks_secret, names))
    before, after = (
        REDACTED if is_secret else _show_value(path.redactor.value(value)) for value in (change.before, change.after)
    )
    if change.kind == "changed":
        return f"{place} {before} -> {after}"
    return f"{place} added {after}" if change.kind == "added" else f"{place} removed {before}"


def _show_value(value: Any) -> str:
    return _show_line(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _show_line(text: str) -> str:
    """The text on one line and of limited length, so that values cannot pass for lines of the preview."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_VALUE else f"{line[:_LONGEST_VALUE]}..."


def _code_of(result: ToolResult) -> str:
    return "ok" if result.error_info is None else result.error_info.code


def _show_result(path: CallPath, result: ToolResult) -> Any:
    shown = result.result if result.error_info is None else result.error_info.message
    size = len(msgspec.json.encode(shown))
    return path.redactor.value(shown) if size <= _LONGEST_RESULT else f"left out: {size:,} bytes"
