"""What an injected fault does to a call: it delays it, replaces its answer, or alters that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from toolyard.calls.faults import Fault
from toolyard.calls.invocation import Invocation
from toolyard.calls.result import plain_answer
from toolyard.model.call import Content
from toolyard.model.errors import CallError, CallTimeout, Effect, InvalidOutput, ToolFailed, Unavailable
from toolyard.model.tool import Effects, digest
from toolyard.sessions.history import read_entry

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
    name, asked = invocation.tool.qualified_name, digest(msgspec.json.decode(invocation.bound.sent))
    for text in reversed(list(invocation.session.history)):
        entry = read_entry(text)
        result = entry.tool_output
        if result.name == name and not result.is_error and digest(entry.tool_call.arguments) == asked:
            return True, result.result
    return False, None
