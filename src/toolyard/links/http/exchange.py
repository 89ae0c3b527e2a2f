"""One request through `GuardedClient`, from redirect to redirect, and the answer that is read while it comes in."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import httpcore2
import msgspec

from toolyard.constants import VERSION
from toolyard.links.http.addresses import AddressRule, Blocked
from toolyard.links.http.backend import EXCHANGE, Exchange, TrustedURL
from toolyard.links.http.decoding import ACCEPTED, DecodedBody, StreamedBody, TooLargeError
from toolyard.links.http.errors import LIBRARY, Circumstances, explain_error, headers_too_large, late
from toolyard.links.http.messages import HARMLESS, Incoming, Outgoing
from toolyard.links.http.url import Target, read_url
from toolyard.model.errors import CallError, Effect, InvalidArguments, ToolFailed

CONNECT_SECONDS = 10.0
MAX_REDIRECTS = 5
MAX_REPEATS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FIRST_FINAL = 200
_UNAUTHORIZED = 401
_EXPECT_BODY = frozenset({"POST", "PUT", "PATCH"})

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS = frozenset(
    {
        *("connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that say where a message ends, or whom it is for: one that differs from the truth is an attack."""
_DEFAULTS = (("accept", "*/*"), ("accept-encoding", ACCEPTED), ("user-agent", f"toolyard/{VERSION}"))


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a request needs to know of the client that sends it."""

    rule: AddressRule
    max_bytes: int
    max_header_bytes: int
    is_closed: Callable[[], bool]


class RedirectingRequest:
    """The state of one `send`."""

    def __init__(self, limits: ClientLimits, outgoing: Outgoing, begun: float) -> None:
        self._limits = limits
        self._outgoing = outgoing
        self._begun = begun
        self._redirects = 0
        self._repeats = 0
        self._connect_seconds = min(outgoing.connect_seconds or CONNECT_SECONDS, CONNECT_SECONDS)
        self.exchange = Exchange()
        _check_method(outgoing.method)
        self._headers = _check_headers(outgoing.headers)
        self.target = self._strip_credential(read_url(outgoing.url))

    @property
    def needs_credential(self) -> bool:
        """Whether the credential is meant for where this goes."""
        credential = self._outgoing.credential
        return credential is not None and credential.origin == self.target.origin

    def left(self) -> float | None:
        """Seconds until the deadline; `CallTimeout` if there are none."""
        if self._outgoing.deadline is None:
            return None
        left = self._outgoing.deadline - time.monotonic()
        if left <= 0:
            raise late(self.target.origin, self.seconds(), self.effect())
        return left

    def write_request(self, left: float | None) -> httpcore2.Request:
        """The request for where the redirects have led to."""
        outgoing, target = self._outgoing, self.target
        headers = list(self._headers)
        if outgoing.credential is not None:
            target = outgoing.credential.apply(target, headers)
        raw = [(b"host", target.authority.encode())]
        raw += [(name.encode(), value.encode()) for name, value in headers]
        if outgoing.body is not None or outgoing.method in _EXPECT_BODY:
            raw.append((b"content-length", str(len(outgoing.body or b"")).encode()))
        trusted = self._limits.rule.names(target.host, target.port, outgoing.named)
        connect = CONNECT_SECONDS if left is None else min(left, self._connect_seconds)
        self.exchange.begin()
        return httpcore2.Request(
            outgoing.method,
            TrustedURL(target.scheme, target.host, target.port, target.path, trusted),
            headers=raw,
            content=outgoing.body,
            extensions={"timeout": {"pool": left, "connect": connect}, EXCHANGE: self.exchange},
        )

    def open_body(self, response: httpcore2.Response) -> DecodedBody:
        """Where the body of this answer is collected, if its head is acceptable."""
        encoding, declared = self._read_head(response)
        if self._outgoing.method != "HEAD" and declared.isdigit() and int(declared[:20]) > self._limits.max_bytes:
            raise TooLargeError
        return DecodedBody(self._limits.max_bytes, encoding)

    def open_stream(self, response: httpcore2.Response) -> StreamedAnswer | None:
        """The answer, to be read while it comes in; None if it is a redirect, which has then been followed."""
        encoding, _ = self._read_head(response)
        answer = StreamedAnswer(self, response, StreamedBody(encoding), self.target.url)
        self._note_status(answer.status)
        return None if self._follow_redirect(answer.status, answer.headers) else answer

    def _read_head(self, response: httpcore2.Response) -> tuple[str, bytes]:
        """Content-encoding and content-length of an answer whose head is acceptable."""
        if response.status < _FIRST_FINAL:
            raise httpcore2.RemoteProtocolError("an unasked upgrade")
        names = [name.lower() for name, _ in response.headers]
        if b"content-length" in names and b"transfer-encoding" in names:
            # Two ends for one message: whoever reads the other one finds an answer in what follows.
            raise httpcore2.RemoteProtocolError("two lengths")
        self.exchange.answered = True
        limit = self._limits.max_header_bytes
        if sum(len(name) + len(value) + 4 for name, value in response.headers) > limit:
            raise headers_too_large(self.target.origin, limit, self.effect())
        encodings, declared = [], b""
        for name, value in response.headers:
            lower = name.lower()
            if lower == b"content-encoding":
                encodings.append(value.decode("latin-1"))
            elif lower == b"content-length":
                declared = value
        return ",".join(encodings), declared

    def finish(self, response: httpcore2.Response, body: DecodedBody) -> Incoming | None:
        """The answer; None if it is a redirect, which has then been followed."""
        data = body.whole()
        self._note_status(response.status)
        headers = _decode_headers(response)
        if self._follow_redirect(response.status, headers):
            return None
        return Incoming(status=response.status, headers=headers, body=data, url=self.target.url)

    def retries_after(self, error: Exception) -> bool:
        """Whether to try again at once: the server hung up on a kept connection just when it was used again."""
        lost = isinstance(error, httpcore2.NetworkError) or "disconnected" in str(error)
        kept = self.exchange.sent and not self.exchange.fresh
        if not (lost and kept) or self.exchange.answered or not self._is_repeatable:
            return False
        self._repeats += 1
        return self._repeats <= MAX_REPEATS

    def explain(self, error: Exception, limit: int | None = None) -> CallError | None:
        """The failure in our words; None if it is not the network's. `limit` is of bytes, if it is the caller's own."""
        deadline = self._outgoing.deadline
        now = Circumstances(
            origin=self.target.origin,
            effect=self.effect(),
            placed=self.exchange.placed,
            sent=self.exchange.sent,
            answered=self.exchange.answered,
            closed=self._limits.is_closed(),
            late=deadline is not None and time.monotonic() >= deadline,
            seconds=self.seconds(),
            connect_seconds=self._connect_seconds,
            max_bytes=self._limits.max_bytes if limit is None else limit,
            max_header_bytes=self._limits.max_header_bytes,
        )
        return explain_error(error, now)

    @property
    def _is_repeatable(self) -> bool:
        return self._outgoing.method in HARMLESS and not self._outgoing.once

    def _note_status(self, status: int) -> None:
        credential = self._outgoing.credential
        if status == _UNAUTHORIZED and credential is not None and self.needs_credential:
            credential.refused()

    def _follow_redirect(self, status: int, headers: tuple[tuple[str, str], ...]) -> bool:
        """Whether this is a redirect that is followed."""
        if status not in _REDIRECTS or not self._is_repeatable:
            return False
        location = next((value for name, value in headers if name == "location"), None)
        if location is None:
            return False
        self._move_to(location)
        return True

    def _move_to(self, location: str) -> None:
        here = self.target.origin
        there = self._strip_credential(self.target.redirected(location))
        if there.origin != here:
            raise Blocked(
                f"{here} redirects to {self._hide_secrets(there.origin)}: redirects to another origin are not followed",
                hint="if that is where the service is now, the operator sets it as the base URL",
            )
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            raise ToolFailed(f"{here} redirects more than {MAX_REDIRECTS} times", effect="none")
        self.target = there

    def _strip_credential(self, target: Target) -> Target:
        """Without a key that a server might have sent back in a `Location`: what is kept here can be shown."""
        credential = self._outgoing.credential
        return target if credential is None else credential.clean(target)

    def _hide_secrets(self, origin: str) -> str:
        credential = self._outgoing.credential
        secrets = () if credential is None else credential.secrets
        return "another origin" if any(secret.lower() in origin for secret in secrets if secret) else origin

    def effect(self) -> Effect:
        """What the request may have done so far."""
        return "unknown" if self.exchange.sent and self._outgoing.method not in HARMLESS else "none"

    def seconds(self) -> float | None:
        """How long the request could take at most."""
        return None if self._outgoing.deadline is None else self._outgoing.deadline - self._begun


class StreamedAnswer:
    """One answer whose head is there. How much of its body is read is for the caller to limit.

    It is read by the task that opened it, and hung up on when that leaves `GuardedClient.astream`.
    """

    __slots__ = ("_body", "_request", "_response", "headers", "status", "url")

    def __init__(self, request: RedirectingRequest, response: httpcore2.Response, body: StreamedBody, url: str) -> None:
        self._request = request
        self._response = response
        self._body = body
        self.url = url
        """Where it comes from, without the credential."""
        self.status = response.status
        self.headers = _decode_headers(response)

    def header(self, name: str, default: str = "") -> str:
        """The first header of that name, in lower case."""
        return next((value for key, value in self.headers if key == name), default)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, decoded; what goes wrong is a `CallError`."""
        try:
            async with aclosing(self._response.aiter_stream()) as pieces:
                async for piece in pieces:
                    if plain := self._body.decode(piece):
                        yield plain
            self._body.whole()
            return
        except LIBRARY as error:
            fault = self._request.explain(error)
            if fault is None:
                raise
        raise fault

    async def read_all(self, limit: int) -> bytes:
        """All of the body; `CallError` if it is larger than the limit."""
        body = DecodedBody(limit)
        try:
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    body.add(chunk)
            return body.whole()
        except LIBRARY as error:
            fault = self._request.explain(error, limit)
            if fault is None:
                raise
        raise fault


def _decode_headers(response: httpcore2.Response) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers)


def _check_method(method: str) -> None:
    if not _TOKEN.fullmatch(method) or method.upper() == "CONNECT":
        raise InvalidArguments("the request's method is none that can be sent")


def _check_headers(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """The headers to send; `InvalidArguments` names the one that cannot be, and does not show its value."""
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise InvalidArguments("the name of a header holds characters that none may hold")
        if name.lower() in _OURS:
            raise InvalidArguments(f"the header {name!r} is not the caller's to set")
        if value.strip(" \t") != value:
            raise InvalidArguments(f"the value of header {name!r} begins or ends with a blank, which no header can")
        if _CONTROL.search(value) or not _is_encodable(value):
            raise InvalidArguments(f"the value of header {name!r} holds a line break or another control character")
    given = {name.lower() for name, _ in headers}
    return [*headers, *(item for item in _DEFAULTS if item[0] not in given)]


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
