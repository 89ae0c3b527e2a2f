"""`SignIns`: signed notes of who signed in and until when, so that a browser need not keep an API key."""

from __future__ import annotations

import base64
import hmac
import re
import secrets

from toolyard.sessions.records import Records

_SECRET_KIND, _SECRET_NAME, _SECRET_BYTES = "secret", "sign-in", 32
_NOTE = re.compile(r"([A-Za-z0-9]{1,32})\.([0-9]{1,15})\.([A-Za-z0-9_-]{43})")
_PURPOSE, _FORM_PURPOSE = b"toolyard sign-in 1\n", b"toolyard form 1\n"


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
        """With the secret that is kept in the records; the first process makes it. Waits for the store."""
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
        """The token of forms shown to the holder of that note; it cannot be made up without the secret."""
        return self._digest(_FORM_PURPOSE, note)

    def _mark(self, key_id: str, expires: int) -> str:
        return self._digest(_PURPOSE, f"{key_id}.{expires}")

    def _digest(self, purpose: bytes, text: str) -> str:
        mark = hmac.digest(self._secret, purpose + text.encode(), "sha256")
        return base64.urlsafe_b64encode(mark).rstrip(b"=").decode("ascii")
