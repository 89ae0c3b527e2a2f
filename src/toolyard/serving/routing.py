"""`Operation`: one method of one path, for the router and for OpenAPI. `PathTable` finds it by the raw path.

Handlers return Starlette responses; `JsonResponse` encodes with msgspec.
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
from toolyard.serving.identity import CALLER, Caller, Verb
from toolyard.serving.query import QueryParameter

F = TypeVar("F", bound=Callable[..., Any])

Handler = Callable[[Request], Awaitable[Response]]
StreamHandler = Callable[[Request, Send], Awaitable[Response | None]]
"""A handler that may stream its response through `send`; it then returns None."""
Access = Literal["key", "open", "page", "page-open"]
"""API with a key; API without a key; HTML page for signed-in users; HTML page without sign-in."""

_LONGEST = 8192
_REMEMBERED = 4096
_MARKS = "operations"
_METHODS = "toolyard.methods"
"""Key of the ASGI scope for the operations of the path."""


class Operation(msgspec.Struct, frozen=True):
    """One method of one path. A segment in braces matches any text, and may have a fixed suffix."""

    method: str
    path: str
    handler: Handler | StreamHandler
    summary: str
    body: Any = None
    """The type of the JSON request body; None if there is no body."""
    answers: Mapping[int, Any] = {}
    """Response types by status: a tuple for several, None without a body, a string for a media type."""
    errors: tuple[int, ...] = ()
    """Statuses of its error responses, besides those that any operation has."""
    query: tuple[QueryParameter, ...] = ()
    verb: Verb | None = None
    """The verb that a key needs in some namespace; the handler checks the namespace."""
    access: Access = "key"
    runs: bool = False
    """True if it runs tools, and so needs a place in `Service.admission`."""
    heavy: bool = False
    """True if it is an expensive read, which needs a place in `Service.reads`."""
    max_body: int | None = None
    """The maximum number of bytes in a body, if it is less than the server's limit."""
    body_needed: bool = True
    """False if the body is optional."""
    idempotent: bool = False
    """True if an `Idempotency-Key` header is honoured."""
    streams: bool = False
    """True if the handler is a `StreamHandler`."""
    shown: bool = True
    """False if it is left out of the OpenAPI document."""

    @property
    def is_page(self) -> bool:
        """True for HTML pages."""
        return self.access.startswith("page")


def operation(route: str, summary: str, **options: Any) -> Callable[[F], F]:
    """Mark a method as the handler of an `Operation`: `route` is its method and path, `options` the other fields."""

    def mark(handler: F) -> F:
        vars(handler).setdefault(_MARKS, []).insert(0, (*route.split(" "), summary, options))
        return handler

    return mark


def list_operations(*owners: object) -> list[Operation]:
    """Return the operations that `operation` has marked on the methods of these objects, in source order."""
    found = []
    for owner in owners:
        for name in vars(type(owner)):
            handler = getattr(owner, name)
            for method, path, summary, options in getattr(handler, _MARKS, ()):
                found.append(Operation(method, path, handler, summary, **options))
    return found


class PathTable(BaseRoute):
    """All operations as one Starlette route. It matches the raw path, so a name may contain a slash, spelt %2F.

    Fixed paths are looked up in a dict, patterns are tried in turn, and results are cached. Paths match whatever the
    method, so that a 405 can list the allowed methods.
    """

    def __init__(self, paths: Mapping[str, Mapping[str, ASGIApp]]) -> None:
        self.paths = paths
        patterns = {_compile_path(path): methods for path, methods in paths.items()}
        self._fixed = {
            tuple(fixed for fixed, _ in pattern): methods
            for pattern, methods in patterns.items()
            if all(suffix is None for _, suffix in pattern)
        }
        # Patterns with a suffix first: `x:invoke` calls x, and is never a tool of that name.
        self._patterns = sorted(patterns.items(), key=lambda item: not any(suffix for _, suffix in item[0]))
        self._find = lru_cache(maxsize=_REMEMBERED)(self._find_methods)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path, and add its percent-decoded parameters to the scope."""
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
        """Call the operation of the request's method; raises 405 if there is none."""
        methods: Mapping[str, ASGIApp] = scope[_METHODS]
        app = methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if app is None:
            raise _make_method_not_allowed(scope["method"], sorted(methods), self._find_verbs(scope["method"], methods))
        await app(scope, receive, send)

    def _find_verbs(self, method: str, methods: Mapping[str, ASGIApp]) -> list[str]:
        """Return the paths that extend this one by a suffix, as `x:invoke` extends `x`, and allow the method."""
        here = [path for path, known in self.paths.items() if known is methods]
        return [path for path in self.paths if path.rpartition(":")[0] in here and method in self.paths[path]]

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """Raise `NoMatchFound`: these routes have no names."""
        raise NoMatchFound(name, path_params)


def make_routes(operations: Iterable[Operation], make_app: Callable[[Operation], ASGIApp]) -> list[PathTable]:
    """Return the routes for Starlette's router."""
    paths: dict[str, dict[str, ASGIApp]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = make_app(operation)
    return [PathTable(paths)]


def base_url(request: Request, public_url: str | None) -> str:
    """Return the base URL of this application: `public_url`, or the one that the client used."""
    scope = request.scope
    host, root = request.headers.get("host", "localhost"), scope.get("root_path", "")
    return (public_url or f"{scope.get('scheme', 'http')}://{host}{root}").rstrip("/")


def caller_of(request: Request) -> Caller:
    """Return the `Caller` that the middleware has put into the scope."""
    caller: Caller = request.scope[CALLER]
    return caller


def path_value(request: Request) -> str:
    """Return the value of the first path parameter."""
    value: str = next(iter(request.path_params.values()))
    return value


_Pattern = tuple[tuple[str, str | None], ...]
"""For each segment: the fixed text and None, or the parameter's name and the suffix after it."""


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
    # Compared after decoding: a segment can be percent-encoded in more than one way.
    mount = root.strip("/")
    depths = range(root.count("/") + 2)
    segments = segments[next((depth for depth in depths if "/".join(segments[:depth]) == mount), 0) :] or [""]
    # A trailing slash is ignored.
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


def _make_method_not_allowed(method: str, known: list[str], verbs: list[str]) -> HttpFault:
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
    """Encodes `content` as JSON; bytes are sent unchanged."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        """Encode it with msgspec, which supports structs and dates."""
        return content if type(content) is bytes else _encode(content)
