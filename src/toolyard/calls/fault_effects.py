"""What a fault does to its call: before the tool is called, in its place, or to its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from toolyard.calls.faults import Fault
from toolyard.calls.invocation import Invocation
from toolyard.calls.result import plain_answer
from toolyard.model.call import Content
from toolyard.model.errors import CallError, CallTimeout, InvalidOutput, ToolFailed, Unavailable
from toolyard.model.tool import Effects, digest
from toolyard.sessions.history import read_entry

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


def check_time(invocation: Invocation, late: bool) -> None:
    """Raise if the wait was all the time there was."""
    if late:
        name = invocation.tool.qualified_name
        raise CallTimeout(f"{name} was kept waiting past its deadline, and was not called", effect="none")


@contextmanager
def own_failure_first(invocation: Invocation) -> Iterator[None]:
    """A tool that fails by itself has failed: what was planned for its answer then never happens."""
    fault = invocation.fault
    try:
        yield
    except CallError:
        if fault is not None and invocation.fault is fault and fault.type != "latency":
            invocation.fault = None
        raise


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
    """What the caller is told; `called` if the tool was, and may have done its work."""
    rule, name = fault.rule, invocation.tool.qualified_name
    said, again = (None, None) if rule is None else (rule.message, rule.retry_after)
    return _ERRORS[fault.type](said, name, again, called)


_Made = Callable[[str | None, str, float | None, bool], CallError]
_ERRORS: dict[str, _Made] = {
    "network_error": lambda said, name, again, called: Unavailable(
        said or f"the connection to {name} was lost", retry_after=again, effect="unknown" if called else "none"
    ),
    "rate_limit": lambda said, name, again, called: Unavailable(
        said or f"{name} takes no more calls for now", retry_after=_AGAIN if again is None else again
    ),
    "timeout": lambda said, name, again, called: CallTimeout(
        said or f"{name} did not answer in time", retry_after=again, effect="unknown" if called else "none"
    ),
    "auth": lambda said, name, again, called: ToolFailed(
        said or f"{name} refused the credentials it was given", retry_after=again, effect="none"
    ),
    "not_found": lambda said, name, again, called: ToolFailed(
        said or f"{name} found nothing there", retry_after=again, effect="none"
    ),
    "schema_violation": lambda said, name, again, called: InvalidOutput(
        said or f"{name} answered with something its output schema does not allow",
        retry_after=again,
        effect="done" if called else "none",
    ),
}


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
