"""`Operation`: one method of one path, as OpenAPI tells of it and as a route of Starlette; and answers as JSON.

What a request says is read here, too: its query parameters, and its body within limits of size and of values.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, cast
from urllib.parse import parse_qsl, quote, unquote_to_bytes
from weakref import WeakKeyDictionary

import msgspec
from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.admission import BodyBudget, JsonValueCounter, refuse_size
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import CALLER, Caller, Verb

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

LARGE_BODY = 64 * 1024
"""Bytes of a body from which on it is parsed beside the event loop, its values are counted, and its key is charged."""
BODY, BODY_HELD, MAX_DEPTH = "toolyard.body", "toolyard.body_held", "toolyard.max_depth"
"""Where the scope of a request has its body, once it is read, how much of the budget it holds until the request is
over, and how deep its JSON may be."""

DIGEST_BYTES = 12
"""Of what seals a cursor."""
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number in a cursor, as every store can hold it."""

_JSON = b"application/json"
_larges: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_canonical = msgspec.json.Encoder(order="sorted").encode


async def read_body(
    request: Request, length: bytes | None, max_bytes: int, max_values: int | None, budget: BodyBudget
) -> bytes:
    """The body; 413 as soon as it is known to be too large, or to hold too many values, however it is framed.

    `length` is what the request's header says.
    """
    if length is not None and length.isdigit() and int(length[:20]) > max_bytes:
        raise refuse_size(f"the request body is larger than {max_bytes:,} bytes", max_body_bytes=max_bytes)
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    body: bytes = message.get("body", b"")
    if message.get("more_body", False) or len(body) > min(LARGE_BODY, max_bytes):
        body = await _read_on(request, body, message.get("more_body", False), max_bytes, max_values, budget)
    request.scope[BODY] = body
    return body


