"""`KeyRing`: creates and revokes the API keys of a service, and finds the key for the token of a request.

Keys are stored as hashes, next to the sessions; every server process keeps a copy in memory. A browser need not store a
key: `SignIns` signs notes of who is signed in and until when.
"""

from __future__ import annotations

import base64
import hmac
import logging
import re
import secrets
import string
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from typing import NoReturn

import msgspec

from toolyard.calls.policy import Rule
from toolyard.model.errors import ConfigError
from toolyard.model.names import describe_idle
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import KeyLimits, Principal, Scopes, read_scopes
from toolyard.sessions.records import Records
from toolyard.sessions.store.tables import Record

POLL_SECONDS = 0.2
"""Seconds between polls of the store, and so the delay with which other processes see a new or a revoked key."""
STALE_SECONDS = 5.0
"""Seconds without a successful poll after which no key is accepted."""
SIGN_IN_SECONDS = 12 * 3600
"""Lifetime of a sign-in in seconds."""

_KIND = "key"
_ID = 12
_TOKEN = len("ty_") + _ID + len("_") + 43
_ALPHABET = string.ascii_letters + string.digits
_NO_DIGEST = bytes(32)
_CHALLENGE = (b"www-authenticate", b'Bearer realm="toolyard"')
_CHALLENGE_INVALID = (b"www-authenticate", b'Bearer realm="toolyard", error="invalid_token"')
_SECRET_KIND, _SECRET_NAME, _SECRET_BYTES = "secret", "sign-in", 32
_NOTE = re.compile(r"([A-Za-z0-9]{1,32})\.([0-9]{1,15})\.[A-Za-z0-9_-]{43}")
_PURPOSE, _FORM_PURPOSE = b"toolyard sign-in 1\n", b"toolyard form 1\n"

log = logging.getLogger(__name__)


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
        words = f"{key_id}.{expires}"
        return f"{words}.{self._digest(_PURPOSE, words)}"

    def read(self, note: str) -> tuple[str, int] | None:
        """Return the key id and expiry of a note; None if its signature is wrong. The caller checks the expiry."""
        found = _NOTE.fullmatch(note)
        if found is None or not hmac.compare_digest(note, self.sign(found[1], int(found[2]))):
            return None
        return found[1], int(found[2])

    def mark_form(self, note: str) -> str:
        """Return the CSRF token for forms shown to the holder of the note."""
        return self._digest(_FORM_PURPOSE, note)

    def _digest(self, purpose: bytes, text: str) -> str:
        mark = hmac.digest(self._secret, purpose + text.encode(), "sha256")
        return base64.urlsafe_b64encode(mark).rstrip(b"=").decode("ascii")


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One API key, with a hash of its secret."""

    id: str
    name: str
    digest: bytes
    """SHA-256 of the secret. A secret of 256 random bits needs no slow hash."""
    scopes: tuple[str, ...]
    """In the form that `read_scopes` parses."""
    created: float
    expires: float | None = None
    revoked: float | None = None
    limits: KeyLimits = KeyLimits()

    def __repr__(self) -> str:
        return f"ApiKey(id={self.id!r}, name={self.name!r})"

    def state(self, now: float) -> str:
        """Return `usable`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "usable"


