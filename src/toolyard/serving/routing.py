"""`Operation`: one method of one path, for OpenAPI and for the router; `PathTable` finds it by the raw path.

Handlers answer with Starlette responses; `JsonResponse` encodes with msgspec.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeVar
from urllib.parse import quote, unquote_to_bytes

import msgspec
from starlette.datastructures import URLPath
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import CALLER, Caller
from toolyard.serving.query import QueryParameter
from toolyard.serving.scopes import Verb

F = TypeVar("F", bound=Callable[..., Any])

Handler = Callable[[Request], Awaitable[Response]]
StreamHandler = Callable[[Request, Send], Awaitable[Response | None]]
"""For a handler that may answer with a stream, by `send`; it then returns None."""
Access = Literal["key", "open", "page", "page-open"]
"""With an API key; without one; as a page for people, who sign in; as a page that needs no sign-in."""

_LONGEST = 8192
_REMEMBERED = 4096
_MARKS = "operations"
_METHODS = "toolyard.methods"
"""Where the scope of a request has the operations of its path."""


class Operation(msgspec.Struct, frozen=True):
    """One method of one path. A segment in braces stands for any text; it may be followed by a fixed suffix."""

    method: str
    path: str
    handler: Handler | StreamHandler
    summary: str
    body: Any = None
    """The type a request's JSON body is read as; None if there is none."""
    answers: Mapping[int, Any] = {}
    """Types of the answers by status; several in a tuple, None for one without a body, text for a media type."""
    query: tuple[QueryParameter, ...] = ()
    verb: Verb | None = None
    """What a key must be allowed somewhere; where exactly is the handler's matter."""
    access: Access = "key"
    runs: bool = False
    """True if tools run for it, so that it has to wait for a place among those that run."""
    heavy: bool = False
    """True if reading it may cost much, so that keys take turns in it."""
    max_body: int | None = None
    """Bytes that a body may have, where that is less than the server allows."""
    body_needed: bool = True
    """False if a request may come without the body."""
    idempotent: bool = False
    """True if an `Idempotency-Key` header is honoured."""
    streams: bool = False
    """True if its handler is a `StreamHandler`."""
    shown: bool = True
    """False if the OpenAPI document does not speak of it."""

    @property
    def is_page(self) -> bool:
        """True if people look at it, not programs."""
        return self.access.startswith("page")


def operation(route: str, summary: str, **options: Any) -> Callable[[F], F]:
    """Mark a method as the handler of an `Operation`: `route` is its method and path, `options` its other fields."""

    def mark(handler: F) -> F:
        vars(handler).setdefault(_MARKS, []).insert(0, (*route.split(" "), summary, options))
        return handler

    return mark


def list_operations(*owners: object) -> list[Operation]:
    """What the methods of these objects are marked as, in the order in which they stand there."""
    found = []
    for owner in owners:
        for name in vars(type(owner)):
            handler = getattr(owner, name)
            for method, path, summary, options in getattr(handler, _MARKS, ()):
                found.append(Operation(method, path, handler, summary, **options))
    return found


class PathTable(BaseRoute):
    """All operations as one route of Starlette, found by the raw path: a slash inside a name is spelt %2F.

    A fixed path is looked up, however many there are; the few with values in them are tried in turn; what was found
    for a path is remembered. A path that is there is found whatever the method, so that a 405 can say which there are.
    """

    def __init__(self, paths: Mapping[str, Mapping[str, ASGIApp]]) -> None:
        self.paths = paths
        patterns = {_compile_path(path): methods for path, methods in paths.items()}
        self._fixed = {
            tuple(fixed for fixed, _ in pattern): methods
            for pattern, methods in patterns.items()
            if all(suffix is None for _, suffix in pattern)
        }
        # Those with a suffix behind a value first: `x:invoke` is the call of x, never a tool of that name.
        self._patterns = sorted(patterns.items(), key=lambda item: not any(suffix for _, suffix in item[0]))
        self._find = lru_cache(maxsize=_REMEMBERED)(self._find_methods)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether there are operations of that path, and what stands in its braces, percent-decoded."""
        if scope["type"] != "http":
            return Match.NONE, {}
        found = self._find(scope.get("raw_path") or quote(scope["path"]).encode(), scope.get("root_path", ""))
        return (Match.NONE, {}) if found is None else (Match.FULL, {"path_params": {**found[0]}, _METHODS: found[1]})

    def _find_methods(self, raw: bytes, root: str) -> tuple[dict[str, str], Mapping[str, ASGIApp]] | None:
        segments = _split_path(raw, root)
        if (fixed := self._fixed.get(segments)) is not None:
            return {}, fixed
        matched = ((_match_path(pattern, segments), methods) for pattern, methods in self._patterns)
        return next(((values, methods) for values, methods in matched if values is not None), None)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse a method that is not served here."""
        methods: Mapping[str, ASGIApp] = scope[_METHODS]
        app = methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if app is None:
            raise _method_not_allowed(scope["method"], sorted(methods), self._find_verbs(scope["method"], methods))
        await app(scope, receive, send)

    def _find_verbs(self, method: str, methods: Mapping[str, ASGIApp]) -> list[str]:
        """The paths that go on where this one ends, as `x:invoke` behind `x`, and take the method."""
        here = [path for path, known in self.paths.items() if known is methods]
        return [path for path in self.paths if path.rpartition(":")[0] in here and method in self.paths[path]]

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """Routes have no names here."""
        raise NoMatchFound(name, path_params)


