"""`Trip`: one request through `GuardedClient`, from redirect to redirect; both its sides, sync and async, share it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import httpcore2

from toolyard.constants import VERSION
from toolyard.links.addresses import Blocked
from toolyard.links.client import HARMLESS, Incoming, Outgoing
from toolyard.links.decoding import ACCEPTED, Body, TooLargeError
from toolyard.links.faults import Circumstances, fault_of, headers_too_large, late
from toolyard.links.guard import Exchange, PlaceURL
from toolyard.links.streaming import Flow, flowing
from toolyard.links.urls import Target, read_url
from toolyard.model.errors import CallError, Effect, InvalidArguments, ToolFailed

if TYPE_CHECKING:
    from toolyard.links.client import GuardedClient
    from toolyard.links.swift import Where
    from toolyard.links.swift_line import SwiftResponse

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


class Trip:
    """The state of one `send`."""

    def __init__(self, client: GuardedClient, outgoing: Outgoing) -> None:
        self._client = client
        self._outgoing = outgoing
        self._begun = time.monotonic()
        self._redirects = 0
        self._repeats = 0
        self.exchange = Exchange()
        _check_method(outgoing.method)
        self._headers = _checked(outgoing.headers)
        self.target = self._clean(read_url(outgoing.url))

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

    def request(self, left: float | None) -> httpcore2.Request:
        """The request for where the trip has got to."""
        outgoing = self._outgoing
        target, raw, trusted = self._dressed()
        connect = CONNECT_SECONDS if left is None else min(left, CONNECT_SECONDS)
        return httpcore2.Request(
            outgoing.method,
            PlaceURL(target.scheme, target.host, target.port, target.path, trusted),
            headers=raw,
            content=outgoing.body,
            extensions={"timeout": {"pool": left, "connect": connect}},
        )

    def written(self) -> tuple[Where, bytes]:
        """The same as bytes, and where to."""
        target, raw, trusted = self._dressed()
        parts = [f"{self._outgoing.method} {target.path} HTTP/1.1".encode()]
        parts += [b"%s: %s" % item for item in raw]
        head = b"\r\n".join(parts) + b"\r\n\r\n"
        return (target.scheme, target.host, target.port, trusted), head + (self._outgoing.body or b"")

    def _dressed(self) -> tuple[Target, list[tuple[bytes, bytes]], bool]:
        """Where the next request goes, its headers, and whether the operator named that place."""
        outgoing, target = self._outgoing, self.target
        headers = list(self._headers)
        if outgoing.credential is not None:
            target = outgoing.credential.apply(target, headers)
        raw = [(b"host", target.authority.encode())]
        raw += [(name.encode(), value.encode()) for name, value in headers]
        if outgoing.body is not None or outgoing.method in _EXPECT_BODY:
            raw.append((b"content-length", str(len(outgoing.body or b"")).encode()))
        self.exchange.begin()
        return target, raw, self._client.rule.names(target.host, target.port, outgoing.named)

    def body(self, response: httpcore2.Response) -> Body:
        """Where the body of this answer is collected, if its head is acceptable."""
        encoding, declared = self._head(response)
        if self._outgoing.method != "HEAD" and declared.isdigit() and int(declared[:20]) > self._client.max_bytes:
            raise TooLargeError
        return Body(self._client.max_bytes, encoding)

    def flow(self, response: SwiftResponse) -> Flow | None:
        """The answer, to be read while it comes in; None if it is a redirect, which the trip has then followed."""
        encoding, _ = self._head(response)
        flow = Flow(self, response, flowing(encoding), self.target.url)
        self._noted(flow.status)
        return None if self._moved(flow.status, flow.headers) else flow

    def _head(self, response: httpcore2.Response | SwiftResponse) -> tuple[str, bytes]:
        """Content-encoding and content-length of an answer whose head is acceptable."""
        if response.status < _FIRST_FINAL:
            raise httpcore2.RemoteProtocolError("an unasked upgrade")
        self.exchange.answered = True
        limit = self._client.max_header_bytes
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

    def arrived(self, response: httpcore2.Response, body: Body) -> Incoming | None:
        """The answer; None if it is a redirect, which the trip has then followed."""
        data = body.whole()
        self._noted(response.status)
        headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers)
        if self._moved(response.status, headers):
            return None
        return Incoming(status=response.status, headers=headers, body=data, url=self.target.url)

    def goes_on(self, error: Exception) -> bool:
        """Whether to try again at once: the server hung up on a kept connection just when it was used again."""
        lost = isinstance(error, httpcore2.NetworkError) or "disconnected" in str(error)
        kept = self.exchange.sent and not self.exchange.fresh
        if not (lost and kept) or self.exchange.answered or self._outgoing.method not in HARMLESS:
            return False
        self._repeats += 1
        return self._repeats <= MAX_REPEATS

    def fault(self, error: Exception, limit: int | None = None) -> CallError | None:
        """The failure in our words; None if it is not the network's. `limit` is of bytes, if it is the caller's own."""
        deadline = self._outgoing.deadline
        now = Circumstances(
            origin=self.target.origin,
            effect=self.effect(),
            sent=self.exchange.sent,
            answered=self.exchange.answered,
            closed=self._client.closed,
            late=deadline is not None and time.monotonic() >= deadline,
            seconds=self.seconds(),
            connect_seconds=CONNECT_SECONDS,
            max_bytes=self._client.max_bytes if limit is None else limit,
            max_header_bytes=self._client.max_header_bytes,
        )
        return fault_of(error, now)

    def _noted(self, status: int) -> None:
        credential = self._outgoing.credential
        if status == _UNAUTHORIZED and credential is not None and self.needs_credential:
            credential.refused()

    def _moved(self, status: int, headers: tuple[tuple[str, str], ...]) -> bool:
        """Whether this is a redirect that the trip follows."""
        if status not in _REDIRECTS or self._outgoing.method not in HARMLESS:
            return False
        location = next((value for name, value in headers if name == "location"), None)
        if location is None:
            return False
        self._follow(location)
        return True

    def _follow(self, location: str) -> None:
        here = self.target.origin
        there = self._clean(self.target.redirected(location))
        if there.origin != here:
            raise Blocked(
                f"{here} redirects to {self._shown(there.origin)}: redirects to another origin are not followed",
                hint="if that is where the service is now, the operator sets it as the base URL",
            )
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            raise ToolFailed(f"{here} redirects more than {MAX_REDIRECTS} times", effect="none")
        self.target = there

    def _clean(self, target: Target) -> Target:
        """Without a key that a server might have sent back in a `Location`: what is kept here can be shown."""
        credential = self._outgoing.credential
        return target if credential is None else credential.clean(target)

    def _shown(self, origin: str) -> str:
        credential = self._outgoing.credential
        secrets = () if credential is None else credential.secrets
        return "another origin" if any(secret.lower() in origin for secret in secrets if secret) else origin

    def effect(self) -> Effect:
        """What the request may have done so far."""
        return "unknown" if self.exchange.sent and self._outgoing.method not in HARMLESS else "none"

    def seconds(self) -> float | None:
        """How long the request could take at most."""
        return None if self._outgoing.deadline is None else self._outgoing.deadline - self._begun


def _check_method(method: str) -> None:
    if not _TOKEN.fullmatch(method) or method.upper() == "CONNECT":
        raise InvalidArguments("the request's method is none that can be sent")


def _checked(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """The headers to send; `InvalidArguments` names the one that cannot be, and does not show its value."""
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise InvalidArguments("the name of a header holds characters that none may hold")
        if name.lower() in _OURS:
            raise InvalidArguments(f"the header {name!r} is not the caller's to set")
        if value.strip(" \t") != value:
            raise InvalidArguments(f"the value of header {name!r} begins or ends with a blank, which no header can")
        if _CONTROL.search(value) or not _encodable(value):
            raise InvalidArguments(f"the value of header {name!r} holds a line break or another control character")
    given = {name.lower() for name, _ in headers}
    return [*headers, *(item for item in _DEFAULTS if item[0] not in given)]


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
