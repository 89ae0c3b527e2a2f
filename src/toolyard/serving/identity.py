"""`Scopes`: what an API key allows. `Principal`: who makes a request. `Caller`: the state of one request.

The call path gets the principal as its `Scope`: tools that the principal must not see do not exist there.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, Literal, get_args

import msgspec

from toolyard.model.call import Mode, ToolResult
from toolyard.model.errors import ConfigError
from toolyard.model.names import find_similar
from toolyard.model.tool import Tool

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
    named = VERBS if verbs == "*" else [verb.strip() for verb in verbs.split(",")]
    for verb in named:
        if verb not in VERBS:
            near = find_similar(verb, VERBS)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(VERBS)}, or * for all"
            raise ConfigError(f"scope {text!r}: no verb is called {verb!r}; {hint}")
    return Grant(namespaces, frozenset(verb for verb in VERBS if verb in named))


class KeyLimits(msgspec.Struct, frozen=True):
    """Request limits of one principal; None means the server's default."""

    rate: float | None = None
    burst: float | None = None
    concurrency: int | None = None


class Principal(msgspec.Struct, frozen=True):
    """Who makes requests, with what scopes and limits. On a server without keys every caller is `NOBODY`, who may do
    everything.
    """

    key_id: str | None
    name: str
    scopes: Scopes
    limits: KeyLimits = KeyLimits()

    @property
    def can_list_all(self) -> bool:
        """True if it may list every namespace."""
        return self.scopes.allows_everywhere("list")

    @property
    def owner(self) -> str | None:
        """The owner of the sessions it creates; None without keys."""
        return self.key_id

    @property
    def policy_keys(self) -> tuple[str, ...]:
        """The id and name of the key, to be matched with `keys` of policy rules."""
        return () if self.key_id is None else (self.key_id, self.name)

    def can_list(self, tool: Tool) -> bool:
        """True if listings show it the tool."""
        return self.scopes.allows("list", tool.namespace)

    def can_see(self, tool: Tool) -> bool:
        """True if it may list, simulate or execute the tool."""
        return self.can_list(tool) or self.can_call("simulate", tool)

    def can_call(self, mode: Mode, tool: Tool) -> bool:
        """True if it may call the tool; one that may execute may also simulate."""
        return self.scopes.allows(mode, tool.namespace) or self.scopes.allows("execute", tool.namespace)


NOBODY = Principal(None, "anonymous", ALL)

CALLER = "toolyard.caller"
"""Key of the `Caller` in the ASGI scope."""


class Caller(msgspec.Struct, eq=False):
    """The state of one request, over HTTP or not: its principal, and what middleware and handlers record about it."""

    principal: Principal = NOBODY
    headers: dict[bytes, bytes] = {}
    """Request headers by lower-case name. `HostGuard` refuses requests that repeat a header which matters."""
    request_id: str = ""
    route: str = ""
    """The path template that matched, for metrics and logs."""
    tool: str = ""
    """The tool that was called, or the number of calls, for the log."""
    code: str = ""
    """The error code of its call, if there was one call and it failed, for the log."""
    abandoned: list[Future[Any]] = []
    """Work of its calls that is still running past its deadline."""
    shared_headers: tuple[tuple[bytes, bytes], ...] = ()
    """CORS headers for the response."""
    leave_place: Callable[[], None] | None = None
    take_place: Callable[[], Awaitable[None]] | None = None
    """Give back the request's place, and take one again."""
    is_gone: Callable[[], Awaitable[bool]] | None = None
    """Whether the client has disconnected; None if that cannot be known."""
    unfinished: tuple[ToolResult, ...] = ()
    """The results of its calls while some are held; a repeat runs only the held calls again."""
