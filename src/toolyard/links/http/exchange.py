"""One request of `GuardedClient` with its redirects, the response to it, and the mapping of failures."""

from __future__ import annotations

import errno
import re
import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus

import httpcore2

from toolyard.constants import VERSION
from toolyard.links.http.addresses import Blocked, Target, read_url
from toolyard.links.http.backend import EXCHANGE, AddressGuard, Exchange, TrustedURL, UnknownHostError
from toolyard.links.http.bodies import ACCEPTED, BodyError, DecodedBody, StreamedBody, TooLargeError, TruncatedError
from toolyard.links.http.messages import FRAMING_HEADERS, SAFE_METHODS, Credential, Outgoing, make_timeout_error
from toolyard.model.errors import CallError, CallTimeout, Effect, InvalidArguments, ToolFailed, Unavailable
from toolyard.schema.common_options import HTTP_TOKEN

CONNECT_SECONDS = 10.0
MAX_HEADER_BYTES = 64 * 1024
MAX_REDIRECTS = 5
MAX_REPEATS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_EXPECT_BODY = frozenset({"POST", "PUT", "PATCH"})

_UNSENDABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_DEFAULTS = (("accept", "*/*"), ("accept-encoding", ACCEPTED), ("user-agent", f"toolyard/{VERSION}"))


LIBRARY_ERRORS = (
    httpcore2.ConnectionNotAvailable,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    BodyError,
    OSError,
    RuntimeError,
)
"""Exceptions of an exchange that still have to be mapped to a `CallError`."""

_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ENETUNREACH: "network unreachable",
    errno.EADDRNOTAVAIL: "no such address can be reached from here",
    errno.EACCES: "not permitted here",
    errno.EPERM: "not permitted here",
}


class RedirectingRequest:
    """The state of one request of `GuardedClient`, across redirects and repeats."""

    def __init__(self, guard: AddressGuard, outgoing: Outgoing, begun: float) -> None:
        self.guard = guard
        self._outgoing = outgoing
        self._begun = begun
        self._redirects = 0
        self._repeats = 0
        self.connect_seconds = min(outgoing.connect_seconds or CONNECT_SECONDS, CONNECT_SECONDS)
        self.exchange = Exchange()
        self.method = outgoing.method
        if not HTTP_TOKEN.fullmatch(outgoing.method) or outgoing.method.upper() == "CONNECT":
            raise InvalidArguments("the request's method is invalid or not allowed")
        self._headers = _check_headers(outgoing.headers)
        self.target = self._strip_credential(read_url(outgoing.url))

    @property
    def credential(self) -> Credential | None:
        """The credential, if it is for the current target's origin."""
        credential = self._outgoing.credential
        return credential if credential is not None and credential.origin == self.target.origin else None

    def seconds_left(self) -> float | None:
        """Seconds until the deadline, None without one; raises `CallTimeout` if it has passed."""
        if self._outgoing.deadline is None:
            return None
        left = self._outgoing.deadline - time.monotonic()
        if left <= 0:
            raise make_timeout_error(self.origin, self.seconds, self.effect)
        return left

    def write_request(self) -> httpcore2.Request:
        """Build the library's request for the current target."""
        outgoing, target, left = self._outgoing, self.target, self.seconds_left()
        headers = list(self._headers)
        if (credential := self.credential) is not None:
            target = credential.attach(target, headers)
        raw = [(b"host", target.authority.encode())]
        raw += [(name.encode(), value.encode()) for name, value in headers]
        if outgoing.body is not None or outgoing.method in _EXPECT_BODY:
            raw.append((b"content-length", str(len(outgoing.body or b"")).encode()))
        trusted = self.guard.rule.lists(target.host, target.port, outgoing.named)
        connect = CONNECT_SECONDS if left is None else min(left, self.connect_seconds)
        self.exchange.begin()
        return httpcore2.Request(
            outgoing.method,
            TrustedURL(target.scheme, target.host, target.port, target.path, trusted),
            headers=raw,
            content=outgoing.body,
            extensions={"timeout": {"pool": left, "connect": connect}, EXCHANGE: self.exchange},
        )

    def open_answer(self, response: httpcore2.Response) -> StreamedAnswer | None:
        """Check the head and return the response; None if it is a redirect, to which the target is then set."""
        if response.status < HTTPStatus.OK:
            raise httpcore2.RemoteProtocolError("an unasked upgrade")
        names = [name.lower() for name, _ in response.headers]
        if b"content-length" in names and b"transfer-encoding" in names:
            # Two lengths for one message: a reader of the other one would take the rest for a response.
            raise httpcore2.RemoteProtocolError("two lengths")
        self.exchange.answered = True
        if sum(len(name) + len(value) + 4 for name, value in response.headers) > MAX_HEADER_BYTES:
            raise _make_header_error(self)
        answer = StreamedAnswer(self, response)
        if answer.status == HTTPStatus.UNAUTHORIZED and (credential := self.credential) is not None:
            credential.note_refusal()
        return None if self._follow_redirect(answer) else answer

    def retries_after(self, error: Exception) -> bool:
        """Whether to retry at once because the server closed a kept connection just as it was reused."""
        lost = isinstance(error, httpcore2.NetworkError) or "disconnected" in str(error)
        kept = self.exchange.sent and not self.exchange.fresh
        if not (lost and kept) or self.exchange.answered or not self._is_repeatable:
            return False
        self._repeats += 1
        return self._repeats <= MAX_REPEATS

    @property
    def _is_repeatable(self) -> bool:
        return self._outgoing.method in SAFE_METHODS and not self._outgoing.once

    def _follow_redirect(self, answer: StreamedAnswer) -> bool:
        """Whether the response is a redirect to follow; if so, set the target."""
        location = next((value for name, value in answer.headers if name == "location"), None)
        if answer.status not in _REDIRECTS or not self._is_repeatable or location is None:
            return False
        here = self.target.origin
        there = self._strip_credential(self.target.redirected(location))
        if there.origin != here:
            credential = self._outgoing.credential
            secrets = () if credential is None else credential.secrets
            shows = any(secret.lower() in there.origin for secret in secrets if secret)
            shown = "another origin" if shows else there.origin
            raise Blocked(
                f"{here} redirects to {shown}: redirects to another origin are not followed",
                hint="if that is where the service is now, the operator sets it as the base URL",
            )
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            raise ToolFailed(f"{here} redirects more than {MAX_REDIRECTS} times", effect="none")
        self.target = there
        return True

    def _strip_credential(self, target: Target) -> Target:
        """Remove a key that a `Location` header may have repeated, so that the target can be shown."""
        credential = self._outgoing.credential
        return target if credential is None else credential.strip(target)

    @property
    def origin(self) -> str:
        """The origin of the current target."""
        return self.target.origin

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self._outgoing.deadline is not None and time.monotonic() >= self._outgoing.deadline

    @property
    def effect(self) -> Effect:
        """What the request may have done so far."""
        return "unknown" if self.exchange.sent and self._outgoing.method not in SAFE_METHODS else "none"

    @property
    def seconds(self) -> float | None:
        """The time the request had in all; None without a deadline."""
        return None if self._outgoing.deadline is None else self._outgoing.deadline - self._begun


