"""`Principal`: who makes a request, what they may do, and how much of it."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

import msgspec

from toolyard.model.errors import ConfigError

Verb = Literal["list", "simulate", "execute", "admin"]
VERBS: tuple[Verb, ...] = ("list", "simulate", "execute", "admin")


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
        return _allows_somewhere(self, verb)

    def everywhere(self, verb: Verb) -> bool:
        """True if one grant has the verb for every namespace."""
        return any(verb in grant.verbs and grant.namespaces == "*" for grant in self.grants)

    def texts(self) -> list[str]:
        """What `read_scopes` takes back."""
        return [str(grant) for grant in self.grants]


ALL = Scopes((Grant("*", frozenset(VERBS)),))


class Limits(msgspec.Struct, frozen=True):
    """How much one principal may ask for; None means the server's default."""

    rate: float | None = None
    burst: float | None = None
    concurrency: int | None = None


class Principal(msgspec.Struct, frozen=True):
    """Whoever asks. Without keys everybody is `NOBODY`, who may do everything on a loopback server."""

    key_id: str | None
    name: str
    scopes: Scopes
    limits: Limits = Limits()

    @property
    def owner(self) -> str | None:
        """Whose sessions these are; None where there are no keys."""
        return self.key_id


NOBODY = Principal(None, "anonymous", ALL)


@lru_cache(maxsize=8192)
def _allows(scopes: Scopes, verb: Verb, namespace: str) -> bool:
    return any(verb in grant.verbs and fnmatch.fnmatchcase(namespace, grant.namespaces) for grant in scopes.grants)


@lru_cache(maxsize=8192)
def _allows_somewhere(scopes: Scopes, verb: Verb) -> bool:
    return any(verb in grant.verbs for grant in scopes.grants)


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
    near = difflib.get_close_matches(verb, VERBS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(VERBS)}, or * for all"
    raise ConfigError(f"scope {text!r}: no verb is called {verb!r}; {hint}")
