"""What tools there are: lists, the spellings of the providers, and looking tools up, as all wires do it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.dialects import DIALECTS, get_dialect
from toolyard.dialects.wire_names import read_wire_call, wire_names_of
from toolyard.model.call import ToolCall
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.catalog_view import CatalogView, show_native
from toolyard.serving.identity import Principal
from toolyard.serving.routing import (
    JsonResponse,
    Operation,
    QueryParameter,
    caller_of,
    query_fraction,
    query_int,
    query_str,
    read_query,
)
from toolyard.serving.wire_types import NativeListing, ProviderListing, V0Listed

MOST_HITS = 100
"""Of one search; those of `registry.search` are no more."""
MAX_QUERY = 500
"""Characters of a query on every wire, which are answered quickly."""
_AT_ONCE = 200
"""Tools whose vectors are made while somebody waits, which takes about a second, once."""


class CatalogHits(NamedTuple):
    """The tools, best first, and how they were looked for."""

    tools: Sequence[Tool]
    scores: Mapping[int, float]
    """By the identity of a tool: how likely it is what was asked for."""
    mode: str | None

    def score(self, tool: Tool) -> float | None:
        """The score of a tool, short enough to be read."""
        score = self.scores.get(id(tool))
        return None if score is None else round(score, 4)


def search_tools(
    registry: ToolRegistry,
    snapshot: Snapshot,
    text: str,
    k: int,
    where: Callable[[Tool], bool] | None,
    threshold: float | None = None,
) -> CatalogHits:
    """What `registry.search` gives for a query and as many hits, among the tools that `where` allows.

    Vectors of a large catalog that are not there yet are made meanwhile, and words alone are compared.
    """
    if "___" in text:
        # A name that only lists in a provider's spelling have.
        text = read_wire_call(snapshot, ToolCall(text.strip())).name
    wait = len(snapshot.tools) <= _AT_ONCE
    hits = registry.searcher.search(snapshot, text, k, where=where, wait=wait, threshold=threshold)
    return CatalogHits([hit.tool for hit in hits], {id(hit.tool): hit.score for hit in hits}, hits.mode)


_MOST = 1000
_TEXT = {"type": "string"}

_QUERY = (
    QueryParameter(
        "q", {"type": "string", "maxLength": MAX_QUERY}, "A task, or words of names, descriptions, tags; best first."
    ),
    QueryParameter("namespace", _TEXT, "Only tools of this namespace.", repeatable=True),
    QueryParameter("tag", _TEXT, "Only tools with this tag.", repeatable=True),
    QueryParameter("format", {"type": "string", "enum": list(DIALECTS)}, "Spell tools as this provider wants them."),
    QueryParameter(
        "threshold", {"type": "number", "minimum": 0, "maximum": 1}, "With `q`: the score the best must reach."
    ),
    QueryParameter("limit", {"type": "integer", "minimum": 1, "maximum": _MOST}, "Tools on a page; 100 if not given."),
    QueryParameter("cursor", {"type": "string", "pattern": "^[0-9]{1,12}$"}, "`next_cursor` of the page before."),
)


class CatalogRoutes:
    """Lists of tools."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog

    def operations(self) -> tuple[Operation, ...]:
        """The one list there is."""
        return (
            Operation(
                "GET",
                "/v1/tools",
                self.list_tools,
                "All tools, by name and description; with any query parameter, pages of whole definitions",
                answers={200: (list[V0Listed], NativeListing, ProviderListing), 304: None},
                query=_QUERY,
                verb="list",
                heavy=True,
            ),
        )

    async def list_tools(self, request: Request) -> Response:
        """Names and descriptions; with any query parameter, pages of whole definitions."""
        if request.scope["query_string"]:
            # Off the loop: a page may be a thousand tools, and the first search of a catalog makes its index.
            return await asyncio.to_thread(self._list_page, request)
        principal = caller_of(request).principal
        return self._catalog.answer_listing(request, "v0", lambda snapshot: self._list_names(principal, snapshot))

    def _list_names(self, principal: Principal, snapshot: Snapshot) -> list[dict[str, str]]:
        """One line a name: planners tell tools apart by that alone."""
        names = self._catalog.names.now
        lines: dict[str, dict[str, str]] = {}
        for tool in self._catalog.list_visible(principal, snapshot):
            name = names.spell_name(tool.qualified_name)
            lines.setdefault(name, {"name": name, "description": tool.description})
        return list(lines.values())

    def _list_page(self, request: Request) -> Response:
        """The page of the catalog that a query asks for."""
        snapshot = self._catalog.registry.snapshot
        limit = query_int(request, "limit", 1, _MOST, 100)
        start = int(query_str(request, "cursor") or 0)
        found = self._filter_tools(request, snapshot, start + limit)
        page = found.tools[start : start + limit]
        answer: dict[str, Any] = {"tools": [], "generation": snapshot.generation}
        if found.mode is not None:
            answer["search"] = found.mode
        if start + limit < (len(found.tools) if found.mode is None else min(len(found.tools) + 1, MOST_HITS)):
            # A search is asked for as many as fill the page, so that one more is a guess.
            answer["next_cursor"] = str(start + limit)
        spelling = query_str(request, "format")
        if spelling is None:
            answer["tools"] = [show_native(tool, found.score(tool)) for tool in page]
        else:
            # Of the whole catalog: an overload is called the same whichever page it stands on.
            dialect = get_dialect(spelling, page, names=wire_names_of(snapshot))
            answer["tools"] = dialect.format_tools(page)
            answer["names"] = {dialect.names.encode(tool): tool.qualified_name for tool in page}
            answer["changes"] = msgspec.to_builtins(dialect.report)
            if found.mode is not None:
                answer["scores"] = [found.score(tool) for tool in page]
        return JsonResponse(answer)

    def _filter_tools(self, request: Request, snapshot: Snapshot, k: int) -> CatalogHits:
        """The tools that were asked for; if by words, the best first."""
        tools, query = self._catalog.list_visible(caller_of(request).principal, snapshot), read_query(request)
        namespaces, tags = set(query.get("namespace", ())), set(query.get("tag", ()))
        if namespaces:
            tools = [tool for tool in tools if tool.namespace in namespaces]
        if tags:
            tools = [tool for tool in tools if tags <= set(tool.tags)]
        words, threshold = query_str(request, "q"), query_fraction(request, "threshold")
        if not words:
            return CatalogHits(tools, {}, None)
        allowed = set(map(id, tools))
        where = None if tools is snapshot.tools else lambda tool: id(tool) in allowed
        return search_tools(self._catalog.registry, snapshot, words, min(k, MOST_HITS), where, threshold)
