"""Who makes a request: API keys, what their holders may see and do and how much of it, and signing in.

Keys are kept hashed beside the sessions, and are at hand in every process that serves.
"""

from __future__ import annotations

import base64
import fnmatch
import hmac
import logging
import re
import secrets
import string
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NoReturn, get_args

import msgspec

from toolyard.model.call import Mode, ToolResult
from toolyard.model.errors import ConfigError
from toolyard.model.names import nearest
from toolyard.model.tool import Tool
from toolyard.serving.http_fault import HttpFault
from toolyard.sessions.records import Records
from toolyard.sessions.store.tables import Record

Verb = Literal["list", "simulate", "execute", "approve", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)


class Grant(msgspec.Struct, frozen=True):
    """Some verbs in the namespaces a glob stands for."""

    namespaces: str
    verbs: frozenset[Verb]

    def __str__(self) -> str:
        verbs = [verb for verb in VERBS if verb in self.verbs]
        return f"{self.namespaces}:{'*' if len(verbs) == len(VERBS) else ','.join(verbs)}"


class Scopes(msgspec.Struct, frozen=True, cache_hash=True):
    """What a key allows: any grant that fits is enough."""

    grants: tuple[Grant, ...] = ()

    def allows(self, verb: Verb, namespace: str) -> bool:
        """True if some grant has the verb for that namespace."""
        return _allows(self, verb, namespace)

    def allows_somewhere(self, verb: Verb) -> bool:
        """True if there is a namespace for which some grant has the verb."""
        return any(verb in grant.verbs for grant in self.grants)

    def everywhere(self, verb: Verb) -> bool:
        """True if one grant has the verb for every namespace."""
        return any(verb in grant.verbs and grant.namespaces == "*" for grant in self.grants)

    def texts(self) -> list[str]:
        """What `read_scopes` takes back."""
        return [str(grant) for grant in self.grants]


ALL = Scopes((Grant("*", frozenset(VERBS)),))


class KeyLimits(msgspec.Struct, frozen=True):
    """How much one principal may ask for; None means the server's default."""

    rate: float | None = None
    burst: float | None = None
    concurrency: int | None = None


class Principal(msgspec.Struct, frozen=True):
    """Whoever asks, and what the call path asks about them. Without keys everybody is `NOBODY`, who may do everything
    on a loopback server.
    """

    key_id: str | None
    name: str
    scopes: Scopes
    limits: KeyLimits = KeyLimits()

    @property
    def sees_all(self) -> bool:
        """True if the whole catalog is shown to them."""
        return self.scopes.everywhere("list")

    @property
    def owner(self) -> str | None:
        """Whose sessions these are; None where there are no keys."""
        return self.key_id

    @property
    def policy_keys(self) -> tuple[str, ...]:
        """What the `keys` of a policy's rules are compared with."""
        return () if self.key_id is None else (self.key_id, self.name)

    def lists(self, tool: Tool) -> bool:
        """True if the catalog shows it to them."""
        return self.scopes.allows("list", tool.namespace)

    def sees(self, tool: Tool) -> bool:
        """True if they may know of the tool: who may call it may see it."""
        return self.lists(tool) or self.may("simulate", tool)

    def may(self, mode: Mode, tool: Tool) -> bool:
        """True if they may have it called; who may execute may also simulate."""
        return self.scopes.allows(mode, tool.namespace) or self.scopes.allows("execute", tool.namespace)


NOBODY = Principal(None, "anonymous", ALL)

CALLER = "toolyard.caller"
"""Where the scope of a request has its `Caller`."""