class StreamedAnswer:
    """A response whose head has arrived; the caller limits how much of the body is read.

    The body can be read once, by the task that opened it. Leaving `GuardedClient.astream` closes the connection if the
    body was not read to its end.
    """

    __slots__ = ("_request", "_response", "headers", "status", "url")

    def __init__(self, request: RedirectingRequest, response: httpcore2.Response) -> None:
        self._request = request
        self._response = response
        self.url = request.target.url
        """The final URL after redirects, without the credential."""
        self.status = response.status
        self.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers
        )

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    def header(self, name: str, default: str = "") -> str:
        """The first header of that name, which must be lower case."""
        return next((value for key, value in self.headers if key == name), default)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the decoded body chunk by chunk; failures are `CallError`s."""
        try:
            body = StreamedBody(self._encoding)
            async with aclosing(self._response.aiter_stream()) as pieces:
                async for piece in pieces:
                    if plain := body.decode(piece):
                        yield plain
            body.finish()
            return
        except LIBRARY_ERRORS as error:
            fault = explain_error(error, self._request)
            if fault is None:
                raise
        raise fault

    async def read_all(self, limit: int) -> bytes:
        """Read the whole body; `CallError` if it exceeds `limit` bytes, as received or decoded."""
        try:
            declared = self.header("content-length")
            if self._request.method != "HEAD" and declared.isdigit() and int(declared[:20]) > limit:
                raise TooLargeError(limit)
            body = DecodedBody(limit, self._encoding)
            async with aclosing(self._response.aiter_stream()) as pieces:
                async for piece in pieces:
                    body.add(piece)
            return body.finish()
        except LIBRARY_ERRORS as error:
            fault = explain_error(error, self._request)
            if fault is None:
                raise
        # Raised outside the handler, so that the library's exception is not chained to it.
        raise fault

    @property
    def _encoding(self) -> str:
        return ",".join(value for name, value in self.headers if name == "content-encoding")


def explain_error(error: Exception, request: RedirectingRequest) -> CallError | None:
    """Map a library exception to a `CallError` with origin and reason, but never an address, header or body.

    None if neither the network nor the server caused it.
    """
    if request.guard.closed:
        return Unavailable(
            f"the client was closed while {request.origin} was called", retryable=False, effect=request.effect
        )
    if isinstance(error, RuntimeError):
        return None
    if isinstance(error, BodyError):
        return _explain_body_error(error, request)
    if isinstance(error, httpcore2.TimeoutException | TimeoutError):
        if not request.exchange.placed:
            return CallTimeout(f"no connection for {request.origin} became free in time", effect="none")
        if isinstance(error, httpcore2.ConnectTimeout) and not request.is_late:
            return Unavailable(f"no connection to {request.origin} within {request.connect_seconds:.3g} s")
        return make_timeout_error(request.origin, request.seconds, request.effect)
    if isinstance(error, httpcore2.ConnectError):
        return _explain_connect_error(error, request)
    if isinstance(error, httpcore2.LocalProtocolError) and not request.exchange.sent:
        return Unavailable(f"the request to {request.origin} cannot be sent as HTTP", retryable=False)
    if isinstance(error, httpcore2.ProtocolError):
        return _explain_protocol_error(error, request)
    return _make_lost_error(request)


def _explain_body_error(error: BodyError, request: RedirectingRequest) -> ToolFailed:
    text = f"the answer of {request.origin} {error.problem}"
    return ToolFailed(text, hint=error.hint, retryable=error.retryable, effect=request.effect)


def _make_header_error(request: RedirectingRequest) -> ToolFailed:
    text = f"the headers of the answer of {request.origin} are larger than {MAX_HEADER_BYTES:,} bytes"
    return ToolFailed(text, effect=request.effect)


def _make_lost_error(request: RedirectingRequest) -> ToolFailed | Unavailable:
    if request.exchange.answered:
        return _explain_body_error(TruncatedError(), request)
    return Unavailable(f"lost the connection to {request.origin} before it answered", effect=request.effect)


def _explain_connect_error(error: httpcore2.ConnectError, request: RedirectingRequest) -> CallError:
    if isinstance(error, UnknownHostError):
        return Unavailable(f"cannot connect to {request.origin}: its host name does not resolve")
    cause = _first_cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = f"its certificate is not trusted: {cause.verify_message}"
        return Unavailable(f"cannot connect to {request.origin}: {reason}", retryable=False)
    if isinstance(cause, ssl.SSLError):
        return Unavailable(f"cannot connect to {request.origin}: TLS failed ({cause.reason or 'connection closed'})")
    reason = "no connection" if cause is None else _REASONS.get(cause.errno or 0, "no connection")
    return Unavailable(f"cannot connect to {request.origin}: {reason}")


def _first_cause(error: BaseException | None) -> OSError | None:
    """The innermost `OSError` of the chain, or None."""
    found = None
    while error is not None:
        if isinstance(error, OSError):
            found = error
        error = error.__cause__ or error.__context__
    return found


def _explain_protocol_error(error: Exception, request: RedirectingRequest) -> CallError:
    """Tell truncated responses from malformed ones, for which the library has only one exception."""
    text = str(error)
    if "buffer too long" in text and not request.exchange.answered:
        return _make_header_error(request)
    if "disconnected" in text or "closed connection" in text or "incomplete" in text:
        return _make_lost_error(request)
    if request.exchange.answered:
        text = f"the answer of {request.origin} continues with data that is not valid HTTP"
        return ToolFailed(text, effect=request.effect)
    return Unavailable(f"{request.origin} does not answer in HTTP", retryable=False, effect=request.effect)


def _check_headers(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Check the headers and add the defaults; `InvalidArguments` names an invalid one without showing its value."""
    for name, value in headers:
        if not HTTP_TOKEN.fullmatch(name):
            raise InvalidArguments("the name of a header contains invalid characters")
        if name.lower() in FRAMING_HEADERS:
            raise InvalidArguments(f"the header {name!r} is not the caller's to set")
        if value.strip(" \t") != value:
            raise InvalidArguments(f"the value of header {name!r} begins or ends with a blank, which no header can")
        if _UNSENDABLE.search(value):
            raise InvalidArguments(f"the value of header {name!r} holds a line break or another control character")
    given = {name.lower() for name, _ in headers}
    return [*headers, *(item for item in _DEFAULTS if item[0] not in given)]
