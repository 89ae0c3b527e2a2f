"""The Catalog screen: every tool that the key may see, searched, narrowed down by facets, a hundred a page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from starlette.requests import Request

from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.console.rendering import CONSOLE, first_line
from toolyard.serving.console.screens import Screen, ScreenSet
from toolyard.serving.routes.catalog import MAX_QUERY, MOST_HITS, CatalogHits, search_tools
from toolyard.serving.routing import caller_of, query_str
from toolyard.serving.visibility import Shows

PAGE_SIZE = 100
_FACETS = {"namespace": 60, "source": 20, "effect": 3, "tag": 30}
"""What tools are told apart by, and how many values of it are offered."""
_ANYTHING = "nearest"


class CatalogRow(msgspec.Struct, frozen=True):
    """One name with its overloads, of which the first speaks for all."""

    name: str
    """The qualified one."""
    label: str
    namespace: str
    text: str
    effect: str
    tags: tuple[str, ...]
    source: str
    overloads: int
    held: bool = False
    """True if a call of it waits for somebody's word."""
    stale: bool = False
    """True if its source could not be loaded again, so that this is what it gave last."""
    score: float | None = None
    """How likely it is what was looked for."""

    def values(self, facet: str) -> tuple[str, ...]:
        """What it is found under."""
        if facet == "tag":
            return self.tags
        value: str = getattr(self, facet)
        return (value,) if value else ()


class FacetValue(msgspec.Struct, frozen=True):
    """One way to narrow the list down, and how much is left then."""

    value: str
    count: int


class Facet(msgspec.Struct, frozen=True):
    """What a list can be narrowed down by."""

    name: str
    chosen: str
    choices: list[FacetValue]
    more: int
    """Values that are not offered; search finds their tools."""


class CatalogPage(msgspec.Struct, frozen=True):
    """One page of what was asked for."""

    query: str
    filters: dict[str, str]
    rows: list[CatalogRow]
    facets: list[Facet]
    found: int
    total: int
    page: int
    pages: int
    search: str | None = None
    """How it was looked for: `words`, or by meaning, too."""
    nearest: bool = False
    """True if what is nearest is shown, although it hardly fits."""
    session: str = ""
    """The session that somebody looks for a tool to run in."""
    at: str = ""
    """The entry of it behind which the tool is to be simulated."""


