"""Texts that are handed out and come back: cursors (where the next page of a list begins) and notes of who signed in.

Both are sealed, so that one of another list or server, or made up, is known as such.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from toolyard.sessions.records import Records

DIGEST_BYTES = 12
_NUMBER = 8
_SECRET_KIND, _SECRET_NAME, _SECRET_BYTES = "secret", "sign-in", 32
_NOTE = re.compile(r"([A-Za-z0-9]{1,32})\.([0-9]{1,15})\.([A-Za-z0-9_-]{43})")
_PURPOSE, _FORM_PURPOSE = b"toolyard sign-in 1\n", b"toolyard form 1\n"


def write_cursor(digest: bytes, *place: int) -> str:
    """The text for a place in the list that the digest stands for."""
    return seal_text(digest, b"".join(n.to_bytes(_NUMBER, "big") for n in place))


def read_cursor(digest: bytes, cursor: str) -> tuple[int, ...] | None:
    """The place; None if the cursor is not of this list."""
    place = open_text(digest, cursor)
    if place is None or len(place) % _NUMBER:
        return None
    return tuple(int.from_bytes(place[at : at + _NUMBER], "big") for at in range(0, len(place), _NUMBER))


def seal_text(digest: bytes, place: bytes) -> str:
    """The text for a place that is called by bytes."""
    return base64.urlsafe_b64encode(_seal(digest, place)).decode().rstrip("=")


def open_text(digest: bytes, cursor: str) -> bytes | None:
    """The place of a `seal_text`; None if it is not of this list."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        return None
    place = raw[:-DIGEST_BYTES]
    return place if raw == _seal(digest, place) else None


def _seal(digest: bytes, place: bytes) -> bytes:
    return place + hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()


class SignIns:
    """Signs and reads notes of who signed in. Of two servers with the same records, each reads what the other signed.

    A note holds nothing that opens the API, and says nothing about whether its key is still good: that is the key
    ring's to say, at every request.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def of(cls, records: Records) -> SignIns:
        """With the secret that is kept in the records, which whoever comes first makes. Waits for the store."""
        while True:
            secret = records.get(_SECRET_KIND, "", _SECRET_NAME)
            if secret is not None:
                return cls(secret)
            # Of several processes that find none, one wins; all use that one's.
            records.put(_SECRET_KIND, "", _SECRET_NAME, secrets.token_bytes(_SECRET_BYTES), new=True)

    def sign(self, key_id: str, expires: int) -> str:
        """A note for the holder of that key, good until that time."""
        return f"{key_id}.{expires}.{self._mark(key_id, expires)}"

    def read(self, note: str) -> tuple[str, int] | None:
        """Whose note it is and until when it is good; None if it was not signed here."""
        found = _NOTE.fullmatch(note)
        if found is None:
            return None
        key_id, expires = found[1], int(found[2])
        return (key_id, expires) if hmac.compare_digest(found[3], self._mark(key_id, expires)) else None

    def mark_form(self, note: str) -> str:
        """What forms carry that are shown to the holder of that note; without the secret nobody can make it up."""
        return self._digest(_FORM_PURPOSE, note)

    def _mark(self, key_id: str, expires: int) -> str:
        return self._digest(_PURPOSE, f"{key_id}.{expires}")

    def _digest(self, purpose: bytes, text: str) -> str:
        mark = hmac.digest(self._secret, purpose + text.encode(), "sha256")
        return base64.urlsafe_b64encode(mark).rstrip(b"=").decode("ascii")
