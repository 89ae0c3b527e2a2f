"""`CatalogView`: the tools that a caller may know of, and the one they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.model.json_words import closest
from toolyard.model.names import show
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal, scope_of
from toolyard.serving.responses import JsonResponse
from toolyard.serving.routing import caller_of
from toolyard.serving.served_names import TOOL_ID, CurrentNames

_MOST = 256


class SnapshotCache:
    """What depends on the catalog alone, kept until that is another one. Where there is too much, the oldest goes."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._snapshot: object = None
        self._kept: dict[object, Any] = {}

    def get(self, snapshot: object, key: object) -> Any:
        """What was kept under the key for that very snapshot, or None."""
        return self._kept.get(key) if self._snapshot is snapshot else None

    def put(self, snapshot: object, key: object, value: Any) -> None:
        """Keep it; another snapshot begins anew."""
        if self._snapshot is not snapshot:
            self._snapshot, self._kept = snapshot, {}
        if len(self._kept) >= self._most:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = value


class CatalogView:
    """The registry as callers see it."""

    def __init__(self, registry: ToolRegistry, names: CurrentNames, cache: SnapshotCache) -> None:
        self.registry = registry
        self.names = names
        self._cache = cache

    def list_visible(self, principal: Principal, snapshot: Snapshot) -> Sequence[Tool]:
        """The tools that the caller may know of, in registration order."""
        scope = scope_of(principal)
        return snapshot.tools if scope is None else [tool for tool in snapshot.tools if scope.lists(tool)]

    def answer_listing(self, request: Request, key: str, make: Callable[[Snapshot], Any]) -> Response:
        """An answer of catalog and key alone: written once, and tagged so that it need not travel twice."""
        snapshot, slot = self.registry.snapshot, (key, caller_of(request).principal.scopes)
        kept: tuple[bytes, str] | None = self._cache.get(snapshot, slot)
        if kept is None:
            body = msgspec.json.encode(make(snapshot))
            kept = body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
            self._cache.put(snapshot, slot, kept)
        body, tag = kept
        wanted = request.headers.get("if-none-match")
        if wanted is not None and _names_tag(tag, wanted):
            return Response(status_code=304, headers={"etag": tag})
        return JsonResponse(body, headers={"etag": tag})

    def find_definition(self, principal: Principal, name: str, fingerprint: str | None) -> Tool:
        """The one tool a name and perhaps a fingerprint stand for, among those the caller may know of."""
        scope = scope_of(principal)
        known = self.names.now.find_name(name, None if scope is None else scope.lists)
        return self.find_overload(principal, known, name, fingerprint)

    def find_overload(
        self, principal: Principal, known: str | None, name: str, fingerprint: str | None, *, by_id: bool = False
    ) -> Tool:
        """The tool behind a qualified name; 404 if the caller knows none, 409 if there are several.

        `by_id`: `name` is a tool id, and so are the names in what is said of it.
        """
        scope = scope_of(principal)
        tools = [] if known is None else self.registry.get(known)
        if not tools or (scope is not None and not scope.lists(tools[0])):
            raise self._unknown_tool(principal, name, by_id)
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

    def _unknown_tool(self, principal: Principal, name: str, by_id: bool) -> HttpFault:
        """What is said of a name that stands for no tool, or for several; only what the caller sees is named."""
        names = self.names.now
        spell = names.tool_id if by_id else names.spell_name
        tools = self.list_visible(principal, names.snapshot)
        bare = name.removeprefix(TOOL_ID) if by_id else name
        homes = list(dict.fromkeys(spell(tool.qualified_name) for tool in tools if tool.name == bare))
        if len(homes) > 1:
            return HttpFault(
                404,
                "tool.not_found",
                f"{show(name)} is in several namespaces; say which: {', '.join(homes)}",
                details={"candidates": homes},
            )
        near = closest(name, list(dict.fromkeys(spell(tool.qualified_name) for tool in tools)))
        hint = f"did you mean {' or '.join(near)}?" if near else None
        return HttpFault(404, "tool.not_found", f"no tool is called {show(name)}", hint=hint)


def show_native(tool: Tool, score: float | None = None) -> dict[str, Any]:
    """A tool with everything known of it, and how well it fits what was asked for."""
    return {
        **({} if score is None else {"score": score}),
        "qualified_name": tool.qualified_name,
        **tool.to_dict(),
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
    }


def _names_tag(tag: str, wanted: str) -> bool:
    """True if the header names the tag, alone or in a list; a proxy may have called it weak."""
    return wanted.strip() == "*" or tag in (item.strip().removeprefix("W/") for item in wanted.split(","))
