"""The Catalog, Graph and Sources screens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request

from toolyard.model.call import Notify
from toolyard.model.report import SourceReport
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.catalog_view import MAX_QUERY, MOST_HITS, CatalogHits, CatalogView, IsVisible
from toolyard.serving.console.rendering import PageView
from toolyard.serving.identity import Principal
from toolyard.serving.query import query_str, read_count
from toolyard.serving.routes.operations import check_admin
from toolyard.serving.routing import caller_of
from toolyard.serving.service import Service

if TYPE_CHECKING:
    from toolyard.insight.dataflow.artifact import Dataflow

Data = dict[str, Any]

PAGE_SIZE = 100
SEARCH_HITS = 20
"""Hits shown at first, found as those that agents ask for; all of them take twice as long."""
_FACETS = {"namespace": 60, "source": 20, "effect": 3, "tag": 30}
"""The facets, each with the number of values offered."""
_MOST_LINES = 200
"""Report lines shown per source and kind; `GET /v1/report` has all."""
_MOST_EDGES = 60
"""Edges drawn; more would be unreadable. Choosing a namespace reduces them."""


class CatalogRow(msgspec.Struct, frozen=True):
    """One tool name; with overloads, the other fields describe the first of them."""

    name: str
    """Qualified name."""
    label: str
    namespace: str
    text: str
    effect: str
    tags: tuple[str, ...]
    source: str
    overloads: int
    held: bool = False
    """True if calls of it need approval."""
    stale: bool = False
    """True if reloading its source failed, so that this is the last good definition."""
    score: float | None = None
    """Estimated probability that this is the tool searched for."""
    fit: str = ""
    """The score in a word."""


async def show_catalog(service: Service, request: Request) -> Data:
    """`GET /console/tools`: the tools that the key may see, with search and facets; `PAGE_SIZE` per page."""
    # In a thread: the first search of a catalog builds its index.
    return await asyncio.to_thread(_list_catalog, service.catalog, request)


def _list_catalog(catalog: CatalogView, request: Request) -> Data:
    query = (query_str(request, "q") or "")[:MAX_QUERY]
    filters = {name: value for name in _FACETS if (value := query_str(request, name))}
    nearest = query_str(request, "fit") == "nearest"
    most = MOST_HITS if query_str(request, "hits") == "all" else SEARCH_HITS
    principal = caller_of(request).principal
    # One snapshot for all of the page: another one may have other tools.
    snapshot = catalog.registry.snapshot
    by_name = catalog.compute_cached(principal, "console rows", partial(_make_rows, catalog, principal), snapshot)
    rows = by_name.values()
    # Cached, because users page through one list.
    found, names, facets = catalog.compute_cached(
        *(principal, ("console facets", *filters.items())),
        lambda _: (kept := _filter_rows(rows, filters), {row.name for row in kept}, _count_facets(rows, filters)),
        snapshot,
    )
    mode = None
    if query.strip():
        search = partial(catalog.search, principal, snapshot, query, most, threshold=0.0 if nearest else None)
        hits = search()
        offered, mode = _rows_of_hits(by_name, hits), hits.mode
        facets = _count_facets(offered, filters)
        # Filters apply before ranking, so that other tools use up no hits.
        found = _rows_of_hits(by_name, search(where=lambda tool: tool.qualified_name in names)) if filters else offered
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(read_count(query_str(request, "page") or "") or 1, 1), pages)
    stale = list_stale(catalog)
    return {
        "query": query,
        "filters": filters,
        "rows": [
            msgspec.structs.replace(row, stale=True) if row.source in stale else row
            for row in found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        ],
        "facets": facets,
        "found": len(found),
        "total": len(rows),
        "page": page,
        "pages": pages,
        # The search mode: `lexical`, or one that also compares meaning.
        "search": mode,
        # True if weak hits are shown too.
        "nearest": nearest,
        # True if a search shows its best hits only, and there may be more.
        "shortened": mode is not None and len(found) == most < MOST_HITS,
        # The session to run the chosen tool in, and the entry after which to simulate it.
        "session": query_str(request, "session") or "",
        "at": query_str(request, "at") or "",
    }


def list_stale(catalog: CatalogView) -> set[str]:
    """Names of the sources whose last reload failed, so that their last good tools are served."""
    return {source.source for source in catalog.registry.report.sources if source.state == "stale"}


def _make_rows(catalog: CatalogView, principal: Principal, snapshot: Snapshot) -> dict[str, CatalogRow]:
    """Rows by qualified name, grouped by namespace."""
    shows, held = catalog.filter_for(principal), partial(catalog.is_held, principal)
    rows: dict[str, list[CatalogRow]] = {}
    for name, candidates in snapshot.names.items():
        tools = [one.tool for one in candidates if shows is None or shows(one.tool)]
        if tools:
            tool = tools[0]
            first_paragraph = " ".join(tool.description.strip().partition("\n\n")[0].split())
            row = CatalogRow(
                *(name, tool.name, tool.namespace, first_paragraph[:300], tool.effects.value),
                *(tool.tags, tool.source or "", len(tools), held(tool)),
            )
            rows.setdefault(tool.namespace, []).append(row)
    return {row.name: row for of_namespace in rows.values() for row in of_namespace}


def _rows_of_hits(rows: Mapping[str, CatalogRow], hits: CatalogHits) -> list[CatalogRow]:
    """The rows of the hits, without duplicates, best first."""
    marks: dict[str, Mapping[str, Any]] = {}
    for tool in hits.tools:
        marks.setdefault(tool.qualified_name, hits.of(tool))
    return [msgspec.structs.replace(rows[name], **mine) for name, mine in marks.items()]


def _filter_rows(rows: Collection[CatalogRow], filters: Mapping[str, str], ignored: str = "") -> list[CatalogRow]:
    wanted = [(name, value) for name, value in filters.items() if name != ignored]
    for name, value in wanted:
        rows = [row for row in rows if (value in row.tags if name == "tag" else value == getattr(row, name))]
    return list(rows)


def _list_values(rows: Collection[CatalogRow], facet: str) -> Iterable[str]:
    """The non-empty values of a facet in these rows, with repetitions."""
    if facet == "tag":
        return chain.from_iterable(row.tags for row in rows)
    return filter(None, map(attrgetter(facet), rows))


def _count_facets(rows: Collection[CatalogRow], filters: Mapping[str, str]) -> list[Data]:
    """For each facet, its values with the number of rows that pass the other facets' filters; most common first.

    `more` is the number of values that are not offered; search finds their tools.
    """
    facets = []
    for name, most in _FACETS.items():
        chosen = filters.get(name, "")
        counts = Counter(_list_values(_filter_rows(rows, filters, ignored=name), name))
        if chosen:
            counts.setdefault(chosen, 0)
        order = sorted(counts, key=lambda value: (value != chosen, -counts[value], value))
        offered = [{"value": value, "count": counts[value]} for value in order[:most]]
        facets.append({"name": name, "chosen": chosen, "choices": offered, "more": max(0, len(order) - most)})
    return facets


async def show_sources(service: Service, request: Request, notice: str = "") -> Data:
    """`GET /console/sources`: for every source in load order, its state and what it loaded, rewrote and rejected."""
    check_admin(request)
    loaded, report = service.loaded, service.loaded.registry.report
    of_sources = sum(len(source.warnings) for source in report.sources)
    return {
        "ok": report.ok,
        "loaded": report.loaded,
        "generation": loaded.registry.generation,
        "sandbox": loaded.sandbox,
        "sources": [_describe_source(source) for source in report.sources],
        # Warnings about similar names in different sources.
        "look_alikes": msgspec.to_builtins(list(report.warnings[of_sources:][:_MOST_LINES])),
        # Background work that currently fails.
        "failing": dict(service.failing),
        "notice": notice,
    }


async def reload_sources(service: Service, request: Request, form: Mapping[str, str], notify: Notify) -> PageView:
    """`POST /console/sources`: reload every source; one that fails keeps its last good tools."""
    check_admin(request)
    await service.loaded.reload()
    return PageView("sources.html", await show_sources(service, request, "Sources reloaded."))


def _describe_source(source: SourceReport) -> Data:
    """One source, with the first `_MOST_LINES` report lines of each kind."""
    kinds = {"rewrites": source.rewrites, "rejected": source.rejected, "warnings": source.warnings}
    return {
        **{
            name: getattr(source, name)
            for name in ("source", "state", "standing", "error", "entries", "loaded", "rewritten")
        },
        "rejections": len(source.rejected),
        "warned": len(source.warnings),
        **{kind: msgspec.to_builtins(list(lines)[:_MOST_LINES]) for kind, lines in kinds.items()},
        "left_out": sum(max(0, len(lines) - _MOST_LINES) for lines in kinds.values()),
    }


async def show_graph(service: Service, request: Request) -> Data:
    """`GET /console/graph`: the strongest edges of the dataflow; `?namespace=` limits it to one namespace."""
    namespace, catalog = query_str(request, "namespace") or "", service.catalog
    principal = caller_of(request).principal
    list_edges = partial(_list_edges, catalog.filter_for(principal), namespace)
    return await asyncio.to_thread(catalog.compute_cached, principal, ("console graph", namespace), list_edges)


def _list_edges(shows: IsVisible | None, namespace: str, snapshot: Snapshot) -> Data:
    from toolyard.insight.dataflow.artifact import Dataflow
    from toolyard.insight.graph import GraphOptions, select_graph

    page: Data = {"known": False, "namespaces": [], "namespace": namespace, "tools": 0, "edges": [], "edges_in_all": 0}
    dataflow = snapshot.artifacts.get("dataflow")
    if not isinstance(dataflow, Dataflow):
        return page
    tools = dataflow.tools
    seen = sorted({tool.namespace for tool in tools if shows is None or shows(tool)})
    wanted = (namespace,) if namespace in seen else ()
    chosen = select_graph(dataflow, GraphOptions(top=2, namespaces=wanted, linked=True))
    ends = zip(chosen.sources.tolist(), chosen.targets.tolist(), chosen.scores.tolist(), strict=True)
    shown = [end for end in ends if shows is None or (shows(tools[end[0]]) and shows(tools[end[1]]))][:_MOST_EDGES]
    return page | {
        "known": True,
        "namespaces": seen,
        "namespace": wanted[0] if wanted else "",
        "tools": len({tools[place].qualified_name for end in shown for place in end[:2]}),
        "edges": [
            {
                "source": tools[source].qualified_name,
                "target": tools[target].qualified_name,
                "score": round(score, 4),
                "carries": list_feeds(dataflow, source, target),
            }
            for source, target, score in shown
        ],
        "edges_in_all": dataflow.edge_count if shows is None else len(shown),
    }


def list_feeds(dataflow: Dataflow, source: int, target: int) -> list[str]:
    """The first values that an edge passes on, as `output → parameter`."""
    edge = dataflow.edge(source, target)
    return [f"{feed.output} → {feed.parameter}" for feed in (edge.feeds if edge else ())[:3]]
