"""Runs an engine under its limits: gates, retries and injected faults."""

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
"""Maximum seconds before a retry of a call without a deadline; a service may ask for a day."""


def answer_flow(engine: Answerer, invocation: Invocation, faults: FaultPlan | None, *, on_loop: bool) -> Flow:
    """Have an engine answer, with injected faults, gates and retries; raises `CallError`."""
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
        # The tool failed by itself, so the fault that was planned for its answer did not happen.
        if invocation.fault is fault and fault.type != "latency":
            invocation.fault = None
        raise
    return alter_answer(fault, invocation, value, engine.settings.max_result_bytes)


def _tries_flow(engine: Answerer, invocation: Invocation, on_loop: bool) -> Flow:
    """Call the engine through its gates, with as many retries as its settings allow."""
    gates = engine.gates.of(invocation.tool.qualified_name)
    # Keep a copy: the tool may change its arguments, and a retry must not see that.
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
    """Seconds to wait before a retry; None if the call must not be retried or the deadline would pass first."""
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
    """Return the places that one attempt took in the gates; abandoned work keeps them until it ends."""
    left = invocation.left_behind
    if left is None:
        _leave_all(gates)
    else:
        left.add_done_callback(lambda _: _leave_all(gates))


def _gate_full(invocation: Invocation) -> Unavailable:
    """The error for a call that got no place in a gate before its deadline."""
    return Unavailable(
        f"{invocation.tool.qualified_name} reached its deadline while waiting: the maximum number of calls is running",
        hint="try again later, or raise max_concurrent_calls",
    )


def _leave_all(gates: list[Gate]) -> None:
    for gate in reversed(gates):
        gate.leave()


_LONGEST_GARBLED = 200
_AGAIN = 1.0
"""Default `retry_after` of an injected rate limit, in seconds."""


def wait_for_fault(fault: Fault, invocation: Invocation) -> tuple[float, bool]:
    """Mark the call with its fault. Returns the delay in seconds, and whether the delay reaches the deadline."""
    invocation.fault = fault
    seconds = 0.0 if fault.rule is None else fault.rule.seconds
    remaining = invocation.remaining
    if remaining is None or seconds < remaining:
        return seconds, False
    return remaining, True


def answer_instead(fault: Fault, invocation: Invocation) -> Any:
    """The answer of a fault that replaces the call; raises its error unless the fault is an unparseable result."""
    if fault.type == "unparseable_result":
        return _garble(fault, {"name": invocation.tool.qualified_name, "arguments": invocation.arguments})
    raise _make_error(fault, invocation, called=False)


@contextmanager
def behind_a_cassette(invocation: Invocation) -> Iterator[None]:
    """Hide this side's planned fault from an engine behind a cassette. Restored unless that engine set its own."""
    planned, invocation.fault = invocation.fault, None
    try:
        yield
    finally:
        invocation.fault = invocation.fault or planned


def alter_answer(fault: Fault, invocation: Invocation, value: Any, max_bytes: int) -> Any:
    """Apply a fault to the tool's answer; raises if the fault loses the answer."""
    if fault.type == "latency":
        return value
    # A fault set by an engine behind a cassette is restored below if this one changes nothing.
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
        # No earlier answer exists that could be served as stale.
        invocation.fault = before
        return value
    return stale


def _make_error(fault: Fault, invocation: Invocation, *, called: bool) -> CallError:
    """The error for the caller. `called`: the tool was called and may have taken effect."""
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
"""Error class, message, and effect if the tool was called, by fault type."""


def _garble(fault: Fault, value: Any) -> str:
    """The beginning of the value's JSON text, marked so that it is not valid JSON and never empty."""
    if fault.rule is not None and fault.rule.message is not None:
        return f"<garbled: {fault.rule.message}>"
    text = msgspec.json.encode(value).decode()
    return f"<garbled: {text[: 1 + fault.draw % min(len(text), _LONGEST_GARBLED)]}>"


def _first_half(value: Any) -> Any:
    """The first half of an object, list or text; None for other values."""
    if isinstance(value, dict):
        if len(value) == 1:
            return {key: _first_half(item) for key, item in value.items()}
        return dict(list(value.items())[: (len(value) + 1) // 2])
    return value[: len(value) // 2] if isinstance(value, list | str) else None


def _find_earlier(invocation: Invocation) -> tuple[bool, Any]:
    """Whether the session has an answer to the same call, and the last one; never for tools that write."""
    if invocation.tool.effects is Effects.WRITE:
        return False, None
    name, asked = invocation.tool.qualified_name, digest(msgspec.json.decode(invocation.bound.sent))
    for text in reversed(list(invocation.session.history)):
        entry = read_entry(text)
        result = entry.tool_output
        if result.name == name and not result.is_error and digest(entry.tool_call.arguments) == asked:
            return True, result.result
    return False, None
