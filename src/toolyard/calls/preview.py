"""What a call that needs approval would do, predicted before it is held; and what it did, compared with that.

A preview is a simulation of the call in a temporary copy of the session. The default simulator makes none, since its
answers are invented.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import msgspec

from toolyard.calls.answerer import SimulatedAnswerer
from toolyard.calls.approval import Approval, Outcome, Preview
from toolyard.calls.batch import Batch
from toolyard.calls.call_path import CallPath
from toolyard.calls.drive import Flow, offload
from toolyard.calls.plan import CallPlans, ScopedPlans
from toolyard.calls.policy import RuleLine
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError
from toolyard.registry.bind import Bound
from toolyard.sessions.session import Session
from toolyard.sessions.state import State
from toolyard.sessions.world_diff import WorldChange, diff_states
from toolyard.words.redactor import REDACTED, looks_secret

_SECONDS = 10.0
"""Maximum duration of a preview; shorter if its call has less time."""
_MOST_CHANGES = 100
_LONGEST_RESULT = 16 * 1024
_LONGEST_VALUE = 200
_OK = "ok"

_log = logging.getLogger("toolyard.calls.asking")  # filters of users may name it


RunCall = Callable[[CallPath, CallPlans | ScopedPlans, Batch, Session, ToolCall], Flow]
"""`call_flow`, passed in because a preview runs through it, too, and an import would be circular."""


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
    limit = _SECONDS if batch.at_most is None else min(batch.at_most, _SECONDS)
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
    return _OK if result.error_info is None else result.error_info.code


def _show_result(path: CallPath, result: ToolResult) -> Any:
    shown = result.result if result.error_info is None else result.error_info.message
    size = len(msgspec.json.encode(shown))
    return path.redactor.value(shown) if size <= _LONGEST_RESULT else f"left out: {size:,} bytes"
