"""Request bodies: read within limits on bytes and JSON values, then parsed as the operation's type.

A JSON value may take two bytes on the wire and a hundred in memory, so values are counted before parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import ClientDisconnect, Request

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.http_fault import HttpFault, make_overloaded

T = TypeVar("T")

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
