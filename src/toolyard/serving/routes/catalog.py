"""What tools there are: lists, the spellings of the providers, and looking tools up, as all wires do it.

What fits the task comes first, as the registry's search has it, with its score. A few words may also be meant as words:
then what has all of them in its name, description or tags follows, without a score, the beginning of a word being
enough. More words than that are a task, and where no tool fits it, none is shown.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.dialects import DIALECTS, get_dialect
from toolyard.dialects.wire_names import wire_names_of
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

MAX_QUERY = 500
"""Characters of a query on every wire, which are answered quickly."""
MOST_WORDS = 12
_FEW_WORDS = 4
"""Words that may be meant as words, and not as a task."""
_MOST_HITS = 50
_WORD = re.compile(r"[^\W_]+")
_PREFIXES = 50
"""Words that one that is not a word of its own may be the beginning of."""
_IN_NAME, _IN_TEXT = 4, 2

_indexes: WeakKeyDictionary[Snapshot, WordIndex] = WeakKeyDictionary()


class CatalogHits(NamedTuple):
    """The tools, best first, and how they were looked for."""

    tools: Sequence[Tool]
    scores: Mapping[int, float]
    """By the identity of a tool: how likely it is what was asked for. Not there for one that only has the words."""
    mode: str | None

    def score(self, tool: Tool) -> float | None:
        """The score of a tool, short enough to be read."""
        score = self.scores.get(id(tool))
        return None if score is None else round(score, 4)


def search_tools(
    registry: ToolRegistry,
    snapshot: Snapshot,
    text: str,
    where: Callable[[Tool], bool] | None,
    threshold: float | None = None,
) -> CatalogHits:
    """The tools that a query finds among those that `where` allows.

    With a `threshold` nothing is offered unless the best has that score. Vectors that are not there yet are made
    meanwhile, and words alone are compared.
    """
    hits = registry.searcher.search(snapshot, text, _MOST_HITS, where=where, wait=False, threshold=threshold)
    found = {id(hit.tool): hit.tool for hit in hits}
    if threshold is None and len(_WORD.findall(text)) <= _FEW_WORDS:
        scores = index_words(snapshot).search(text)
        # The best first; among equals, the first registered.
        for place in sorted(scores, key=lambda place: (-scores[place], place)):
            tool = snapshot.tools[place]
            if where is None or where(tool):
                found.setdefault(id(tool), tool)
    return CatalogHits(list(found.values()), {id(hit.tool): hit.score for hit in hits}, hits.mode)


def index_words(snapshot: Snapshot) -> WordIndex:
    """The index of a snapshot; made when it is first asked for, which takes a while where there are many tools."""
    found = _indexes.get(snapshot)
    if found is None:
        found = _indexes[snapshot] = WordIndex(snapshot)
    return found


class WordIndex:
    """Which tools have which words, and how much that counts."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._places: dict[str, dict[int, int]] = {}
        for place, tool in enumerate(snapshot.tools):
            for word, weight in _words_of_tool(tool):
                places = self._places.setdefault(word, {})
                places[place] = max(weight, places.get(place, 0))
        self._vocabulary = sorted(self._places)

    def search(self, text: str) -> dict[int, int]:
        """Scores of the tools, by their place in the snapshot, that have all of the words; no words, no tools."""
        scores: dict[int, int] | None = None
        for wanted in dict.fromkeys(_WORD.findall(text.lower())[:MOST_WORDS]):
            found: dict[int, int] = {}
            for word in self._matching_words(wanted):
                for place, weight in self._places[word].items():
                    found[place] = max(weight, found.get(place, 0))
            known = scores
            scores = found if known is None else {p: known[p] + weight for p, weight in found.items() if p in known}
        return scores or {}

    def _matching_words(self, wanted: str) -> list[str]:
        """The word itself, or those that begin with it."""
        if wanted in self._places:
            return [wanted]
        start = bisect_left(self._vocabulary, wanted)
        return [word for word in self._vocabulary[start : start + _PREFIXES] if word.startswith(wanted)]


def _words_of_tool(tool: Tool) -> Iterator[tuple[str, int]]:
    for text in (tool.namespace, tool.name, *tool.aliases):
        yield from ((word, _IN_NAME) for word in _WORD.findall(text.lower()))
    for text in (tool.description, *tool.tags):
        yield from ((word, _IN_TEXT) for word in _WORD.findall(text.lower()))


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
        found = self._filter_tools(request, snapshot)
        page = found.tools[start : start + limit]
        answer: dict[str, Any] = {"tools": [], "generation": snapshot.generation}
        if found.mode is not None:
            answer["search"] = found.mode
        if start + limit < len(found.tools):
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

    def _filter_tools(self, request: Request, snapshot: Snapshot) -> CatalogHits:
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
        return search_tools(self._catalog.registry, snapshot, words, where, threshold)
