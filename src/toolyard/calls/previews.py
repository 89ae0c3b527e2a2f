"""What a call would do, for whoever decides on it, and what it did, beside that.

The call is simulated in a throw-away copy of its session, as for a caller who may not execute it: nothing is run that
could have an effect. Answers of the default simulator are made up, and nobody is to decide by them.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import msgspec

from toolyard.calls.approval import Approval, Outcome, Preview
from toolyard.calls.batch import Batch
from toolyard.calls.drive import Flow, run_beside
from toolyard.calls.plan import CallPath, RunCall, SimulatedAnswerer, current_plans
from toolyard.calls.policy import RuleLine
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError
from toolyard.registry.bind import Bound
from toolyard.sessions.session import Session
from toolyard.sessions.state import State
from toolyard.sessions.world_diff import WorldChange, diff_states
from toolyard.words.redactor import REDACTED, looks_secret

_SECONDS = 10.0
"""That a preview may take, if its call may not take less."""
_MOST_CHANGES = 100
_LONGEST_RESULT = 16 * 1024
_LONGEST_VALUE = 200
_OK = "ok"

_log = logging.getLogger(__name__)


def foresee_call(
    run: RunCall, path: CallPath, batch: Batch, session: Session, call: ToolCall, line: RuleLine, bound: Bound
) -> Flow:
    """The `Preview` of a call that is about to be held; it never fails, and says why where it foresees nothing."""
    if not line.rule.preview:
        return Preview(why_not="the rule says preview: false")
    plans = current_plans(path, "simulate").restricted
    try:
        plan = plans.get(bound.prepared) or plans.add(bound.prepared)
    except CallError as error:
        return Preview(why_not=path.redactor.text(str(error)))
    simulated = cast("SimulatedAnswerer", plan.engine)
    maker = simulated.foresees(bound.tool)
    if maker is None:
        return Preview(why_not="nothing here can tell: only running it would show; simulate_with names what could")
    draft = session.draft() if session.kept else Session.alone(session.key.owner, "simulate")
    limit = _SECONDS if batch.at_most is None else min(batch.at_most, _SECONDS)
    inner = Batch("simulate", batch.timeout, batch.context, batch.on_loop, at_most=limit, scope=batch.scope)
    try:
        result: ToolResult = yield from run(path.past_policy(None), plans, inner, draft, call)
    except Exception as error:  # noqa: BLE001 - whatever it is, the call can be held, and decided on, without it
        # Its text may quote the arguments.
        _log.warning("%s could not be foreseen: %s", bound.tool.qualified_name, type(error).__name__)
        return Preview(why_not=f"foreseeing it failed with {type(error).__name__}")
    preview = Preview(maker=maker, is_stand_in=simulated.stands_in, code=_code_of(result))
    return (yield run_beside(path.threads, _show_effects, path, preview, result, session.state, draft.state))


def _show_effects(path: CallPath, preview: Preview, result: ToolResult, before: State, after: State) -> Preview:
    changes = describe_changes(path, before, after)
    return msgspec.structs.replace(preview, result=_show_result(path, result), changes=changes)


def make_outcome(path: CallPath, approval: Approval, result: ToolResult, before: State, after: State) -> Outcome:
    """What really happened, and where that is not what was foreseen."""
    info, code = result.error_info, _code_of(result)
    changes = describe_changes(path, before, after)
    foreseen, differences = approval.preview or Preview(), []
    if foreseen.maker is not None and foreseen.code != code:
        differences.append(f"foreseen to end with {foreseen.code}, and ended with {code}")
    if foreseen.maker is not None and not foreseen.is_stand_in:
        differences += [f"foreseen, but did not happen: {line}" for line in foreseen.changes if line not in changes]
        differences += [f"happened, but was not foreseen: {line}" for line in changes if line not in foreseen.changes]
    effect = None if info is None else info.effect
    return Outcome(code=code, effect=effect, changes=changes, differences=tuple(differences))


def describe_changes(path: CallPath, before: State, after: State) -> tuple[str, ...]:
    """What is other in a session's world, a line each, without secrets."""
    found = diff_states(before, after, max_changes=_MOST_CHANGES)
    lines = [_describe_change(path, change) for change in found.changes]
    return (*lines, f"... and {found.left_out} more") if found.left_out else tuple(lines)


def _describe_change(path: CallPath, change: WorldChange) -> str:
    # Without the engine, which people need not know: `orders.1042.status`.
    names = [name.replace("~1", "/").replace("~0", "~") for name in change.path.split("/")[2:]]
    place = path.redactor.text(".".join(names))
    is_secret = any(map(looks_secret, names))
    before, after = (
        REDACTED if is_secret else _show_value(path.redactor.value(value)) for value in (change.before, change.after)
    )
    if change.kind == "changed":
        return f"{place}: {before} -> {after}"
    return f"{place}: added {after}" if change.kind == "added" else f"{place}: removed {before}"


def _show_value(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _code_of(result: ToolResult) -> str:
    return _OK if result.error_info is None else result.error_info.code


def _show_result(path: CallPath, result: ToolResult) -> Any:
    shown = result.result if result.error_info is None else result.error_info.message
    size = len(msgspec.json.encode(shown))
    return path.redactor.value(shown) if size <= _LONGEST_RESULT else f"left out: {size:,} bytes"
