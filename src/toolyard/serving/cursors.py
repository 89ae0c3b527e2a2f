"""Cursors of paged lists: a place in one list, sealed with the digest of that list, so that another list refuses it.

The digest covers what the list depends on (filters, owner): `digest_json` makes it, for idempotent requests too.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

DIGEST_BYTES = 12
"""Of what seals a cursor."""
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number in a cursor, as every store can hold it."""

_canonical = msgspec.json.Encoder(order="sorted").encode


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
        # By its type: a client that knows the filters can seal whatever it likes.
        return msgspec.json.decode(place, type=kind) if sealed == _seal_place(digest, place) else None
    except (ValueError, msgspec.DecodeError):
        return None


def _seal_place(digest: bytes, place: bytes) -> bytes:
    return place + hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()
