"""`Response`: status, body and headers of one answer, built before anything is sent."""

from __future__ import annotations

from typing import Any

import msgspec

JSON = b"application/json; charset=utf-8"

_NO_SNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
# To be kept by the caller alone, and only to be asked for again; another key is given another answer.
_REVALIDATED = ((b"cache-control", b"private, no-cache"), (b"vary", b"authorization, x-api-key"))

PLAIN = (_NO_SNIFF, _NO_STORE)
"""Headers of every answer that says nothing else about how it may be kept."""
PLAIN_LINES = b"".join(b"%b: %b\r\n" % header for header in PLAIN)

_encode = msgspec.json.Encoder().encode


class Response(msgspec.Struct, frozen=True):
    """One answer, whole. `headers` come on top of content type, length and request id."""

    status: int = 200
    body: bytes = b""
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def json_response(value: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """`value` as JSON."""
    return Response(status, _encode(value), JSON, headers)


def with_care(headers: tuple[tuple[bytes, bytes], ...]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with those that keep it from being guessed at, or stored where it should not be."""
    names = [name for name, _ in headers]
    found = list(headers)
    if b"x-content-type-options" not in names:
        found.append(_NO_SNIFF)
    if b"cache-control" not in names:
        found += _REVALIDATED if b"etag" in names else (_NO_STORE,)
    return found
