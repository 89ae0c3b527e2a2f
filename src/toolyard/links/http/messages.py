"""What goes out and what comes back, and the credential that goes along: what every part of `links/http` shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NoReturn

import msgspec

from toolyard.links.http.url import Target, read_origin
from toolyard.model.errors import ConfigError
from toolyard.parsing import parse_json

MAX_DEPTH = 256
"""Levels of an answer: a value as deep as a tool may return, and what is around it."""
HARMLESS = frozenset({"GET", "HEAD"})
"""Methods that change nothing, so that they may be repeated and follow redirects."""

FRAMING_HEADERS = frozenset(
    {
        *("connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that say where a message ends, or whom it is for: one that differs from the truth is an attack."""

Headers = list[tuple[str, str]]


class Credential(ABC):
    """Something secret for one origin, `https://host[:port]`.

    `GuardedClient` attaches it to requests for that origin and to no other. It shows its kind and origin, never what
    it holds, and cannot be pickled.
    """

    def __init__(self, origin: str) -> None:
        try:
            self.origin = read_origin(origin)
        except ValueError as error:
            raise ConfigError(f"a credential is for one origin such as 'https://api.example.com': {error}") from None

    @property
    @abstractmethod
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere, in the spellings in which it is sent."""

    @abstractmethod
    def attach(self, target: Target, headers: Headers) -> Target:
        """Add to the headers, or return a changed target. Called for the credential's own origin only."""

    def apply(self, target: Target, headers: Headers) -> Target:
        """`attach` if the target is of the credential's origin; else nothing happens."""
        return self.attach(target, headers) if target.origin == self.origin else target

    def clean(self, target: Target) -> Target:
        """The target without what `attach` put into it."""
        return target

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:  # noqa: B027 - most need nothing
        """Get what is needed before the request can be sent."""

    def refused(self) -> None:  # noqa: B027 - most cannot do anything about it
        """The origin answered 401."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self.origin}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("credentials are not pickled or copied: they stay where they were made")


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One request. The URL is percent-encoded already; what is not URL syntax is refused."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    deadline: float | None = None
    """By `time.monotonic`; None means that only connecting is limited."""
    connect_seconds: float | None = None
    """For connecting, where that is to end before the deadline does: then it is known that nothing was sent."""
    credential: Credential | None = None
    named: tuple[str, ...] = ()
    """`host` or `host:port`, spelled as in `AddressRule.of(...).hosts`, that the operator named for this call."""
    once: bool = False
    """Sent once: redirects are answers, and a lost connection is a failure. Both are then the caller's to see to."""

    def __repr__(self) -> str:
        # URL, headers and body may hold secrets.
        return f"<Outgoing {self.method} {self.credential or ''}>"


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, whole and decoded; header names are in lower case, in the order they came, repeated if they were."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str
    """Where it came from in the end, without the credential."""

    def header(self, name: str, default: str = "") -> str:
        """The first header of that name, in lower case."""
        return next((value for key, value in self.headers if key == name), default)

    def json(self, what: str = "answer") -> Any:
        """The body as strict JSON; `MalformedSource` if it is not."""
        return parse_json(self.body, what=what, max_depth=MAX_DEPTH)


Send = Callable[[Outgoing], Awaitable[Incoming]]


def status_phrase(status: int) -> str:
    """` Not Found`, to be put behind a number; nothing for one that has no name."""
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def set_header(headers: Headers, name: str, value: str) -> None:
    """Set the header, instead of any of that name."""
    headers[:] = [item for item in headers if item[0].lower() != name.lower()]
    headers.append((name, value))


RETRYABLE = frozenset({408, 425, 429, 502, 503, 504})
"""Not now, these say, rather than no."""
_LONGEST = 86_400.0
_DIGITS = 9


def retry_after(text: str, now: float) -> float | None:
    """Seconds that `Retry-After` asks to wait, at most a day; None if it says nothing that can be understood."""
    text = text.strip()
    if not text:
        return None
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text[:_DIGITS]), _LONGEST)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return min(max(moment.timestamp() - now, 0.0), _LONGEST)
    except (ValueError, OverflowError):
        return None
