"""`SignIns`: signed notes of who is signed in and until when, so that a browser need not store an API key."""

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
    """Signs and verifies sign-in notes. Servers with the same records accept each other's notes.

    A note does not contain the API key, and does not prove that the key is still valid: `KeyRing` checks that at every
    request.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def load(cls, records: Records) -> SignIns:
        """Create one with the secret in the records, which the first process generates. Blocks on the store."""
        while True:
            secret = records.get(_SECRET_KIND, "", _SECRET_NAME)
            if secret is not None:
                return cls(secret)
            # If several processes find none, one `put` succeeds, and all use that secret.
            records.put(_SECRET_KIND, "", _SECRET_NAME, secrets.token_bytes(_SECRET_BYTES), new=True)

    def sign(self, key_id: str, expires: int) -> str:
        """Return a note for the key, valid until the Unix time `expires`."""
        return f"{key_id}.{expires}.{self._mark(key_id, expires)}"

    def read(self, note: str) -> tuple[str, int] | None:
        """Return the key id and expiry of a note; None if its signature is wrong. The caller checks the expiry."""
        found = _NOTE.fullmatch(note)
        if found is None:
            return None
        key_id, expires = found[1], int(found[2])
        return (key_id, expires) if hmac.compare_digest(found[3], self._mark(key_id, expires)) else None

    def mark_form(self, note: str) -> str:
        """Return the CSRF token for forms shown to the holder of the note."""
        return self._digest(_FORM_PURPOSE, note)

    def _mark(self, key_id: str, expires: int) -> str:
        return self._digest(_PURPOSE, f"{key_id}.{expires}")

    def _digest(self, purpose: bytes, text: str) -> str:
        mark = hmac.digest(self._secret, purpose + text.encode(), "sha256")
        return base64.urlsafe_b64encode(mark).rstrip(b"=").decode("ascii")
