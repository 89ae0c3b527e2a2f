"""`Route` and `Router`: which handler answers a request, and what the OpenAPI document says about it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec

from toolyard.serving.faults import HttpFault
from toolyard.serving.principal import Verb
from toolyard.serving.request import Request
from toolyard.serving.response import Response
from toolyard.serving.service import Service

Handler = Callable[[Service, Request], Awaitable[Response]]
Access = Literal["key", "open", "page", "page-open"]
"""With an API key; without one; as a page for people, who sign in; as a page that needs no sign-in."""

_REMEMBERED = 4096
_LONGEST = 8192


class Parameter(msgspec.Struct, frozen=True):
    """One query parameter and its JSON Schema."""

    name: str
    schema: dict[str, Any]
    description: str
    repeatable: bool = False

    def check(self, values: list[str]) -> None:
        """Refuse what the schema does not allow; numbers are checked where they are read."""
        if len(values) > 1 and not self.repeatable:
            raise HttpFault(400, "request.invalid_query", f"{self.name} is given {len(values)} times; give it once")
        most = self.schema.get("maxLength")
        if most is not None and any(len(value) > most for value in values):
            raise HttpFault(400, "request.invalid_query", f"{self.name} is longer than {most} characters")
        if self.schema.get("minLength") and not all(values):
            raise HttpFault(400, "request.invalid_query", f"{self.name} must not be empty")
        pattern = self.schema.get("pattern")
        if pattern is not None and not all(re.fullmatch(pattern, value) for value in values):
            raise HttpFault(400, "request.invalid_query", f"{self.name} must match {pattern}")
        allowed = self.schema.get("enum")
        if allowed is not None and not set(values) <= set(allowed):
            raise HttpFault(400, "request.invalid_query", f"{self.name} must be one of {', '.join(allowed)}")


class Route(msgspec.Struct, frozen=True):
    """One method of one path. A segment in braces stands for any text; it may be followed by a fixed suffix."""

    method: str
    path: str
    handler: Handler
    summary: str
    body: Any = None
    """The type a request's JSON body is read as; None if there is none."""
    answers: Mapping[int, Any] = {}
    """Types of the answers by status; several in a tuple, None for one without a body, text for a media type."""
    query: tuple[Parameter, ...] = ()
    verb: Verb | None = None
    """What a key must be allowed somewhere; where exactly is the handler's matter."""
    access: Access = "key"
    runs: bool = False
    """True if tools run for it, so that it has to wait for a place among those that run."""
    heavy: bool = False
    """True if reading it may cost much, so that keys take turns in it."""
    max_body: int | None = None
    """Bytes that a body may have, where that is less than the server allows."""
    idempotent: bool = False
    """True if an `Idempotency-Key` header is honoured."""
    shown: bool = True
    """False if the OpenAPI document does not speak of it."""


class Found(msgspec.Struct, frozen=True):
    """A route and the values of its braces, percent-decoded."""

    route: Route
    values: tuple[str, ...]


class Router:
    """Finds routes by method and raw path: a slash inside a name is spelt %2F."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._patterns = [(_pattern(route.path), route) for route in self.routes]
        self._found: dict[tuple[str, bytes], Found] = {}

    def find(self, request: Request) -> Found:
        """The route; 404 if no route has that path, 405 with `Allow` if none has that method."""
        raw: bytes = request.scope["raw_path"]
        method = "GET" if request.method == "HEAD" else request.method
        found = self._found.get((method, raw))
        if found is None:
            found = self._look(method, raw)
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[method, raw] = found
        return found

    def _look(self, method: str, raw: bytes) -> Found:
        if len(raw) > _LONGEST:
            raise HttpFault(414, "request.uri_too_long", f"the path is longer than {_LONGEST:,} bytes")
        segments = _segments(raw)
        matching = [
            (pattern, values, route)
            for pattern, route in self._patterns
            if (values := _match(pattern, segments)) is not None
        ]
        # `x:invoke` is the call of x, never a tool of that name.
        narrow = [found for found in matching if any(part.suffix for part in found[0])]
        for _, values, route in narrow or matching:
            if route.method == method:
                return Found(route, values)
        if matching:
            raise _not_allowed(method, sorted({route.method for _, _, route in narrow or matching}))
        raise HttpFault(
            404, "route.not_found", "nothing is served at this path", hint="GET /openapi.json lists what is"
        )


def _not_allowed(method: str, known: list[str]) -> HttpFault:
    allowed = [*known, "HEAD"] if "GET" in known else known
    return HttpFault(
        405,
        "request.method_not_allowed",
        f"{method[:32]} is not allowed here; allowed: {', '.join(allowed)}",
        headers=((b"allow", ", ".join(allowed).encode()),),
    )


class _Part(msgspec.Struct, frozen=True):
    """One segment of a template: fixed text, or anything before a fixed suffix."""

    fixed: str = ""
    suffix: str | None = None


def _pattern(path: str) -> tuple[_Part, ...]:
    parts = []
    for segment in path.strip("/").split("/"):
        if segment.startswith("{"):
            parts.append(_Part(suffix=segment.partition("}")[2]))
        else:
            parts.append(_Part(segment))
    return tuple(parts)


def _segments(raw: bytes) -> list[str]:
    try:
        text = [unquote_to_bytes(segment).decode() for segment in raw.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise HttpFault(400, "request.invalid_path", "the path is not percent-encoded UTF-8") from None
    # A slash at the end is a slip, not another resource.
    return text[:-1] if len(text) > 1 and not text[-1] else text


def _match(pattern: tuple[_Part, ...], segments: list[str]) -> tuple[str, ...] | None:
    if len(pattern) != len(segments):
        return None
    values: list[str] = []
    for part, segment in zip(pattern, segments, strict=True):
        if part.suffix is None:
            if part.fixed != segment:
                return None
            continue
        value = segment.removesuffix(part.suffix)
        if not value or (part.suffix and value == segment):
            return None
        values.append(value)
    return tuple(values)
