"""Who makes a request, what they may see and do, and how much of it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, Literal

import msgspec

from toolyard.model.call import Mode
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import nearest
from toolyard.model.tool import Tool

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


class KeyLimits(msgspec.Struct, frozen=True):
    """How much one principal may ask for; None means the server's default."""

    rate: float | None = None
    burst: float | None = None
    concurrency: int | None = None


class Principal(msgspec.Struct, frozen=True):
    """Whoever asks. Without keys everybody is `NOBODY`, who may do everything on a loopback server."""

    key_id: str | None
    name: str
    scopes: Scopes
    limits: KeyLimits = KeyLimits()

    @property
    def owner(self) -> str | None:
        """Whose sessions these are; None where there are no keys."""
        return self.key_id


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


class KeyScope(msgspec.Struct, frozen=True):
    """A key's scopes, as the call path asks about them."""

    principal: Principal

    @property
    def sees_all(self) -> bool:
        """True if the whole catalog is shown to the key."""
        return self.principal.scopes.everywhere("list")

    def lists(self, tool: Tool) -> bool:
        """True if the catalog shows it to the key."""
        return self.principal.scopes.allows("list", tool.namespace)

    def sees(self, tool: Tool) -> bool:
        """True if the key may know of the tool: who may call it may see it."""
        scopes, namespace = self.principal.scopes, tool.namespace
        return (
            scopes.allows("list", namespace)
            or scopes.allows("execute", namespace)
            or scopes.allows("simulate", namespace)
        )

    def may(self, mode: Mode, tool: Tool) -> bool:
        """True if the key may have it called; who may execute may also simulate."""
        scopes = self.principal.scopes
        return scopes.allows(mode, tool.namespace) or scopes.allows("execute", tool.namespace)


def scope_of(principal: Principal) -> KeyScope | None:
    """None for whoever may do everything."""
    return None if principal is NOBODY else KeyScope(principal)


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
    near = nearest(verb, VERBS)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(VERBS)}, or * for all"
    raise ConfigError(f"scope {text!r}: no verb is called {verb!r}; {hint}")
