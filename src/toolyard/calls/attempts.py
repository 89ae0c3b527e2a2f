"""How often an engine is asked, and after what: through its gates, with its retries, with faults made on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import CoroutineType
from typing import Any

import msgspec

from toolyard.calls.answerer import Answerer
from toolyard.calls.drive import Flow, await_coroutine, call_engine, enter_gate, pause, run_in_thread
from toolyard.calls.faults import Fault, FaultPlan
from toolyard.calls.invocation import Invocation
from toolyard.calls.result import plain_answer
from toolyard.loop.pacing import backoff_delay
from toolyard.model.call import Content
from toolyard.model.errors import CallError, CallTimeout, Effect, InvalidOutput, ToolFailed, Unavailable
from toolyard.model.tool import Effects, digest
from toolyard.sessions.gate import Gate
from toolyard.sessions.history import read_entry

_LONGEST_PAUSE = 60.0
"""Seconds that a call without a deadline is kept waiting for another try; a service may ask for a day."""


def answer_flow(engine: Answerer, invocation: Invocation, faults: FaultPlan | None, *, on_loop: bool) -> Flow:
    """Have an engine answer, with what goes wrong on purpose, its limits and its retries; raises `CallError`."""
    fault, name = None, invocation.tool.qualified_name
    if faults is not None:
        fault = faults.decide(name, invocation.session, invocation.mode)
    if fault is None:
        return (yield from _tries_flow(engine, invocation, on_loop))
    wait, late = wait_for_fault(fault, invocation)
    if wait:
        yield pause(wait)
    if late:
        raise CallTimeout(f"{name} was kept waiting past its deadline, and was not called", effect="none")
    if fault.instead:
        return answer_instead(fault, invocation)
    try:
        value = yield from _tries_flow(engine, invocation, on_loop)
    except CallError:
        # A tool that fails by itself has failed: what was planned for its answer then never happens.
        if invocation.fault is fault and fault.type != "latency":
            invocation.fault = None
        raise
    return alter_answer(fault, invocation, value, engine.settings.max_result_bytes)


def _tries_flow(engine: Answerer, invocation: Invocation, on_loop: bool) -> Flow:
    """Through the engine's gates, and as often as its settings allow."""
    gates = engine.gates.of(invocation.tool.qualified_name)
    # As they are now: a try may change its own, and the next must not see that.
    arguments = msgspec.json.encode(invocation.arguments) if engine.settings.retries else b""
    while True:
        inside: list[Gate] = []
        try:
            for gate in gates:
                if not (yield enter_gate(gate, invocation.deadline)):
                    raise _gate_full(invocation)
                inside.append(gate)
            if engine.blocks(invocation.tool) and (on_loop or invocation.deadline is not None):
                value = yield run_in_thread(engine, invocation)
            else:
                invocation.begun = True
                value = call_engine(engine, invocation)
            if type(value) is CoroutineType:
                value = yield await_coroutine(value, invocation)
            return value
        except CallError as error:
            seconds = _retry_pause(engine, invocation, error)
            if seconds is None:
                raise
        finally:
            _leave_gates(inside, invocation)
        yield pause(seconds)
        invocation.attempt += 1
        invocation.arguments = msgspec.json.decode(arguments)
        invocation.kept = None


def _retry_pause(engine: Answerer, invocation: Invocation, error: CallError) -> float | None:
    """Seconds to wait before another try; None if there must not be one."""
    settings = engine.settings
    if not error.info.retryable or invocation.attempt > settings.retries or invocation.left_behind is not None:
        return None
    keyed = engine.idempotent and invocation.idempotency_key is not None
    if invocation.tool.effects is not Effects.READ and not keyed:
        return None
    after = error.info.retry_after
    seconds = backoff_delay(invocation.attempt, settings.retry_delay) if after is None else after
    remaining = invocation.remaining
    most = _LONGEST_PAUSE if remaining is None else remaining
    return None if seconds >= most else seconds


def _leave_gates(gates: list[Gate], invocation: Invocation) -> None:
    """Give back the places that one try had; a call that is left behind keeps them until it ends."""
    left = invocation.left_behind
    if left is None:
        _leave_all(gates)
    else:
        left.add_done_callback(lambda _: _leave_all(gates))


def _gate_full(invocation: Invocation) -> Unavailable:
    """What is said of a call for which there was no place in time."""
    return Unavailable(
        f"{invocation.tool.qualified_name} waited past its deadline: as many calls as allowed are running",
        hint="try again later, or raise max_concurrent_calls",
    )


