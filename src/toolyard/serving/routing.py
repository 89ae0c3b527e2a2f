"""`Operation`: one method of one path, for the router and for OpenAPI. `PathTable` finds it by the raw path.

Request bodies are read within limits on bytes and JSON values, and `read_json` parses them as the operation's type. A
JSON value may take two bytes on the wire and a hundred in memory, so values are counted before parsing. Handlers return
Starlette responses; `JsonResponse` encodes with msgspec.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast
from urllib.parse import quote, unquote_to_bytes
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET, UnsetType
from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.http_fault import HttpFault, make_overloaded
from toolyard.serving.identity import CALLER, Caller, Verb
from toolyard.serving.query import QueryParameter

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

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
        # Patterns with a suffix first: `x:invoke` calls x, and is never a tool of that name. Those for any depth last.
        self._patterns = sorted(
            patterns.items(), key=lambda item: (_takes_rest(item[0]), not any(suffix for _, suffix in item[0]))
        )
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
            raise self._make_method_not_allowed(scope["method"], methods)
        await app(scope, receive, send)

    def _make_method_not_allowed(self, method: str, methods: Mapping[str, ASGIApp]) -> HttpFault:
        allowed = [*sorted(methods), *(["HEAD"] if "GET" in methods else [])]
        # The paths that extend this one by a suffix, as `x:invoke` extends `x`, and allow the method.
        here = [path for path, known in self.paths.items() if known is methods]
        verbs = [path for path in self.paths if path.rpartition(":")[0] in here and method in self.paths[path]]
        return HttpFault(
            405,
            "request.method_not_allowed",
            f"{method[:32]} is not allowed here; allowed: {', '.join(allowed)}",
            hint=f"did you mean {' or '.join(f'{method} {path}' for path in verbs)}?" if verbs else None,
            headers=((b"allow", ", ".join(allowed).encode()),),
        )

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


_REST = ":path"
_Pattern = tuple[tuple[str, str | None], ...]
"""For each segment: the fixed text and None, or the parameter's name and the suffix after it. A last parameter such as
`{name:path}` takes all segments that are left."""


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


def _takes_rest(pattern: _Pattern) -> bool:
    return pattern[-1][0].endswith(_REST)


def _match_path(pattern: _Pattern, segments: tuple[str, ...]) -> dict[str, str] | None:
    last = len(pattern) - 1
    if _takes_rest(pattern) and len(segments) > last:
        segments = (*segments[:last], "/".join(segments[last:]))
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
        values[fixed.removesuffix(_REST)] = value
    return values


JSON = "application/json; charset=utf-8"
_encode = msgspec.json.Encoder().encode


class JsonResponse(JSONResponse):
    """Encodes `content` as JSON; bytes are sent unchanged."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        """Encode it with msgspec, which supports structs and dates."""
        return content if type(content) is bytes else _encode(content)


LARGE_BODY = 64 * 1024
"""Bodies above this many bytes are parsed in a thread, have their values counted, and are charged to the key's rate."""
BODY, BODY_HELD, MAX_DEPTH = "toolyard.body", "toolyard.body_held", "toolyard.max_depth"
"""Keys of the ASGI scope: the body once it is read, the bytes of the budget it holds until the request ends, and the
maximum depth of its JSON."""

_JSON = b"application/json"
_parse_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def read_body(
    request: Request, length: bytes | None, max_bytes: int, max_values: int | None, budget: BodyBudget
) -> bytes:
    """Read and return the body; raises 413 as soon as it is known to be too large or to have too many values.

    `length` is the `Content-Length` header.
    """
    if length is not None and length.isdigit() and int(length[:20]) > max_bytes:
        raise make_too_large(f"the request body is larger than {max_bytes:,} bytes", max_body_bytes=max_bytes)
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    body: bytes = message.get("body", b"")
    if message.get("more_body", False) or len(body) > min(LARGE_BODY, max_bytes):
        body = await _read_rest(request, body, message.get("more_body", False), max_bytes, max_values, budget)
    request.scope[BODY] = body
    return body


async def _read_rest(
    request: Request, chunk: bytes, more: bool, max_bytes: int, max_values: int | None, budget: BodyBudget
) -> bytes:
    counter = None if max_values is None else JsonValueCounter(max_values)
    chunks: list[bytes] = []
    size = 0
    try:
        while True:
            budget.take(len(chunk))
            size += len(chunk)
            chunks.append(chunk)
            if size > max_bytes:
                raise make_too_large(f"the request body is larger than {max_bytes:,} bytes", max_body_bytes=max_bytes)
            if counter is not None:
                counter.feed(chunk)
            if not more:
                return b"".join(chunks)
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, more = message.get("body", b""), message.get("more_body", False)
    finally:
        request.scope[BODY_HELD] = size


