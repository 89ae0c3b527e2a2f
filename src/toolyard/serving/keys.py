"""`KeyRing`: the API keys of a service, made, revoked and matched with the tokens of requests.

Keys are kept hashed beside the sessions, and every process that serves has them in memory.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import string
import threading
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import NoReturn

import msgspec

from toolyard.model.errors import ConfigError
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import KeyLimits, Principal
from toolyard.serving.scopes import Scopes, read_scopes
from toolyard.serving.sign_ins import SignIns
from toolyard.sessions.records import Records
from toolyard.sessions.store.tables import Record

POLL = 0.2
"""Seconds between two looks at the store: how long a new key may not work elsewhere yet, and a revoked one still."""
PATIENCE = 5.0
"""Seconds without a look at the store after which no key is accepted any more."""
LASTS = 12 * 3600
"""Seconds after which a sign-in ends."""

_KIND = "key"
_ID = 12
_TOKEN = len("ty_") + _ID + len("_") + 43
_ALPHABET = string.ascii_letters + string.digits
_NO_DIGEST = bytes(32)
_CHALLENGE = (b"www-authenticate", b'Bearer realm="toolyard"')
_CHALLENGE_INVALID = (b"www-authenticate", b'Bearer realm="toolyard", error="invalid_token"')

log = logging.getLogger(__name__)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key, without its secret, of which there is only a hash."""

    id: str
    name: str
    digest: bytes
    """SHA-256 of the secret: 256 random bits need no slow hash."""
    scopes: tuple[str, ...]
    """As `read_scopes` takes them."""
    created: float
    expires: float | None = None
    revoked: float | None = None
    limits: KeyLimits = KeyLimits()

    def __repr__(self) -> str:
        return f"ApiKey(id={self.id!r}, name={self.name!r})"

    def state(self, now: float) -> str:
        """`usable`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "usable"


class KeyRing:
    """Every API key. A server must `poll` it a few times a second, or it soon accepts no key any more."""

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
        self._seen = float("-inf")
        self.every = POLL
        self._lock = threading.Lock()
        self._sign_ins: SignIns | None = None
        self.required = False
        """True from the first key on, whatever became of it: a server that has keys never goes back to having none."""

    def create(
        self, name: str, scopes: Scopes, *, expires: float | None = None, limits: KeyLimits | None = None
    ) -> tuple[ApiKey, str]:
        """A new key and its token, which is nowhere else: it cannot be had again. `expires` is a time, not a span."""
        _check(name, scopes, expires, limits or KeyLimits(), self._clock())
        secret = secrets.token_urlsafe(32)
        while True:
            # Letters and digits alone, so that an id never looks like an option of a command.
            key = ApiKey(
                id="".join(secrets.choice(_ALPHABET) for _ in range(_ID)),
                name=name,
                digest=_digest(secret),
                scopes=tuple(scopes.texts()),
                created=self._clock(),
                expires=expires,
                limits=limits or KeyLimits(),
            )
            if self._records.put(_KIND, "", key.id, msgspec.msgpack.encode(key), new=True):
                break
        self.load()
        return key, f"ty_{key.id}_{secret}"

    def list(self) -> list[ApiKey]:
        """Every key as the store has it now, revoked and expired ones too, oldest first."""
        self.load()
        return sorted((key for key, _ in self._keys.values()), key=lambda key: (key.created, key.id))

    def usable(self) -> int:
        """How many keys are accepted now, as far as this process knows."""
        return sum(map(self.lets_in, self._keys))

    def lets_in(self, key_id: str) -> bool:
        """Whether that key is accepted now, as far as this process knows."""
        found = self._keys.get(key_id)
        return found is not None and found[0].state(self._clock()) == "usable"

    def revoke(self, key_id: str) -> ApiKey | None:
        """End a key for good; None if there is none of that id. In force here at once, elsewhere within `POLL`."""
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
        """The principal of a token; `HttpFault` 401 if there is none, 503 if that cannot be known just now."""
        if token is None:
            raise HttpFault(
                401, "auth.missing", "an API key is needed: send Authorization: Bearer ty_...", headers=(_CHALLENGE,)
            )
        self._check_sight()
        found = self._keys.get(token[3 : 3 + _ID])
        # Compared in any case, so that the time taken says nothing about which ids there are.
        same = hmac.compare_digest(_digest(token[4 + _ID :]), _NO_DIGEST if found is None else found[0].digest)
        if found is None or not same or len(token) != _TOKEN or token[:3] != "ty_" or token[3 + _ID] != "_":
            _refuse("no such API key")
        return self._usable(found)

    def sign(self, principal: Principal) -> str:
        """What `find_signed` takes for the next `LASTS` seconds; for a browser, which is not to keep a key."""
        if principal.key_id is None:
            raise ValueError("only the holder of a key signs in")
        return self.notes().sign(principal.key_id, int(self._clock()) + LASTS)

    def find_signed(self, note: str | None) -> Principal:
        """`find` for what `sign` gave. A key that was revoked or has expired since ends its sign-ins at once."""
        if note is None:
            raise HttpFault(401, "auth.missing", "sign in with an API key first", headers=(_CHALLENGE,))
        self._check_sight()
        read = self.notes().read(note)
        found = None if read is None else self._keys.get(read[0])
        if read is None or found is None or self._clock() >= read[1]:
            _refuse("this sign-in has ended; sign in again")
        return self._usable(found)

    def _check_sight(self) -> None:
        if self._monotonic() - self._seen > PATIENCE:
            message = "API keys cannot be checked now, because their store does not answer; try again"
            raise HttpFault(503, "auth.unavailable", message, retry_after=1)

    def _usable(self, found: tuple[ApiKey, Principal]) -> Principal:
        key, principal = found
        state = key.state(self._clock())
        if state != "usable":
            _refuse(f"the API key has {'been revoked' if state == 'revoked' else 'expired'}")
        return principal

    def load(self) -> None:
        """Read the keys from the store; `SessionError` if that fails. Waits for it: before serving, not during."""
        self.notes()
        seen = self._monotonic()
        version = self._records.version(_KIND)
        self._take(version, self._records.all(_KIND), seen)

    async def poll(self) -> None:
        """Look once whether keys have changed; `SessionError` if the store fails, and `find` sees to the rest."""
        # The moment the question is asked, not answered: what changes meanwhile may not be in the answer.
        seen = self._monotonic()
        version = await self._records.aversion(_KIND)
        if version != self._version:
            self._take(version, await self._records.aall(_KIND), seen)
        self._seen = seen

    def notes(self) -> SignIns:
        """What signs for all processes with this store; waits for it the first time."""
        if self._sign_ins is None:
            self._sign_ins = SignIns.of(self._records)
        return self._sign_ins

    def _take(self, version: int, records: Iterable[Record], seen: float) -> None:
        keys: dict[str, tuple[ApiKey, Principal]] = {}
        any_there = False
        for record in records:
            # Counts even if it cannot be read: the operator meant to require keys.
            any_there = True
            try:
                key = _decode(record.value)
                principal = Principal(key.id, key.name, read_scopes(key.scopes), key.limits)
            except (msgspec.DecodeError, ConfigError) as error:
                # Not a reason to lock out the others; one that cannot be read is not accepted.
                log.warning("API key %s cannot be read and is not accepted: %s", record.name, error)
                continue
            keys[key.id] = (key, principal)
        self.required = self.required or any_there
        with self._lock:
            # Two threads may have read at once; the later version stays.
            if version >= self._version:
                self._keys, self._version, self._seen = keys, version, seen


def _check(name: str, scopes: Scopes, expires: float | None, limits: KeyLimits, now: float) -> None:
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
