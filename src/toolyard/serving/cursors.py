"""Cursors: where the next page of a list begins, sealed, so that one of another list, or made up, is known as such."""

from __future__ import annotations

import base64
import binascii
import hashlib

DIGEST_BYTES = 12
_NUMBER = 8


def write_cursor(digest: bytes, *place: int) -> str:
    """The text for a place in the list that the digest stands for."""
    return (
        base64.urlsafe_b64encode(_seal(digest, b"".join(n.to_bytes(_NUMBER, "big") for n in place)))
        .decode()
        .rstrip("=")
    )


def read_cursor(digest: bytes, cursor: str) -> tuple[int, ...] | None:
    """The place; None if the cursor is not of this list."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        return None
    place = raw[:-DIGEST_BYTES]
    if len(place) % _NUMBER or raw != _seal(digest, place):
        return None
    return tuple(int.from_bytes(place[at : at + _NUMBER], "big") for at in range(0, len(place), _NUMBER))


def _seal(digest: bytes, place: bytes) -> bytes:
    return place + hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()