class KeyRing:
    """All API keys. A server must `poll` a few times a second; after `STALE_SECONDS` without, no key is accepted."""

    def __init__(
        self,
        records: Records,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._clock = clock
        self._monotonic = monotonic
        self._keys: dict[str, tuple[ApiKey, Principal]] = {}
        self._version = -1
        self._loaded_at = float("-inf")
        self._lock = threading.Lock()
        self._sign_ins: SignIns | None = None
        self.required = False
        """True once there was a key, even if all are revoked: a server never goes back to working without keys."""

    def create(
        self, name: str, scopes: Scopes, *, expires: float | None = None, limits: KeyLimits | None = None
    ) -> tuple[ApiKey, str]:
        """Create a key; return it with its token, which is not stored and cannot be shown again.

        `expires` is a Unix time.
        """
        _check_new_key(name, scopes, expires, limits or KeyLimits(), self._clock())
        secret = secrets.token_urlsafe(32)
        while True:
            # Only letters and digits, so that an id never looks like a command-line option.
            key = ApiKey(
                id="".join(secrets.choice(_ALPHABET) for _ in range(_ID)),
                name=name,
                digest=_digest(secret),
                scopes=tuple(scopes.to_texts()),
                created=self._clock(),
                expires=expires,
                limits=limits or KeyLimits(),
            )
            if self._records.put(_KIND, "", key.id, msgspec.msgpack.encode(key), new=True):
                break
        self.load()
        return key, f"ty_{key.id}_{secret}"

    def list(self) -> list[ApiKey]:
        """Load and return all keys, including revoked and expired ones, oldest first."""
        self.load()
        return sorted((key for key, _ in self._keys.values()), key=lambda key: (key.created, key.id))

    def find_idle(self, rules: Iterable[Rule], namespaces: Collection[str] = ()) -> Iterator[str]:
        """Yield the patterns of rules that match no key, and those in the scopes of keys that match no namespace."""
        keys = [principal for key, principal in self._keys.values() if key.revoked is None]
        names = [name for key in keys for name in key.policy_keys]
        for number, rule in enumerate(rules):
            yield from describe_idle(f"policy.rules[{number}].keys", rule.keys, names, "existing key")
            yield from describe_idle(f"policy.rules[{number}].approvers", rule.approvers, names, "existing key")
        for key in keys if namespaces else ():
            scoped = [grant.namespaces for grant in key.scopes.grants]
            yield from describe_idle(f"scopes of key {key.name}", scoped, namespaces, "namespace")

    def count_usable(self) -> int:
        """Return the number of keys that are accepted now, as of the last poll."""
        return sum(map(self.is_usable, self._keys))

    def is_usable(self, key_id: str) -> bool:
        """Return whether the key is accepted now, as of the last poll."""
        found = self._keys.get(key_id)
        return found is not None and found[0].state(self._clock()) == "usable"

    def check_usable(self, principal: Principal) -> None:
        """Refuse a principal whose key was revoked or expired since its request began."""
        if principal.key_id is not None and not self.is_usable(principal.key_id):
            _refuse("the API key has been revoked or expired meanwhile")

    def revoke(self, key_id: str) -> ApiKey | None:
        """Revoke a key permanently; None if there is none with that id. Other processes see it after `POLL_SECONDS`."""
        while True:
            value = self._records.get(_KIND, "", key_id)
            if value is None:
                return None
            key = _decode(value)
            if key.revoked is None:
                key = msgspec.structs.replace(key, revoked=self._clock())
                if not self._records.replace(_KIND, "", key_id, value, msgspec.msgpack.encode(key)):
                    continue
            self.load()
            return key

    def find(self, token: str | None) -> Principal:
        """Return the principal of a token; raises `HttpFault` 401 if it is invalid, 503 if polls of the store fail."""
        if token is None:
            raise HttpFault(
                401, "auth.missing", "an API key is needed: send Authorization: Bearer ty_...", headers=(_CHALLENGE,)
            )
        self._check_freshness()
        found = self._keys.get(token[3 : 3 + _ID])
        # Always compared, so that the time taken does not reveal which ids exist.
        same = hmac.compare_digest(_digest(token[4 + _ID :]), _NO_DIGEST if found is None else found[0].digest)
        if found is None or not same or len(token) != _TOKEN or token[:3] != "ty_" or token[3 + _ID] != "_":
            _refuse("no such API key")
        return self._require_usable(found)

    def sign_in(self, principal: Principal) -> str:
        """Return a sign-in note, valid for `SIGN_IN_SECONDS`, so that a browser need not store the key."""
        if principal.key_id is None:
            raise ValueError("only the holder of a key signs in")
        return self.sign_ins().sign(principal.key_id, int(self._clock()) + SIGN_IN_SECONDS)

    def find_by_sign_in(self, note: str | None) -> Principal:
        """Return the principal of a sign-in note, or raise as `find` does. Revoking a key ends its sign-ins."""
        if note is None:
            raise HttpFault(401, "auth.missing", "sign in with an API key first", headers=(_CHALLENGE,))
        self._check_freshness()
        read = self.sign_ins().read(note)
        found = None if read is None else self._keys.get(read[0])
        if read is None or found is None or self._clock() >= read[1]:
            _refuse("this sign-in has ended; sign in again")
        return self._require_usable(found)

    def _check_freshness(self) -> None:
        if self._monotonic() - self._loaded_at > STALE_SECONDS:
            message = "API keys cannot be checked now, because their store does not answer; try again"
            raise HttpFault(503, "auth.unavailable", message, retry_after=1)

    def _require_usable(self, found: tuple[ApiKey, Principal]) -> Principal:
        key, principal = found
        state = key.state(self._clock())
        if state != "usable":
            _refuse(f"the API key has {'been revoked' if state == 'revoked' else 'expired'}")
        return principal

    def load(self) -> None:
        """Read the keys from the store; `SessionError` if that fails. Blocks, so do not call it on the event loop."""
        self.sign_ins()
        now = self._monotonic()
        version = self._records.version(_KIND)
        self._replace_keys(version, self._records.all(_KIND), now)

    async def poll(self) -> None:
        """Reload the keys if they have changed; `SessionError` if the store fails (`find` refuses once that lasts)."""
        # The time before the query: changes made while it runs may not be in its result.
        now = self._monotonic()
        version = await self._records.aversion(_KIND)
        if version != self._version:
            self._replace_keys(version, await self._records.aall(_KIND), now)
        self._loaded_at = now

    def sign_ins(self) -> SignIns:
        """Return the signer of sign-in notes; all processes with this store share its secret. The first call blocks."""
        if self._sign_ins is None:
            self._sign_ins = SignIns.load(self._records)
        return self._sign_ins

    def _replace_keys(self, version: int, records: Iterable[Record], now: float) -> None:
        keys: dict[str, tuple[ApiKey, Principal]] = {}
        has_keys = False
        for record in records:
            # An unreadable key counts too: the operator meant to require keys.
            has_keys = True
            try:
                key = _decode(record.value)
                principal = Principal(key.id, key.name, read_scopes(key.scopes), key.limits)
            except (msgspec.DecodeError, ConfigError) as error:
                # Only the unreadable key is rejected; the others keep working.
                log.warning("API key %s cannot be read and is not accepted: %s", record.name, error)
                continue
            keys[key.id] = (key, principal)
        self.required = self.required or has_keys
        with self._lock:
            # Two threads may have loaded at once; keep the later version.
            if version >= self._version:
                self._keys, self._version, self._loaded_at = keys, version, now


def _check_new_key(name: str, scopes: Scopes, expires: float | None, limits: KeyLimits, now: float) -> None:
    if not name or len(name) > 100 or not name.isprintable():
        raise ConfigError(f"a key's name is 1 to 100 printable characters, not {name!r}")
    if not scopes.grants:
        raise ConfigError("a key without scopes allows nothing; give at least one, such as '*:list,execute'")
    if expires is not None and not now < expires < float("inf"):
        raise ConfigError("a key must expire in the future")
    if limits.rate is not None and not 0 < limits.rate < float("inf"):
        raise ConfigError(f"rate must be more than 0 requests a second, not {limits.rate}")
    if limits.burst is not None and not 1 <= limits.burst < float("inf"):
        raise ConfigError(f"burst must be at least 1 request, not {limits.burst}")
    if limits.concurrency is not None and limits.concurrency < 1:
        raise ConfigError(f"concurrency must be at least 1, not {limits.concurrency}")


def _decode(value: bytes) -> ApiKey:
    return msgspec.msgpack.decode(value, type=ApiKey)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogatepass")).digest()


def _refuse(message: str) -> NoReturn:
    raise HttpFault(401, "auth.invalid", message, headers=(_CHALLENGE_INVALID,))
