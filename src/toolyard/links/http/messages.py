"""Requests, responses, credentials and media types: what all of `links/http` shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Literal, NoReturn

import msgspec

from toolyard.links.http.addresses import Target, read_origin
from toolyard.model.errors import CallTimeout, ConfigError, Effect
from toolyard.parsing import parse_json

MAX_DEPTH = 256
"""Nesting levels of a JSON body: the deepest value a tool may return, plus its envelope."""
SAFE_METHODS = frozenset({"GET", "HEAD"})
"""Methods without side effects, which may be repeated and may follow redirects."""

FRAMING_HEADERS = frozenset(
    {
        *("connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that define a message's length, connection or recipient; a caller that set them could smuggle requests."""

Headers = list[tuple[str, str]]


class Credential(ABC):
    """A secret bound to one origin, `https://host[:port]`.

    `GuardedClient` attaches it to requests for that origin only. Its repr shows kind and origin but never the secret,
    and it cannot be pickled.
    """

    def __init__(self, origin: str) -> None:
        try:
            self.origin = read_origin(origin)
        except ValueError as error:
            raise ConfigError(f"a credential is for one origin such as 'https://api.example.com': {error}") from None

    @property
    @abstractmethod
    def secrets(self) -> tuple[str, ...]:
        """Values that must never appear in logs or errors, in every encoding in which they are sent."""

    @abstractmethod
    def attach(self, target: Target, headers: Headers) -> Target:
        """Add the secret to the headers, or return a changed target. Called for the credential's own origin only."""

    def strip(self, target: Target) -> Target:
        """Remove from the target what `attach` added."""
        return target

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:  # noqa: B027 - most need nothing
        """Fetch whatever is needed before the request can be sent, such as a token."""

    def note_refusal(self) -> None:  # noqa: B027 - most cannot do anything about it
        """Called when the origin answered 401."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self.origin}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("credentials are not pickled or copied: they stay where they were made")


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One request. The URL must be percent-encoded already; anything else is refused."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    deadline: float | None = None
    """A `time.monotonic` value; None limits only the time for connecting."""
    connect_seconds: float | None = None
    """Limit for connecting, if shorter than the deadline: a failure then proves that nothing was sent."""
    credential: Credential | None = None
    named: tuple[str, ...] = ()
    """`host` or `host:port`, as in `AddressRule.of(...).hosts`: allowed by the operator for this request."""
    once: bool = False
    """Never repeat the request: redirects are returned and a lost connection fails."""

    def __repr__(self) -> str:
        # URL, headers and body may contain secrets.
        return f"<Outgoing {self.method} {self.credential or ''}>"


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """One complete, decoded response. Header names are lower case; order and repetition are preserved."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str
    """The final URL after redirects, without the credential."""

    def header(self, name: str, default: str = "") -> str:
        """The first header of that name, which must be lower case."""
        return next((value for key, value in self.headers if key == name), default)

    def json(self, what: str = "answer") -> Any:
        """Parse the body as strict JSON; `MalformedSource` if it is not."""
        return parse_json(self.body, what=what, max_depth=MAX_DEPTH)


Send = Callable[[Outgoing], Awaitable[Incoming]]


def make_timeout_error(name: str, seconds: float | None, effect: Effect = "unknown") -> CallTimeout:
    """No answer before the deadline, which left so many seconds: rounded, since a clock read late shows a bit less."""
    within = "in time" if seconds is None else f"within {max(seconds, 0.0):{'.2g' if seconds < 10 else '.0f'}} s"
    return CallTimeout(f"{name} did not answer {within}", effect=effect)


def status_phrase(status: int) -> str:
    """The phrase with a leading space, such as ` Not Found`; empty for unknown codes."""
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def set_header(headers: Headers, name: str, value: str) -> None:
    """Set the header, replacing all of that name."""
    headers[:] = [item for item in headers if item[0].lower() != name.lower()]
    headers.append((name, value))


RETRYABLE = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses of temporary failures."""
_LONGEST = 86_400.0
_DIGITS = 9


def retry_after(text: str, now: float) -> float | None:
    """Seconds to wait by a `Retry-After` header, at most a day; None if it is missing or malformed."""
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


MediaKind = Literal["json", "form", "multipart", "text", "binary"]

_ORDER: tuple[MediaKind, ...] = ("json", "form", "multipart", "text", "binary")
_TEXTS = frozenset(
    f"application/{name}"
    for name in (
        *("xml", "yaml", "x-yaml", "toml", "csv", "rtf", "sql", "graphql", "javascript", "ecmascript", "x-sh"),
        *("ndjson", "x-ndjson", "jsonl", "x-jsonlines", "json-seq", "jwt", "jose", "jose+json"),
    )
)
_ANYTHING = frozenset({"*/*", "application/*", "*"})
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"})
_LONGEST_NAME = 127
"""Longest type and subtype, in characters, by RFC 6838."""


def bare_media_type(media_type: str) -> str:
    """The type without parameters, in lower case; `application/octet-stream` if it is too long to be valid."""
    name = media_type.partition(";")[0].strip().lower()
    return name if len(name) <= 2 * _LONGEST_NAME + 1 else "application/octet-stream"


@lru_cache(maxsize=1024)
def media_kind(media_type: str) -> MediaKind:
    """The kind of body of a media type; wildcards count as JSON."""
    name = bare_media_type(media_type)
    if name in _TEXTS:
        return "text"
    if name in ("application/json", "text/json") or name in _ANYTHING or name.endswith("+json"):
        return "json"
    if name == "application/x-www-form-urlencoded":
        return "form"
    if name.startswith("multipart/"):
        return "multipart"
    if name.startswith("text/") or name.endswith(("+xml", "+yaml", "/xml")) or name == "message/rfc822":
        return "text"
    return "binary"


@lru_cache(maxsize=1024)
def charset_of(media_type: str) -> str | None:
    """Python's name of the type's charset; None if it is missing or unknown."""
    import codecs

    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                found = codecs.lookup(value.strip().strip("\"'"))
            except (LookupError, ValueError):
                return None
            # Some of Python's codecs map bytes to bytes, or do not decode whole texts.
            return found.name if getattr(found, "_is_text_encoding", True) and found.name not in _NO_CHARSETS else None
    return None


_USUAL = frozenset(
    {
        *("application/json", "multipart/form-data", "text/plain", "text/xml", "application/xml", "message/rfc822"),
        "application/octet-stream",
    }
)
"""The common types, preferred over others of the same kind."""


def choose_media_type(media_types: Iterable[str]) -> str | None:
    """Choose the media type to use: JSON, then forms, text, binary; common types first within a kind. None if empty."""
    known = list(media_types)
    if len(known) == 1:
        return known[0]
    return min(known, key=_rank_media_type) if known else None


def _rank_media_type(media_type: str) -> tuple[int, bool, bool]:
    name = bare_media_type(media_type)
    return _ORDER.index(media_kind(media_type)), name in _ANYTHING, name not in _USUAL


def concrete_media_type(media_type: str) -> str:
    """Replace a wildcard by a type that a request can send."""
    if "*" not in media_type:
        return media_type
    if media_kind(media_type) == "json":
        return "application/json"
    return "text/plain" if bare_media_type(media_type).startswith("text/") else "application/octet-stream"
