"""What went wrong on the wire, in our words: origin and reason, never an address, a header or a body."""

from __future__ import annotations

import errno
import ssl

import httpcore2
import msgspec

from toolyard.links.http.decoding import CrumbsError, TooLargeError, TruncatedError, UndecodableError
from toolyard.links.http.guard import UnknownHostError
from toolyard.model.errors import CallError, CallTimeout, Effect, ToolFailed, Unavailable

LIBRARY = (
    httpcore2.ConnectionNotAvailable,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    CrumbsError,
    OSError,
    RuntimeError,
    TooLargeError,
    TruncatedError,
    UndecodableError,
)
"""What an exchange may raise that is no `CallError` yet."""

_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ENETUNREACH: "network unreachable",
    errno.EADDRNOTAVAIL: "no such address can be reached from here",
    errno.EACCES: "not permitted here",
    errno.EPERM: "not permitted here",
}


class Circumstances(msgspec.Struct, kw_only=True):
    """What is known of an exchange when it fails."""

    origin: str
    effect: Effect
    """What the request may have done so far."""
    placed: bool
    """A connection was its own."""
    sent: bool
    """Something of the request has left."""
    answered: bool
    """The answer's head is there."""
    closed: bool
    """The client was closed meanwhile."""
    late: bool
    """The deadline has passed."""
    seconds: float | None
    """How long the request could take at most."""
    connect_seconds: float
    max_bytes: int
    max_header_bytes: int


def explain_error(error: Exception, now: Circumstances) -> CallError | None:
    """The failure to raise; None if the error is not the network's or the server's."""
    if now.closed:
        return Unavailable(f"the client was closed while {now.origin} was called", retryable=False, effect=now.effect)
    if isinstance(error, RuntimeError):
        return None
    if isinstance(error, TooLargeError):
        return too_large(now.origin, now.max_bytes, now.effect)
    if isinstance(error, CrumbsError):
        return ToolFailed(f"the answer of {now.origin} comes in too many small pieces", effect=now.effect)
    if isinstance(error, UndecodableError):
        return ToolFailed(f"the answer of {now.origin} is not encoded as it says", effect=now.effect)
    if isinstance(error, TruncatedError):
        return _truncated_answer(now)
    if isinstance(error, httpcore2.TimeoutException | TimeoutError):
        return _explain_timeout(error, now)
    if isinstance(error, httpcore2.ConnectError):
        return _not_connected(error, now)
    if isinstance(error, httpcore2.LocalProtocolError) and not now.sent:
        return Unavailable(f"the request to {now.origin} cannot be sent as HTTP", retryable=False)
    if isinstance(error, httpcore2.ProtocolError):
        return _explain_protocol_error(error, now)
    return _truncated_answer(now) if now.answered else _lost_connection(now)


def too_large(origin: str, limit: int, effect: Effect) -> ToolFailed:
    """The body is over the limit."""
    return ToolFailed(
        f"the answer of {origin} is larger than {limit:,} bytes",
        hint="ask for less, or let the operator allow more",
        effect=effect,
    )


def headers_too_large(origin: str, limit: int, effect: Effect) -> ToolFailed:
    """The head is over the limit."""
    return ToolFailed(f"the headers of the answer of {origin} are larger than {limit:,} bytes", effect=effect)


def late(origin: str, seconds: float | None, effect: Effect) -> CallTimeout:
    """The deadline has passed."""
    within = "in time" if seconds is None else f"within {max(seconds, 0.0):.3g} s"
    return CallTimeout(f"{origin} did not answer {within}", effect=effect)


def _explain_timeout(error: Exception, now: Circumstances) -> CallError:
    if not now.placed:
        return CallTimeout(f"no connection for {now.origin} became free in time", effect="none")
    if isinstance(error, httpcore2.ConnectTimeout) and not now.late:
        return Unavailable(f"no connection to {now.origin} within {now.connect_seconds:.3g} s")
    return late(now.origin, now.seconds, now.effect)


def _not_connected(error: httpcore2.ConnectError, now: Circumstances) -> CallError:
    if isinstance(error, UnknownHostError):
        return Unavailable(f"cannot connect to {now.origin}: its name stands for no address")
    cause = _first_cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = f"its certificate is not trusted: {cause.verify_message}"
        return Unavailable(f"cannot connect to {now.origin}: {reason}", retryable=False)
    if isinstance(cause, ssl.SSLError):
        return Unavailable(f"cannot connect to {now.origin}: no TLS ({cause.reason or 'cut short'})")
    reason = "no connection" if cause is None else _REASONS.get(cause.errno or 0, "no connection")
    return Unavailable(f"cannot connect to {now.origin}: {reason}")


def _first_cause(error: BaseException | None) -> OSError | None:
    """The system's own error, around which libraries wrap theirs."""
    found = None
    while error is not None:
        if isinstance(error, OSError):
            found = error
        error = error.__cause__ or error.__context__
    return found


def _explain_protocol_error(error: Exception, now: Circumstances) -> CallError:
    """The library has one exception for an answer that ends too early and for one that is no HTTP."""
    text = str(error)
    if "buffer too long" in text and not now.answered:
        return headers_too_large(now.origin, now.max_header_bytes, now.effect)
    if "disconnected" in text or "closed connection" in text or "incomplete" in text:
        return _truncated_answer(now) if now.answered else _lost_connection(now)
    if now.answered:
        return ToolFailed(f"the answer of {now.origin} breaks off into something that is no HTTP", effect=now.effect)
    return Unavailable(f"{now.origin} does not answer in HTTP", retryable=False, effect=now.effect)


def _truncated_answer(now: Circumstances) -> ToolFailed:
    return ToolFailed(f"the answer of {now.origin} ends before it is whole", retryable=True, effect=now.effect)


def _lost_connection(now: Circumstances) -> Unavailable:
    return Unavailable(f"lost the connection to {now.origin} before it answered", effect=now.effect)
