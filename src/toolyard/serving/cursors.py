"""Cursors of paged lists: a position, authenticated with a digest of the list so that no other list accepts it.

The digest covers what the list depends on (filters, owner). `digest_json` computes it; idempotent requests use it too.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

DIGEST_BYTES = 12
"""Length of the authentication code at the end of a cursor."""
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number in a cursor, limited to what every store can hold."""

_canonical = msgspec.json.Encoder(order="sorted").encode


def digest_json(*parts: Any) -> bytes:
    """Return a digest that is equal for equal JSON, whatever the order of keys."""
    return hashlib.sha256(_canonical(parts)).digest()


def write_cursor(digest: bytes, *place: int | str) -> str:
    """Return the cursor for a position in the list that `digest` identifies."""
    return base64.urlsafe_b64encode(_seal_place(digest, _canonical(place))).decode().rstrip("=")


def read_cursor(digest: bytes, cursor: str, kind: type[T]) -> T | None:
    """Return the position, as a type such as `tuple[Position]`; None if the cursor is invalid or from another list."""
    try:
        sealed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        place = sealed[:-DIGEST_BYTES]
        # The type is checked, since the digest is no secret: a client that knows the filters can forge any position.
        return msgspec.json.decode(place, type=kind) if sealed == _seal_place(digest, place) else None
    except (ValueError, msgspec.DecodeError):
        return None


def _seal_place(digest: bytes, place: bytes) -> bytes:
    return place + hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()
