"""`answer_flow`: calls an engine through its gates, with retries and injected faults.

A fault delays a call, replaces its answer, or alters that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import CoroutineType
from typing import Any

import msgspec

from toolyard.calls.call_path import Answerer
from toolyard.calls.faults import Fault, FaultPlan
from toolyard.calls.invocation import Invocation
from toolyard.calls.result import plain_answer
from toolyard.calls.waits import Flow, await_coroutine, call_engine, enter_gate, pause, run_in_thread
from toolyard.loop.pacing import backoff_delay
from toolyard.model.call import Content
from toolyard.model.errors import CallError, CallTimeout, Effect, InvalidOutput, ToolFailed, Unavailable
from toolyard.model.tool import Effects, digest
from toolyard.parsing.json_text import json_decoder
from toolyard.sessions.gate import Gate
from toolyard.sessions.history import read_entry

_decode = json_decoder()
_LONGEST_PAUSE = 60.0
"""Maximum seconds before a retry of a call without a deadline; a service may ask for a day."""


def answer_flow(engine: Answerer, invocation: Invocation, faults: FaultPlan | None, *, on_loop: bool) -> Flow:
    """Have an engine answer, with injected faults, gates and retries; raises `CallError`."""
    fault, name = None, invocation.tool.qualified_name
    if faults is not None:
        fault = faults.decide(name, invocation.session, invocation.mode)
    if fault is None:
        return (yield from _tries_flow(engine, invocation, on_loop))
    invocation.fault = fault
    wait, remaining = 0.0 if fault.rule is None else fault.rule.seconds, invocation.remaining
    late = remaining is not None and wait >= remaining
    if wait:
        yield pause(min(wait, wait if remaining is None else remaining))
    if late:
        raise CallTimeout(f"{name} was kept waiting past its deadline, and was not called", effect="none")
    if fault.type == "unparseable_result" and fault.replaces_call:
        return _garble(fault, {"name": name, "arguments": invocation.arguments})
    if fault.replaces_call:
        raise _make_error(fault, invocation, called=False)
    try:
        value = yield from _tries_flow(engine, invocation, on_loop)
    except CallError:
        # The tool failed by itself, so the fault that was planned for its answer did not happen.
        if invocation.fault is fault and fault.type != "latency":
            invocation.fault = None
        raise
    return _alter_answer(fault, invocation, value, engine.settings.max_result_bytes)


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
                    raise Unavailable(
                        f"{invocation.tool.qualified_name} reached its deadline while waiting: the maximum number of "
                        "calls is running",
                        hint="try again later, or raise max_concurrent_calls",
                    )
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
            if invocation.left_behind is None:
                _leave_gates(inside)
            else:
                # Abandoned work keeps the places until it ends.
                invocation.left_behind.add_done_callback(partial(_leave_gates, inside))
        yield pause(seconds)
        invocation.attempt += 1
        invocation.arguments = _decode(arguments)
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


def _leave_gates(gates: list[Gate], _ended: object = None) -> None:
    """Return the places that one attempt took."""
    for gate in reversed(gates):
        gate.leave()


_LONGEST_GARBLED = 200
_AGAIN = 1.0
"""Default `retry_after` of an injected rate limit, in seconds."""


@contextmanager
def behind_a_cassette(invocation: Invocation) -> Iterator[None]:
    """Hide this side's planned fault from an engine behind a cassette. Restored unless that engine set its own."""
    planned, invocation.fault = invocation.fault, None
    try:
        yield
    finally:
        invocation.fault = invocation.fault or planned


def _alter_answer(fault: Fault, invocation: Invocation, value: Any, max_bytes: int) -> Any:
    """Apply a fault to the tool's answer; raises if the fault loses the answer."""
    if fault.type == "latency":
        return value
    # A fault set by an engine behind a cassette is restored below if this one changes nothing.
    before = None if invocation.fault is fault else invocation.fault
    invocation.fault = fault
    if not fault.alters_answer:
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
    name, asked = invocation.tool.qualified_name, digest(_decode(invocation.bound.sent))
    for text in reversed(list(invocation.session.history)):
        entry = read_entry(text)
        result = entry.tool_output
        if result.name == name and not result.is_error and digest(entry.tool_call.arguments) == asked:
            return True, result.result
    return False, None
