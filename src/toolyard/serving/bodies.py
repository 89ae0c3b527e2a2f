"""Reading the JSON of a request: strict about form, and clear about what is wrong where."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from toolyard.app.server_block import ServerBlock
from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.faults import HttpFault
from toolyard.serving.request import LARGE, Request

T = TypeVar("T")

_JSON = b"application/json"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
"""As JSON writes numbers."""

_larges: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_canonical = msgspec.json.Encoder(order="sorted").encode


async def read_json(request: Request, shape: type[T], block: ServerBlock) -> tuple[T, Any]:
    """The body as `shape`, and as the plain JSON it was, within the limits of the server."""
    body = request.body
    if body is None:
        check_type(request)
        body = await request.read(block.max_body_bytes, max_values=block.max_values)
    if len(body) <= LARGE:
        return read_small(request, shape, block)
    # Whoever else is served gets in between its steps; of such work there is one at a time.
    async with _larges.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await asyncio.to_thread(_read_large, request, shape, block)


def is_small(request: Request) -> bool:
    """True if the body is there already, and needs no thread."""
    return request.body is not None and len(request.body) <= LARGE


def read_small(request: Request, shape: type[T], block: ServerBlock) -> tuple[T, Any]:
    """`read_json` for a body that is small and there, which most are."""
    try:
        document = parse_json(request.body or b"", what="body", max_depth=block.max_depth)
    except MalformedSource as error:
        raise HttpFault(400, "request.invalid_json", str(error)) from None
    if type(document) is not dict:
        raise HttpFault(400, "request.invalid_shape", "the body must be a JSON object")
    try:
        return msgspec.convert(document, shape), document
    except msgspec.ValidationError as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: {error}") from None


def _read_large(request: Request, shape: type[T], block: ServerBlock) -> tuple[T, Any]:
    began = time.thread_time()
    try:
        return read_small(request, shape, block)
    finally:
        request.spent += time.thread_time() - began


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


def share(request: Request, name: str) -> float | None:
    """The value of a query parameter that is a number from 0 to 1."""
    text = one(request, name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) and 0 <= float(text) <= 1:
        return float(text)
    raise HttpFault(400, "request.invalid_query", f"{name} must be a number from 0 to 1, such as 0.6")


def whole(request: Request, name: str, least: int, most: int, default: int) -> int:
    """The value of a query parameter that is a number."""
    text = one(request, name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most:
        return int(text)
    raise HttpFault(400, "request.invalid_query", f"{name} must be a whole number from {least} to {most}")