async def read_json(request: Request, shape: type[T]) -> tuple[T, Any]:
    """Parse the body that `read_body` has read; return it as `shape`, and as plain JSON."""
    if len(request.scope[BODY]) <= LARGE_BODY:
        return _parse_body(request, shape)
    # Large bodies are parsed in a thread, one at a time, so that other requests are served meanwhile.
    async with _parse_locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await asyncio.to_thread(_parse_body, request, shape)


def _parse_body(request: Request, shape: type[T]) -> tuple[T, Any]:
    try:
        document = parse_json(request.scope[BODY], what="body", max_depth=request.scope[MAX_DEPTH])
    except MalformedSource as error:
        raise HttpFault(400, "request.invalid_json", str(error)) from None
    if type(document) is not dict:
        raise HttpFault(400, "request.invalid_shape", "the body must be a JSON object")
    try:
        return (cast(T, document) if shape is dict else read_shape(document, shape)), document
    except msgspec.ValidationError as error:
        hint = f"{shape.__doc__} Fields of the body: {', '.join(getattr(shape, '__struct_encode_fields__', ()))}"
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: {error}", hint=hint) from None


def read_shape(document: dict[str, Any], shape: type[T]) -> T:
    """Convert plain JSON to `shape`. For an integer field 3.0 is valid, as in JSON Schema. Raises `ValidationError`."""
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError:
        whole = {name: int(value) for name, value in document.items() if type(value) is float and value.is_integer()}
        if not whole:
            raise
        return msgspec.convert(document | whole, shape)


def or_default(value: T | UnsetType, default: T) -> T:
    """Return a field's value, or the default if the field was left out."""
    return default if value is UNSET else value


def check_json_type(headers: Mapping[bytes, bytes]) -> None:
    """Raise 415 unless the content type is JSON. HTML forms cannot send JSON, so this also stops cross-site forms."""
    given = headers.get(b"content-type", b"")
    if given == _JSON:
        return
    kind, _, rest = given.partition(b";")
    if kind.strip().lower() == _JSON and rest.strip().lower() in (b"", b"charset=utf-8", b'charset="utf-8"'):
        return
    raise HttpFault(
        415, "request.unsupported_media_type", "the body must be sent as Content-Type: application/json (UTF-8)"
    )


class BodyBudget:
    """Limits the bytes of request bodies in memory, over all requests."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """Reserve `size` bytes; raises 429 if they exceed the budget."""
        if self.taken + size > self.most:
            raise make_overloaded("too many large bodies arrive at once; try again", 1)
        self.taken += size

    def give_back(self, size: int) -> None:
        """Release the bytes of a request that has ended."""
        self.taken -= size


_SLICE = 64 * 1024
"""Bytes to count at once, so that a large piece is refused before all of it is counted."""
_SPACE = b" \t\r\n"


class JsonValueCounter:
    """Counts the JSON values of one body, piece by piece, without parsing it.

    Every value but the outermost follows a comma or an opening bracket; brackets of empty containers and everything
    inside strings are not counted. For invalid JSON the count is meaningless, but the parser will reject that anyway.
    """

    __slots__ = ("_before", "_escape", "_inside", "count", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 1
        self._inside = False
        """Whether the next byte is inside a string."""
        self._escape = b""
        """A backslash at the end of the last piece, whose escaped character comes with the next."""
        self._before = b""
        """The last byte outside of strings, if no string has begun since: `[` and `]` may be in different pieces."""

    def feed(self, piece: bytes) -> None:
        """Count the values in a piece; raises `HttpFault` 413 as soon as there are more than `most`."""
        for start in range(0, len(piece), _SLICE):
            self._count(piece[start : start + _SLICE])
            if self.count > self.most:
                raise make_too_large(f"the body has more than {self.most:,} values", max_values=self.most)

    def _count(self, piece: bytes) -> None:
        if self._escape or b"\\" in piece:
            # Remove escaped backslashes first; a backslash then left before a quote escapes that quote.
            piece = (self._escape + piece).replace(b"\\\\", b"")
            self._escape = b"\\" if piece.endswith(b"\\") else b""
            piece = piece.removesuffix(b"\\").replace(b'\\"', b"")
        parts = piece.split(b'"')
        # Keep a quote for each string, or a list with a single string would look empty.
        outside = b'"'.join(parts[self._inside :: 2]).translate(None, _SPACE)
        if len(parts) % 2 == 0:
            self._inside = not self._inside
        if outside:
            self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
            outside = self._before + outside
            self.count -= outside.count(b"[]") + outside.count(b"{}")
        if len(parts) > 1 or outside:
            self._before = b"" if self._inside else outside[-1:]


def make_too_large(text: str, **limit: int) -> HttpFault:
    """Return the 413 for a body beyond a limit."""
    return HttpFault(413, "request.too_large", text, details=limit)
