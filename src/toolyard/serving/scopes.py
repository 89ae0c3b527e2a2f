"""`Scopes`: what an API key allows, as verbs in namespaces, and their text form."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, get_args

import msgspec

from toolyard.model.errors import ConfigError
from toolyard.model.names import find_similar

Verb = Literal["list", "simulate", "execute", "approve", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)


class Grant(msgspec.Struct, frozen=True):
    """Some verbs in the namespaces that match a glob."""

    namespaces: str
    verbs: frozenset[Verb]

    def __str__(self) -> str:
        verbs = [verb for verb in VERBS if verb in self.verbs]
        return f"{self.namespaces}:{'*' if len(verbs) == len(VERBS) else ','.join(verbs)}"


class Scopes(msgspec.Struct, frozen=True, cache_hash=True):
    """The grants of a key; it allows what any of them allows."""

    grants: tuple[Grant, ...] = ()

    def allows(self, verb: Verb, namespace: str) -> bool:
        """True if some grant has the verb for the namespace."""
        return _allows(self, verb, namespace)

    def allows_somewhere(self, verb: Verb) -> bool:
        """True if there is a namespace for which some grant has the verb."""
        return any(verb in grant.verbs for grant in self.grants)

    def allows_everywhere(self, verb: Verb) -> bool:
        """True if one grant has the verb for every namespace."""
        return any(verb in grant.verbs and grant.namespaces == "*" for grant in self.grants)

    def to_texts(self) -> list[str]:
        """Return the text forms, which `read_scopes` parses."""
        return [str(grant) for grant in self.grants]


ALL = Scopes((Grant("*", frozenset(VERBS)),))


@lru_cache(maxsize=8192)
def _allows(scopes: Scopes, verb: Verb, namespace: str) -> bool:
    return any(verb in grant.verbs and fnmatch.fnmatchcase(namespace, grant.namespaces) for grant in scopes.grants)


def read_scopes(texts: Iterable[str]) -> Scopes:
    """Parse scopes such as `hr:list,execute`, `weather*:list` and `*:*`; raises `ConfigError` for anything else."""
    return Scopes(tuple(_read_grant(text) for text in texts))


def _read_grant(text: str) -> Grant:
    # Split at the last colon: a namespace may contain one, a verb cannot.
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
    near = find_similar(verb, VERBS)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(VERBS)}, or * for all"
    raise ConfigError(f"scope {text!r}: no verb is called {verb!r}; {hint}")