def make_routes(operations: Iterable[Operation], make_app: Callable[[Operation], ASGIApp]) -> list[PathTable]:
    """What Starlette's router takes."""
    paths: dict[str, dict[str, ASGIApp]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = make_app(operation)
    return [PathTable(paths)]


def base_url(request: Request, public_url: str | None) -> str:
    """The address of this application: the configured one, or the one that the client has reached it by."""
    scope = request.scope
    host, root = request.headers.get("host", "localhost"), scope.get("root_path", "")
    return (public_url or f"{scope.get('scheme', 'http')}://{host}{root}").rstrip("/")


def caller_of(request: Request) -> Caller:
    """Who makes a request; the middleware has put it there."""
    caller: Caller = request.scope[CALLER]
    return caller


def path_value(request: Request) -> str:
    """What stands in the first braces of the path."""
    value: str = next(iter(request.path_params.values()))
    return value


_Pattern = tuple[tuple[str, str | None], ...]
"""For each segment its fixed text and None; or the name in its braces and the suffix behind them."""


def _compile_path(path: str) -> _Pattern:
    parts: list[tuple[str, str | None]] = []
    for segment in path.strip("/").split("/"):
        name, brace, suffix = segment.removeprefix("{").partition("}")
        parts.append((name, suffix) if brace else (segment, None))
    return tuple(parts)


def _split_path(raw: bytes, root: str) -> tuple[str, ...]:
    if len(raw) > _LONGEST:
        raise HttpFault(414, "request.uri_too_long", f"the path is longer than {_LONGEST:,} bytes")
    try:
        segments = [unquote_to_bytes(segment).decode() for segment in raw.removeprefix(b"/").split(b"/")]
    except UnicodeDecodeError:
        raise HttpFault(400, "request.invalid_path", "the path is not percent-encoded UTF-8") from None
    # Compared as they read: there is more than one way to spell a segment.
    mount = root.strip("/")
    depths = range(root.count("/") + 2)
    segments = segments[next((depth for depth in depths if "/".join(segments[:depth]) == mount), 0) :] or [""]
    # A slash at the end is a slip, not another resource.
    return tuple(segments[:-1] if len(segments) > 1 and not segments[-1] else segments)


def _match_path(pattern: _Pattern, segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    values: dict[str, str] = {}
    for (fixed, suffix), segment in zip(pattern, segments, strict=True):
        if suffix is None:
            if fixed != segment:
                return None
            continue
        value = segment.removesuffix(suffix)
        if not value or (suffix and value == segment):
            return None
        values[fixed] = value
    return values


def _method_not_allowed(method: str, known: list[str], verbs: list[str]) -> HttpFault:
    allowed = [*known, "HEAD"] if "GET" in known else known
    return HttpFault(
        405,
        "request.method_not_allowed",
        f"{method[:32]} is not allowed here; allowed: {', '.join(allowed)}",
        hint=f"did you mean {' or '.join(f'{method} {path}' for path in verbs)}?" if verbs else None,
        headers=((b"allow", ", ".join(allowed).encode()),),
    )


JSON = "application/json; charset=utf-8"


_encode = msgspec.json.Encoder().encode


class JsonResponse(JSONResponse):
    """`content` as JSON; bytes are JSON already."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        """Encode it, structs and dates included."""
        return content if type(content) is bytes else _encode(content)