class CatalogScreens(ScreenSet):
    """Makes pages of the catalog."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog

    def screens(self) -> tuple[Screen, ...]:
        """The one list there is."""
        return (Screen(f"{CONSOLE}/tools", "catalog.html", self.show_catalog, "Catalog"),)

    async def show_catalog(self, request: Request) -> CatalogPage:
        """`GET /console/tools`."""
        # Off the loop: the first search of a catalog makes its index.
        return await asyncio.to_thread(self._make_page, request)

    def _make_page(self, request: Request) -> CatalogPage:
        query = (query_str(request, "q") or "")[:MAX_QUERY]
        filters = {name: value for name in _FACETS if (value := query_str(request, name))}
        nearest = query_str(request, "fit") == _ANYTHING
        session, at = query_str(request, "session") or "", query_str(request, "at") or ""
        rows = self._list_rows(request)
        total, mode = len(rows), None
        if query.strip():
            hits = self._search(request, query, None, nearest)
            offered, mode = _take_hits(rows, hits), hits.mode
            facets = _count_facets(offered, filters)
            found = offered
            if filters:
                left, _ = self._narrow_kept(request, rows, filters)
                found = _take_hits(rows, self._search(request, query, left, nearest))
        else:
            found, facets = self._narrow_kept(request, rows, filters)
        pages = max(1, -(-len(found) // PAGE_SIZE))
        page = min(max(_read_number(query_str(request, "page")), 1), pages)
        shown = self._mark_stale(found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE])
        return CatalogPage(query, filters, shown, facets, len(found), total, page, pages, mode, nearest, session, at)

    def _list_rows(self, request: Request) -> list[CatalogRow]:
        principal, snapshot = caller_of(request).principal, self._catalog.registry.snapshot
        key = ("console rows", self._catalog.visibility.slot(principal))
        rows: list[CatalogRow] | None = self._catalog.cache.get(snapshot, key)
        if rows is None:
            shows = self._catalog.visibility.filter_for(principal)
            held = partial(self._catalog.visibility.is_held, principal)
            rows = _make_rows(snapshot, shows, held)
            self._catalog.cache.put(snapshot, key, rows)
        return rows

    def _narrow_kept(
        self, request: Request, rows: list[CatalogRow], filters: Mapping[str, str]
    ) -> tuple[list[CatalogRow], list[Facet]]:
        """What is left, and the facets; kept, because pages of one list are looked at one after the other."""
        snapshot = self._catalog.registry.snapshot
        key = ("console facets", self._catalog.visibility.slot(caller_of(request).principal), tuple(filters.items()))
        kept: tuple[list[CatalogRow], list[Facet]] | None = self._catalog.cache.get(snapshot, key)
        if kept is None:
            kept = _narrow(rows, filters), _count_facets(rows, filters)
            self._catalog.cache.put(snapshot, key, kept)
        return kept

    def _search(self, request: Request, query: str, left: list[CatalogRow] | None, nearest: bool) -> CatalogHits:
        """What fits among the tools that are left: what is left out before it is ranked makes room for others."""
        registry = self._catalog.registry
        where = self._catalog.visibility.filter_for(caller_of(request).principal)
        if left is not None:
            names, shows = {row.name for row in left}, where
            where = lambda tool: tool.qualified_name in names and (shows is None or shows(tool))  # noqa: E731
        return search_tools(registry, registry.snapshot, query, MOST_HITS, where, 0.0 if nearest else None)

    def _mark_stale(self, rows: Sequence[CatalogRow]) -> list[CatalogRow]:
        stale = {source.source for source in self._catalog.registry.report.sources if source.state == "stale"}
        return [msgspec.structs.replace(row, stale=True) if row.source in stale else row for row in rows]


def _make_rows(snapshot: Snapshot, shows: Shows | None, held: Shows) -> list[CatalogRow]:
    rows: dict[str, list[CatalogRow]] = {}
    for name, candidates in snapshot.names.items():
        tools = tuple(one.tool for one in candidates if shows is None or shows(one.tool))
        if tools:
            rows.setdefault(tools[0].namespace, []).append(_row_of(name, tools, held(tools[0])))
    return [row for of_namespace in rows.values() for row in of_namespace]


def _row_of(name: str, tools: Sequence[Tool], held: bool) -> CatalogRow:
    tool = tools[0]
    return CatalogRow(
        *(name, tool.name, tool.namespace, first_line(tool.description), tool.effects.value),
        *(tool.tags, tool.source or "", len(tools), held),
    )


def _take_hits(rows: Sequence[CatalogRow], hits: CatalogHits) -> list[CatalogRow]:
    """The rows of what was found, each once, the best first."""
    scores: dict[str, float | None] = {}
    for tool in hits.tools:
        scores.setdefault(tool.qualified_name, hits.score(tool))
    by_name = {row.name: row for row in rows if row.name in scores}
    return [msgspec.structs.replace(by_name[name], score=score) for name, score in scores.items()]


def _narrow(rows: Sequence[CatalogRow], filters: Mapping[str, str], but: str = "") -> list[CatalogRow]:
    wanted = [(name, value) for name, value in filters.items() if name != but]
    return [row for row in rows if all(value in row.values(name) for name, value in wanted)] if wanted else list(rows)


def _count_facets(rows: Sequence[CatalogRow], filters: Mapping[str, str]) -> list[Facet]:
    """How much each value would leave, beside what the other facets leave; the most common values first."""
    facets = []
    for name, most in _FACETS.items():
        chosen = filters.get(name, "")
        counts = Counter(value for row in _narrow(rows, filters, but=name) for value in row.values(name))
        if chosen:
            counts.setdefault(chosen, 0)
        order = sorted(counts, key=lambda value: (value != chosen, -counts[value], value))
        offered = [FacetValue(value, counts[value]) for value in order[:most]]
        facets.append(Facet(name, chosen, offered, max(0, len(order) - most)))
    return facets


def _read_number(text: str | None) -> int:
    return int(text[:9]) if text and text.isascii() and text.isdigit() else 1
