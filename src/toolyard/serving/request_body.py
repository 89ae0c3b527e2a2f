"""The body of a request: read within limits of bytes and of JSON values, then parsed as its operation's type.

A value costs two bytes to send and a hundred once it is parsed, so values are counted before anything is parsed.
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
"""Bytes of a body from which on it is parsed beside the event loop, its values are counted, and its key is charged."""
BODY, BODY_HELD, MAX_DEPTH = "toolyard.body", "toolyard.body_held", "toolyard.max_depth"
"""Where the scope of a request has its body, once it is read, how much of the budget it holds until the request is
over, and how deep its JSON may be."""

_JSON = b"application/json"
_larges: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


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
    # Other requests are served between its steps; of such work there is one at a time.
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


class BodyBudget:
    """How many bytes of bodies there may be at once, of all requests together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """So much more of a body has come; 429 if there is no room for it."""
        if self.taken + size > self.most:
            raise make_overloaded("too many large bodies arrive at once; try again", 1)
        self.taken += size

    def give_back(self, size: int) -> None:
        """A request is over whose body took so much."""
        self.taken -= size


_SLICE = 64 * 1024
"""Bytes that are counted in one go, during which no other request can run."""
_SPACE = b" \t\r\n"


class JsonValueCounter:
    """Counts the values of one body, piece by piece.

    A value costs two bytes to send, and a hundred once it is parsed. Each but the first has a comma before it, or the
    bracket of what it is the first in, unless that is empty; what stands inside texts does not count. Of what is no
    JSON the count means nothing, and it will be refused in any case.
    """

    __slots__ = ("_before", "_inside", "_rest", "count", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 1
        self._inside = False
        """Whether the next byte stands in a text."""
        self._rest = b""
        """A backslash whose other half has not come yet."""
        self._before = b""
        """The last byte outside of texts, if the next one follows it directly."""

    def feed(self, piece: bytes) -> None:
        """Count what came; an `HttpFault` 413 as soon as there is more than there may be."""
        for start in range(0, len(piece), _SLICE):
            self._count(piece[start : start + _SLICE])
            if self.count > self.most:
                raise refuse_size(f"the body has more than {self.most:,} values", max_values=self.most)

    def _count(self, piece: bytes) -> None:
        if self._rest or b"\\" in piece:
            # Pairs first: what then still stands before a quote makes it a part of its text.
            piece = (self._rest + piece).replace(b"\\\\", b"")
            self._rest = b"\\" if piece.endswith(b"\\") else b""
            piece = piece.removesuffix(b"\\").replace(b'\\"', b"")
        parts = piece.split(b'"')
        # A quote stays for each text, or a list that holds only a text would look empty.
        outside = b'"'.join(parts[self._inside :: 2]).translate(None, _SPACE)
        if len(parts) % 2 == 0:
            self._inside = not self._inside
        if outside:
            self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
            outside = self._before + outside
            self.count -= outside.count(b"[]") + outside.count(b"{}")
        if len(parts) > 1 or outside:
            self._before = b"" if self._inside else outside[-1:]


def refuse_size(text: str, **limit: int) -> HttpFault:
    """A body is more than the server takes."""
    return HttpFault(413, "request.too_large", text, details=limit)
