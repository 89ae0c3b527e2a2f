"""`CatalogView`: the registry as callers see it: which tools each may see, by name, in listings and in searches.

Values computed from the catalog are cached per snapshot and shared by all callers who see the same tools.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.calls.policy import Policy
from toolyard.dialects.wire_names import read_wire_call
from toolyard.model.call import ToolCall
from toolyard.model.names import describe_idle, find_similar_tools, show
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import hint_missing
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.http_fault import ARP_PLACE, HttpFault
from toolyard.serving.identity import Principal, Scopes
from toolyard.serving.invoke import TOOL_ID, CurrentNames
from toolyard.serving.routing import JsonResponse, caller_of

T = TypeVar("T")
IsVisible = Callable[[Tool], bool]

MOST_HITS = 100
"""The most hits of one search, as in `registry.search`."""
MAX_QUERY = 500
"""The most characters of a query, on every wire; keeps searches fast."""
_AT_ONCE = 200
"""The most tools for which a request waits until their vectors are computed; that takes about a second, once."""
_MAX_CACHED = 256
_MOST_NOTES = 3
"""The most notes of a listing: to find the nearest of ten thousand tags takes 0.1 s."""


class CatalogHits(NamedTuple):
    """The tools found, best first, with their scores and the search mode."""

    tools: Sequence[Tool]
    marks: Mapping[int, Mapping[str, Any]]
    """`score`, rounded, and `fit` by the `id()` of the tool."""
    mode: str | None

    def of(self, tool: Tool) -> Mapping[str, Any]:
        """Return `score` and `fit` of a tool; empty if there are none."""
        return self.marks.get(id(tool), {})


class SnapshotCache:
    """Values computed from one snapshot, dropped when there is a new one. When it is full, the oldest entry goes."""

    def __init__(self) -> None:
        self._kept: tuple[object, dict[object, Any]] = (None, {})
        self._lock = threading.Lock()

    def get(self, snapshot: object, key: object) -> Any:
        """Return the value cached under the key for exactly this snapshot, or None."""
        known, kept = self._kept
        return kept.get(key) if known is snapshot else None

    def put(self, snapshot: object, key: object, value: Any) -> None:
        """Cache a value; another snapshot replaces everything. Thread-safe."""
        with self._lock:
            known, kept = self._kept
            if known is not snapshot:
                kept = {}
                self._kept = (snapshot, kept)
            if len(kept) >= _MAX_CACHED:
                del kept[next(iter(kept))]
            kept[key] = value


class CatalogView:
    """The tools of a registry, filtered by what each caller may see: those its key lists, without those the policy
    always denies it.

    Calling such a denied tool still fails with the policy's reason, not as an unknown tool.
    """

    def __init__(self, registry: ToolRegistry, names: CurrentNames, policy: Policy | None) -> None:
        self.registry = registry
        self.names = names
        self.cache = SnapshotCache()
        self._searches = SnapshotCache()
        """Apart from `cache`, so that many different queries do not displace what every request needs."""
        self._policy = policy

    def filter_for(self, principal: Principal) -> IsVisible | None:
        """Return a predicate that is true for visible tools; None if all are visible."""
        policy, keys = self._policy, principal.policy_keys
        if policy is None:
            return None if principal.can_list_all else principal.can_list
        return lambda tool: principal.can_list(tool) and not policy.always_denies(tool, keys)

    def is_held(self, principal: Principal, tool: Tool) -> bool:
        """True if the principal's calls of the tool need approval, at least in some sessions."""
        return self._policy is not None and self._policy.may_ask(tool, principal.policy_keys)

    def cache_key(self, principal: Principal) -> tuple[Scopes, tuple[str, ...]]:
        """Return a cache key that is equal for callers who see the same tools of a catalog."""
        looks_at_keys = self._policy is not None and self._policy.looks_at_keys
        return principal.scopes, principal.policy_keys if looks_at_keys else ()

    def list_visible(self, principal: Principal, snapshot: Snapshot) -> Sequence[Tool]:
        """Return the tools that the caller may see, in registration order."""
        shows = self.filter_for(principal)
        if shows is None:
            return snapshot.tools
        # Cached: checking the policy for ten thousand tools is slow.
        return self.compute_cached(principal, "visible", lambda snapshot: list(filter(shows, snapshot.tools)), snapshot)

    def search(
        self,
        principal: Principal,
        snapshot: Snapshot,
        text: str,
        k: int,
        *,
        where: IsVisible | None = None,
        **conditions: Hashable,
    ) -> CatalogHits:
        """Return at most `k` hits among the tools that the caller may see; `conditions` are those of the searcher.

        While the vectors of a large catalog are being computed in the background, the search is lexical. Cached,
        because users reload and go back; not with `where`, nor by words alone, which may change with the vectors.
        """
        slot = (text, k, *sorted(conditions.items()), self.cache_key(principal))
        kept: CatalogHits | None = None if where else self._searches.get(snapshot, slot)
        if kept is None:
            kept = self._search(principal, snapshot, text, k, where, conditions)
            if where is None and kept.mode == "hybrid":
                self._searches.put(snapshot, slot, kept)
        return kept

    def note_idle(
        self, principal: Principal, snapshot: Snapshot, namespaces: Iterable[str], tags: Iterable[str]
    ) -> dict[str, list[str]]:
        """Return `notes` on namespaces and tags that no tool which the caller may see has; empty if there are none."""
        tools = self.list_visible(principal, snapshot) if namespaces or tags else ()
        known = {tool.namespace for tool in tools}
        idle = chain(
            describe_idle("namespace", namespaces, known, exact=True),
            describe_idle("tag", tags, {tag for tool in tools for tag in tool.tags}, exact=True),
        )
        notes = list(islice(idle, _MOST_NOTES))
        return {"notes": notes} if notes else {}

    def _search(
        self,
        principal: Principal,
        snapshot: Snapshot,
        text: str,
        k: int,
        where: IsVisible | None,
        conditions: Mapping[str, Any],
    ) -> CatalogHits:
        tools, also = self.list_visible(principal, snapshot), where
        if tools is not snapshot.tools:
            shown = set(map(id, tools))
            where = lambda tool: id(tool) in shown and (also is None or also(tool))  # noqa: E731
        if "___" in text:
            # A wire name from a listing in a provider's format.
            text = read_wire_call(snapshot, ToolCall(text.strip())).name
        wait = len(snapshot.tools) <= _AT_ONCE
        hits = self.registry.searcher.search(snapshot, text, k, wait=wait, where=where, **conditions)
        marks = {id(hit.tool): {"score": round(hit.score, 4), "fit": hit.fit} for hit in hits}
        return CatalogHits([hit.tool for hit in hits], marks, hits.mode)

    def compute_cached(
        self, principal: Principal, key: object, make: Callable[[Snapshot], T], snapshot: Snapshot | None = None
    ) -> T:
        """Return `make(snapshot)`, cached per snapshot and shared by all callers who see the same tools."""
        snapshot, slot = snapshot or self.registry.snapshot, (key, self.cache_key(principal))
        kept: T | None = self.cache.get(snapshot, slot)
        if kept is None:
            kept = make(snapshot)
            self.cache.put(snapshot, slot, kept)
        return kept

    async def answer_listing(self, request: Request, key: str, make: Callable[[Snapshot], Any]) -> Response:
        """Respond with a document that depends only on the catalog and what the caller may see.

        It is encoded once, and has an ETag: `If-None-Match` is answered with 304.
        """
        principal = caller_of(request).principal

        def write(snapshot: Snapshot) -> tuple[bytes, str]:
            body = msgspec.json.encode(make(snapshot))
            return body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'

        kept = self.cache.get(self.registry.snapshot, (key, self.cache_key(principal)))
        body, tag = kept or await asyncio.to_thread(self.compute_cached, principal, key, write)
        wanted = request.headers.get("if-none-match", "")
        # A proxy may have made the ETag a weak one.
        if wanted.strip() == "*" or tag in (item.strip().removeprefix("W/") for item in wanted.split(",")):
            return Response(status_code=304, headers={"etag": tag})
        return JsonResponse(body, headers={"etag": tag})

    def find_definition(self, principal: Principal, name: str, fingerprint: str | None, *, by_id: bool = False) -> Tool:
        """Return the one tool that a name or, with `by_id`, a tool id stands for among those the caller may see.

        404 if the caller sees none, 409 if there are several and the fingerprint selects none of them.
        """
        shows, names = self.filter_for(principal), self.names.now
        known = names.find_id(name, shows) if by_id else names.find_name(name, shows)
        if fingerprint is None and not by_id:
            fingerprint = names.read_call(ToolCall(name)).overload
        tools = [tool for tool in self.registry.get(known or "") if shows is None or shows(tool)]
        if not tools:
            raise self.make_unknown(principal, name, by_id=by_id)
        if fingerprint is not None:
            tools = [tool for tool in tools if tool.fingerprint.startswith(fingerprint)]
            if not tools:
                raise HttpFault(404, "tool.not_found", f"{show(name)} has no overload with that fingerprint")
        if len(tools) > 1:
            overloads = [{"fingerprint": tool.fingerprint, "description": tool.description} for tool in tools]
            raise HttpFault(
                409,
                "tool.overloaded",
                f"{len(tools)} tools are called {show(name)}; say which by ?fingerprint=",
                details={"overloads": overloads},
            )
        return tools[0]

    def make_unknown(self, principal: Principal, name: str, *, by_id: bool) -> HttpFault:
        """Return the 404 for a name that stands for no tool or for several. It names only tools the caller may see."""
        names = self.names.now
        spell = names.tool_id if by_id else names.spell_name
        tools = self.list_visible(principal, names.snapshot)
        bare = name.removeprefix(TOOL_ID) if by_id else name
        candidates = list(dict.fromkeys(spell(tool.qualified_name) for tool in tools if tool.name == bare))
        if len(candidates) > 1:
            return HttpFault(
                404,
                "tool.not_found",
                f"{show(name)} is in several namespaces; say which: {', '.join(candidates)}",
                details={"candidates": candidates},
            )
        spelt = dict.fromkeys(names.spell_name(tool.qualified_name) for tool in tools)
        near = [f"{TOOL_ID}{known}" if by_id else known for known in find_similar_tools(bare, spelt)]
        hint = hint_missing(names.snapshot if principal.can_list_all else None, bare, near)
        is_id = not by_id and any(names.tool_id(tool.qualified_name) == name for tool in tools)
        where = f"; it is a tool_id, and {ARP_PLACE}" if is_id else ""
        details = {"candidates": near} if near else {}
        return HttpFault(404, "tool.not_found", f"no tool is called {show(name)}{where}", hint=hint, details=details)


def show_native(tool: Tool, **marks: Any) -> dict[str, Any]:
    """Return all fields of a tool as JSON; `marks` are added to it, such as the score of a search hit."""
    return {
        **marks,
        "qualified_name": tool.qualified_name,
        **tool.to_dict(),
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
    }
