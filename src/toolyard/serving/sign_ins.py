"""`SignIns`: what a browser keeps instead of a key: a signed note that somebody with that key was here not long ago."""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256

from toolyard.sessions.records import Records

LASTS = 12 * 3600
"""Seconds after which somebody has to sign in again."""

_KIND = "secret"
_NAME = "sign-in"
_BYTES = 32
_NOTE = re.compile(r"([A-Za-z0-9]{1,32})\.([0-9]{1,15})\.([A-Za-z0-9_-]{43})")
_PURPOSE = b"toolyard sign-in 1\n"


class SignIns:
    """Signs and reads such notes. Of two servers with the same records, each reads what the other has signed.

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
            secret = records.get(_KIND, "", _NAME)
            if secret is not None:
                return cls(secret)
            # Of several processes that find none, one wins; all use that one's.
            records.put(_KIND, "", _NAME, secrets.token_bytes(_BYTES), new=True)

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

    def _mark(self, key_id: str, expires: int) -> str:
        mark = hmac.digest(self._secret, _PURPOSE + f"{key_id}.{expires}".encode("ascii"), sha256)
        return urlsafe_b64encode(mark).rstrip(b"=").decode("ascii")
