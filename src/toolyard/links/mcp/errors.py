"""Errors of connections to servers, as `CallError`s that name the server and the reason, without secrets."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from toolyard.links.http.messages import RETRYABLE, status_phrase
from toolyard.model.errors import CallError, CallTimeout, Effect, Interrupted, ToolFailed, Unavailable
from toolyard.words.redactor import Redactor

_SHOWN = 1000
_LARGEST_CODE = 2**63
_NOT_DONE = frozenset({429, 503})
_HINTS = {
    **dict.fromkeys((301, 302, 303, 307, 308), "a redirect elsewhere is not followed: give its target as the url"),
    401: "the server requires authentication: set 'auth' or 'headers'",
    403: "the credentials do not allow this, or the server refuses this address",
    404: "is the address right? An MCP server is often at /mcp or /sse",
    405: "is the address right? An MCP server is often at /mcp or /sse",
    421: "the server does not accept this host name; add it to its allowed hosts",
}


class SessionLostError(Exception):
    """The server does not know the session, so it did not execute the request. `fault` is its error, if any."""

    def __init__(self, fault: CallError | None = None) -> None:
        super().__init__("the session is lost")
        self.fault = fault


class RequestRefused(ToolFailed):
    """The server responded with a JSON-RPC error."""

    def __init__(self, message: str, number: int, data: Any, **options: Any) -> None:
        super().__init__(message, **options)
        self.number = number
        self.data = data


def make_rpc_error(name: str, error: Any, redactor: Redactor) -> CallError:
    """The exception for a JSON-RPC error; an error sent by another toolyard is restored."""
    fields = error if isinstance(error, dict) else {}
    data = fields.get("data")
    restored = CallError.from_wire(data["error"] if isinstance(data, dict) and data.keys() == {"error"} else data)
    if restored is not None:
        return restored
    number = fields.get("code")
    number = number if isinstance(number, int) and abs(number) < _LARGEST_CODE else 0
    said = error if isinstance(error, str) else fields.get("message")
    text = " ".join(redactor.text(said).split())[:_SHOWN] if isinstance(said, str) else ""
    details: dict[str, Any] = {"code": number}
    if data is not None:
        details["data"] = redactor.value(data)
    return RequestRefused(
        f"{name} refused the request ({number}){f': {text}' if text else ''}", number, data, details=details
    )


def make_status_error(name: str, status: int, said: str, redactor: Redactor, pause: float | None = None) -> CallError:
    """The exception for an HTTP error status, with the server's message and the pause that it asks for."""
    text = " ".join(redactor.text(said).split())[:_SHOWN]
    phrase = status_phrase(status)
    # Many servers only repeat the phrase.
    message = f"{name} answered {status}{phrase}{'' if text in phrase else f': {text}'}"
    was_taken = status < 300 or (status >= 500 and status not in _NOT_DONE)
    effect: Effect = "unknown" if was_taken else "none"
    details = {"status": status}
    if status in RETRYABLE:
        return Unavailable(message, effect=effect, retry_after=pause, details=details)
    return ToolFailed(message, effect=effect, hint=_HINTS.get(status), details=details)


def status_of(error: CallError) -> int:
    """The HTTP status in the error's details; 0 if there is none."""
    status = error.info.details.get("status")
    return status if isinstance(status, int) else 0


def is_refusal(error: CallError) -> bool:
    """Whether the server refuses the credentials, or the lack of them."""
    return status_of(error) in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def make_unreadable_error(name: str) -> ToolFailed:
    """The response is not a valid message."""
    return ToolFailed(f"the answer of {name} is no JSON-RPC message that can be read")


def make_size_error(name: str, limit: int) -> ToolFailed:
    """The response exceeds the size limit."""
    return ToolFailed(
        f"the answer of {name} is larger than {limit:,} bytes", hint="ask for less, or let the operator allow more"
    )


def make_connect_timeout(name: str, seconds: float) -> CallTimeout:
    """No first response within the connect timeout."""
    return CallTimeout(f"{name} did not answer within {seconds:g} s; connect_timeout gives it longer", effect="none")


def mark_without_effect(error: CallError) -> CallError:
    """Mark the error of a read-only call: whatever happened, nothing was changed."""
    if error.info.effect != "none":
        retryable = error.info.retryable or isinstance(error, Interrupted)
        error.info = msgspec.structs.replace(error.info, effect="none", retryable=retryable)
    return error


def mark_effect_unknown(error: CallError) -> CallError:
    """Mark the error of a call that the server may have executed: its effect is unknown."""
    if error.info.effect == "none":
        error.info = msgspec.structs.replace(error.info, effect="unknown")
    return error


def mark_unsent(error: CallError) -> CallError:
    """Mark the error of a connection attempt for callers: nothing of their call was sent."""
    retryable = error.info.retryable
    if isinstance(error, Interrupted | CallTimeout):
        error, retryable = Unavailable(error.info.message), True
    error.info = msgspec.structs.replace(error.info, effect="none", retryable=retryable)
    return error