class Caller(msgspec.Struct, eq=False):
    """Whoever has something run by one request, over HTTP or not, and what becomes known of it on the way."""

    principal: Principal = NOBODY
    headers: dict[bytes, bytes] = {}
    """Of the request, by their names in lower case; those that decide something are there once."""
    request_id: str = ""
    route: str = ""
    """The template that matched; a label for metrics and logs."""
    tool: str = ""
    """The tool that was called, for the log."""
    abandoned: list[Future[Any]] = []
    """Work of its calls that goes on past its deadline."""
    shared_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers of the answer that let a page of another origin read it."""
    leave_place: Callable[[], None] | None = None
    take_place: Callable[[], Awaitable[None]] | None = None
    """Of the place that the request runs in as a whole: give it back, and have one again."""
    is_gone: Callable[[], Awaitable[bool]] | None = None
    """Whether nobody waits for the answer any more, where that can be known."""
    unfinished: tuple[ToolResult, ...] = ()
    """What came of its calls while some of them are held: only these are sent again."""


@lru_cache(maxsize=8192)
def _allows(scopes: Scopes, verb: Verb, namespace: str) -> bool:
    return any(verb in grant.verbs and fnmatch.fnmatchcase(namespace, grant.namespaces) for grant in scopes.grants)


def read_scopes(texts: Iterable[str]) -> Scopes:
    """Scopes as people write them: `hr:list,execute`, `weather*:list`, `*:*`; `ConfigError` for anything else."""
    return Scopes(tuple(_read_grant(text) for text in texts))


def _read_grant(text: str) -> Grant:
    # The last colon: a namespace may have one, a verb has none.
    namespaces, colon, verbs = text.rpartition(":")
    if not colon or not namespaces or not verbs:
        raise ConfigError(
            f"scope {text!r}: write namespaces and verbs, such as 'hr:list,execute', 'weather*:list', '*:*'"
        )
    if verbs == "*":
        return Grant(namespaces, frozenset(VERBS))
    return Grant(namespaces, frozenset(_read_verb(verb.strip(), text) for verb in verbs.split(",")))


def _read_verb(verb: str, text: str) -> Verb:
    for known in VERBS:
        if verb == known:
            return known
    near = nearest(verb, VERBS)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(VERBS)}, or * for all"
    raise ConfigError(f"scope {text!r}: no verb is called {verb!r}; {hint}")


POLL = 0.2
"""Seconds between two looks at the store: how long a new key may not work elsewhere yet, and a revoked one still."""
PATIENCE = 5.0
"""Seconds without a look at the store after which no key is believed any more."""

LASTS = 12 * 3600
"""Seconds after which somebody has to sign in again."""

_KIND = "key"
_ID = 12
_TOKEN = len("ty_") + _ID + len("_") + 43
_ALPHABET = string.ascii_letters + string.digits
_NO_DIGEST = bytes(32)
_CHALLENGE = (b"www-authenticate", b'Bearer realm="toolyard"')
_CHALLENGE_INVALID = (b"www-authenticate", b'Bearer realm="toolyard", error="invalid_token"')

_SECRET_KIND, _SECRET_NAME, _SECRET_BYTES = "secret", "sign-in", 32
_NOTE = re.compile(r"([A-Za-z0-9]{1,32})\.([0-9]{1,15})\.([A-Za-z0-9_-]{43})")
_PURPOSE, _FORM_PURPOSE = b"toolyard sign-in 1\n", b"toolyard form 1\n"

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


class KeyRing:
    """Every key there is. `poll`, every few seconds, keeps it up to date; whoever serves must, or nobody is let in."""

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
        """How many keys would let somebody in now, as far as this process knows."""
        return sum(map(self.lets_in, self._keys))

    def lets_in(self, key_id: str) -> bool:
        """Whether that key would let somebody in now, as far as this process knows."""
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
        """Whose token this is; `HttpFault` 401 if nobody's, 503 if that cannot be known just now."""
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
            # Counts even if it cannot be read: somebody meant to keep others out.
            any_there = True
            try:
                key = _decode(record.value)
                principal = Principal(key.id, key.name, read_scopes(key.scopes), key.limits)
            except (msgspec.DecodeError, ConfigError) as error:
                # Not a reason to lock out the others; one that cannot be read lets nobody in.
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