async def _read_on(
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
                raise refuse_size(f"the request body is larger than {max_bytes:,} bytes", max_body_bytes=max_bytes)
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
    """The body, which is there, as `shape`, and as the plain JSON it was."""
    if len(request.scope[BODY]) <= LARGE_BODY:
        return _parse_body(request, shape)
    # Whoever else is served gets in between its steps; of such work there is one at a time.
    async with _larges.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
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
    """Plain JSON as `shape`; where that has an integer 3.0 is one, as in JSON Schema. Raises `ValidationError`."""
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError:
        whole = {name: int(value) for name, value in document.items() if type(value) is float and value.is_integer()}
        if not whole:
            raise
        return msgspec.convert(document | whole, shape)


def check_json_type(headers: Mapping[bytes, bytes]) -> None:
    """415 unless the body says that it is JSON, which no form of a foreign page can."""
    given = headers.get(b"content-type", b"")
    if given == _JSON:
        return
    kind, _, rest = given.partition(b";")
    if kind.strip().lower() == _JSON and rest.strip().lower() in (b"", b"charset=utf-8", b'charset="utf-8"'):
        return
    raise HttpFault(
        415, "request.unsupported_media_type", "the body must be sent as Content-Type: application/json (UTF-8)"
    )


def digest_json(*parts: Any) -> bytes:
    """Equal for equal JSON, whatever the order of its keys."""
    return hashlib.sha256(_canonical(parts)).digest()


def write_cursor(digest: bytes, *place: int | str) -> str:
    """The text for a place in the list that the digest stands for; sealed, so that one of another list is refused."""
    return base64.urlsafe_b64encode(_seal_place(digest, _canonical(place))).decode().rstrip("=")


def read_cursor(digest: bytes, cursor: str, kind: type[T]) -> T | None:
    """The place, of a kind such as `tuple[Position]`; None if the cursor is not of this list, or was made up."""
    try:
        sealed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        place = sealed[:-DIGEST_BYTES]
        # By its type: whoever knows the filters can seal what they like.
        return msgspec.json.decode(place, type=kind) if sealed == _seal_place(digest, place) else None
    except (ValueError, msgspec.DecodeError):
        return None


def _seal_place(digest: bytes, place: bytes) -> bytes:
    return place + hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()


_QUERY = "toolyard.query"
_MAX_PARAMETERS = 100
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
"""As JSON writes numbers."""


class QueryParameter(msgspec.Struct, frozen=True):
    """One query parameter and its JSON Schema."""

    name: str
    schema: dict[str, Any]
    description: str
    repeatable: bool = False

    def check(self, values: list[str]) -> None:
        """Refuse what the schema does not allow; numbers are checked where they are read."""
        if len(values) > 1 and not self.repeatable:
            raise _invalid_query(f"{self.name} is given {len(values)} times; give it once")
        most = self.schema.get("maxLength")
        if most is not None and any(len(value) > most for value in values):
            raise _invalid_query(f"{self.name} is longer than {most} characters")
        if self.schema.get("minLength") and not all(values):
            raise _invalid_query(f"{self.name} must not be empty")
        pattern = self.schema.get("pattern")
        if pattern is not None and not all(re.fullmatch(pattern, value) for value in values):
            raise _invalid_query(f"{self.name} must match {pattern}")
        allowed = self.schema.get("enum")
        if allowed is not None and not set(values) <= set(allowed):
            raise _invalid_query(f"{self.name} must be one of {', '.join(allowed)}")


def check_query(parameters: Sequence[QueryParameter], request: Request) -> None:
    """Refuse parameters that are not known, and values that theirs do not allow."""
    known = {parameter.name: parameter for parameter in parameters}
    for name, values in read_query(request).items():
        if name not in known:
            listed = f"known here: {', '.join(sorted(known))}" if known else "there are none here"
            raise _invalid_query(f"no query parameter is called {name[:100]!r}; {listed}")
        known[name].check(values)


def read_query(request: Request) -> Mapping[str, list[str]]:
    """Every query parameter with its values, in order; a query that is no UTF-8, or too much, is refused."""
    found: dict[str, list[str]] | None = request.scope.get(_QUERY)
    if found is None:
        found = request.scope[_QUERY] = _parse_query(request.scope["query_string"])
    return found


def query_str(request: Request, name: str) -> str | None:
    """The value of a query parameter that may be given once."""
    if not request.scope["query_string"]:
        return None
    values = read_query(request).get(name)
    return None if values is None else values[0]


def query_fraction(request: Request, name: str) -> float | None:
    """The value of a query parameter that is a number from 0 to 1."""
    text = query_str(request, name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) and 0 <= float(text) <= 1:
        return float(text)
    raise _invalid_query(f"{name} must be a number from 0 to 1, such as 0.6")


def query_int(request: Request, name: str, least: int, most: int, default: int) -> int:
    """The value of a query parameter that is a whole number."""
    text = query_str(request, name)
    if text is None:
        return default
    number = read_count(text)
    if number is None or not least <= number <= most:
        raise _invalid_query(f"{name} must be a whole number from {least} to {most}")
    return number


def read_count(text: str) -> int | None:
    """A whole number, 0 or more, as forms and addresses have it; None if the text is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def parse_pairs(text: bytes, most: int) -> list[tuple[str, str]] | None:
    """Names and values as queries and forms have them; None if they are no UTF-8, or there are more."""
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=most, errors="strict")
    except ValueError:
        return None


def _parse_query(text: bytes) -> dict[str, list[str]]:
    pairs = parse_pairs(text, _MAX_PARAMETERS)
    if pairs is None:
        raise _invalid_query(f"the query must be percent-encoded UTF-8 with at most {_MAX_PARAMETERS} parameters")
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _invalid_query(message: str) -> HttpFault:
    return HttpFault(400, "request.invalid_query", message)


Handler = Callable[[Request], Awaitable[Response]]
StreamHandler = Callable[[Request, Send], Awaitable[Response | None]]
"""For one that may answer with a stream of its own, by `send`; it then returns None."""
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
    """The address of this application: the one the operator gave, or the one that whoever asks has reached it by."""
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

_NO_SNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
# To be kept by the caller alone, and only to be asked for again; another key is given another answer.
_REVALIDATED = ((b"cache-control", b"private, no-cache"), (b"vary", b"authorization, x-api-key"))

_encode = msgspec.json.Encoder().encode


class JsonResponse(JSONResponse):
    """`content` as JSON; bytes are JSON already."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        """Encode it, structs and dates included."""
        return content if type(content) is bytes else _encode(content)


def safe_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """What an answer with those headers must also say, to be neither guessed at nor stored where it should not be."""
    names = dict(headers)
    found = [] if b"x-content-type-options" in names else [_NO_SNIFF]
    if b"cache-control" not in names:
        found += _REVALIDATED if b"etag" in names else (_NO_STORE,)
    return found
