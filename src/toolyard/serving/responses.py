"""Answers as JSON, and the headers that every answer has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.responses import JSONResponse

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
    names = {name for name, _ in headers}
    found = [] if b"x-content-type-options" in names else [_NO_SNIFF]
    if b"cache-control" not in names:
        found += _REVALIDATED if b"etag" in names else (_NO_STORE,)
    return found