def _leave_all(gates: list[Gate]) -> None:
    for gate in reversed(gates):
        gate.leave()


_LONGEST_GARBLED = 200
_AGAIN = 1.0
"""Seconds after which a rate limit says to come back, if its rule does not."""


def wait_for_fault(fault: Fault, invocation: Invocation) -> tuple[float, bool]:
    """Mark the call with its fault; the seconds it is kept waiting, and whether that is all it has left."""
    invocation.fault = fault
    seconds = 0.0 if fault.rule is None else fault.rule.seconds
    remaining = invocation.remaining
    if remaining is None or seconds < remaining:
        return seconds, False
    return remaining, True


def answer_instead(fault: Fault, invocation: Invocation) -> Any:
    """The answer of a call whose tool is not called; nearly always an error."""
    if fault.type == "unparseable_result":
        return _garble(fault, {"name": invocation.tool.qualified_name, "arguments": invocation.arguments})
    raise _make_error(fault, invocation, called=False)


@contextmanager
def behind_a_cassette(invocation: Invocation) -> Iterator[None]:
    """What is planned for the call on this side of a cassette is none of the recorded engine's business."""
    planned, invocation.fault = invocation.fault, None
    try:
        yield
    finally:
        invocation.fault = invocation.fault or planned


def alter_answer(fault: Fault, invocation: Invocation, value: Any, max_bytes: int) -> Any:
    """What becomes of the tool's answer; raises if it is lost."""
    if fault.type == "latency":
        return value
    # One that the engine met by itself, behind a cassette, stays known where this one changes nothing.
    before = None if invocation.fault is fault else invocation.fault
    invocation.fault = fault
    if not fault.unchecked:
        raise _make_error(fault, invocation, called=True)
    plain = plain_answer(value.result if type(value) is Content else value, invocation, max_bytes)[0]
    if fault.type == "unparseable_result":
        return _garble(fault, plain)
    if fault.type == "partial_result":
        return _first_half(plain)
    found, stale = _find_earlier(invocation)
    if not found:
        # Nothing is known that could be out of date.
        invocation.fault = before
        return value
    return stale


def _make_error(fault: Fault, invocation: Invocation, *, called: bool) -> CallError:
    """The error for the caller; `called` if the tool was called, and may have done its work."""
    kind, text, effect = _ERRORS[fault.type]
    said, again = (None, None) if fault.rule is None else (fault.rule.message, fault.rule.retry_after)
    if again is None and fault.type == "rate_limit":
        again = _AGAIN
    message = said or text.format(invocation.tool.qualified_name)
    return kind(message, retry_after=again, effect=effect if called else "none")


_ERRORS: dict[str, tuple[type[CallError], str, Effect]] = {
    "network_error": (Unavailable, "the connection to {} was lost", "unknown"),
    "rate_limit": (Unavailable, "{} takes no more calls for now", "none"),
    "timeout": (CallTimeout, "{} did not answer in time", "unknown"),
    "auth": (ToolFailed, "{} refused the credentials it was given", "none"),
    "not_found": (ToolFailed, "{} found nothing there", "none"),
    "schema_violation": (InvalidOutput, "{} answered with something its output schema does not allow", "done"),
}
"""What each of them is, says, and means for a tool that was called."""


def _garble(fault: Fault, value: Any) -> str:
    """The beginning of what the text would have been; no JSON any more, and never empty."""
    if fault.rule is not None and fault.rule.message is not None:
        return f"<garbled: {fault.rule.message}>"
    text = msgspec.json.encode(value).decode()
    return f"<garbled: {text[: 1 + fault.draw % min(len(text), _LONGEST_GARBLED)]}>"


def _first_half(value: Any) -> Any:
    """The first half of it; what has no halves is missing."""
    if isinstance(value, dict):
        if len(value) == 1:
            return {key: _first_half(item) for key, item in value.items()}
        return dict(list(value.items())[: (len(value) + 1) // 2])
    return value[: len(value) // 2] if isinstance(value, list | str) else None


def _find_earlier(invocation: Invocation) -> tuple[bool, Any]:
    """The last answer that the session has of this very call; none for what changes something."""
    if invocation.tool.effects is Effects.WRITE:
        return False, None
    name, asked = invocation.tool.qualified_name, digest(msgspec.json.decode(invocation.bound.sent))
    for text in reversed(list(invocation.session.history)):
        entry = read_entry(text)
        result = entry.tool_output
        if result.name == name and not result.is_error and digest(entry.tool_call.arguments) == asked:
            return True, result.result
    return False, None
