"""Reading the JSON of a request: strict about form, and clear about what is wrong where."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from toolyard.app.server_block import ServerBlock
from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request

T = TypeVar("T")

_JSON = b"application/json"
_LARGE = 64 * 1024
_PARTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[^"]++', re.DOTALL)

_larges: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_canonical = msgspec.json.Encoder(order="sorted").encode


async def read_json(request: Request, shape: type[T], block: ServerBlock) -> tuple[T, Any]:
    """The body as `shape`, and as the plain JSON it was, within the limits of the server."""
    body = request.body
    if body is None:
        check_type(request)
        body = await request.read(block.max_body_bytes)
    if len(body) <= _LARGE:
        return read_small(request, shape, block)
    # Whoever else is served gets in between its steps; of such work there is one at a time.
    async with _larges.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await asyncio.to_thread(_read, _parse_large, body, shape, block)


def is_small(request: Request) -> bool:
    """True if the body is there already, and needs no thread."""
    return request.body is not None and len(request.body) <= _LARGE


def read_small(request: Request, shape: type[T], block: ServerBlock) -> tuple[T, Any]:
    """`read_json` for a body that is small and there, which most are."""
    return _read(_parse_small, request.body or b"", shape, block)


def _parse_small(body: bytes, block: ServerBlock) -> Any:
    return parse_json(body, what="body", max_depth=block.max_depth)


def _read(parse: Callable[[bytes, ServerBlock], Any], body: bytes, shape: type[T], block: ServerBlock) -> tuple[T, Any]:
    try:
        document = parse(body, block)
    except MalformedSource as error:
        raise HttpFault(400, "request.invalid_json", str(error)) from None
    if type(document) is not dict:
        raise HttpFault(400, "request.invalid_shape", "the body must be a JSON object")
    try:
        return msgspec.convert(document, shape), document
    except msgspec.ValidationError as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: {error}") from None


def _parse_large(body: bytes, block: ServerBlock) -> Any:
    # A value costs two bytes to send, and a hundred here.
    most = block.max_values
    if _marks(body) > most and _has_too_many(body, most):
        raise HttpFault(
            413, "request.too_large", f"the body has more than {most:,} values", details={"max_values": most}
        )
    return parse_json(body, what="body", max_depth=block.max_depth)


def _marks(text: bytes) -> int:
    """Each value but the first has a comma before it, or the bracket of what it is the first in."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _has_too_many(body: bytes, most: int) -> bool:
    """Not counting what stands inside texts."""
    count = 0
    for part in _PARTS.finditer(body):
        if not part[0].startswith(b'"'):
            count += _marks(part[0])
            if count > most:
                return True
    return False


def check_type(request: Request) -> None:
    """415 unless the body says that it is JSON, which no form of a foreign page can."""
    given = request.headers.get(b"content-type")
    if given == _JSON:
        return
    if given is not None:
        kind, _, rest = given.partition(b";")
        if kind.strip().lower() == _JSON and rest.strip().lower() in (b"", b"charset=utf-8", b'charset="utf-8"'):
            return
    raise HttpFault(
        415, "request.unsupported_media_type", "the body must be sent as Content-Type: application/json (UTF-8)"
    )


def digest_of(*parts: Any) -> bytes:
    """Equal for equal JSON, whatever the order of its keys."""
    return hashlib.sha256(_canonical(parts)).digest()


def one(request: Request, name: str) -> str | None:
    """The value of a query parameter that may be given once."""
    values = request.query.get(name)
    return None if values is None else values[0]


def whole(request: Request, name: str, least: int, most: int, default: int) -> int:
    """The value of a query parameter that is a number."""
    text = one(request, name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most:
        return int(text)
    raise HttpFault(400, "request.invalid_query", f"{name} must be a whole number from {least} to {most}")
