"""The Graph screen: which tools feed which, as far as the dataflow enrichment has found out, drawn in columns."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request

from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.console.rendering import CONSOLE
from toolyard.serving.console.screens import Screen, ScreenSet
from toolyard.serving.routing import caller_of, query_str

_MOST_EDGES = 60
"""More would be a tangle; a namespace narrows it down."""
_WIDE, _HIGH, _GAP_X, _GAP_Y = 190, 34, 90, 14
_SWEEPS = 4


class GraphNode(msgspec.Struct):
    """One tool, and where it is drawn."""

    name: str
    label: str
    namespace: str
    x: int = 0
    y: int = 0


class GraphEdge(msgspec.Struct, frozen=True):
    """The tool at one place feeds the one at another."""

    source: int
    target: int
    score: float
    carries: list[str]


class GraphPage(msgspec.Struct, frozen=True):
    """The strongest edges, and the tools at their ends."""

    known: bool
    """False if no enrichment has studied the dataflow here."""
    namespaces: list[str]
    namespace: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    edges_in_all: int
    width: int
    height: int
    node_width: int = _WIDE
    node_height: int = _HIGH


class GraphScreens(ScreenSet):
    """Draws the dataflow."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog

    def screens(self) -> tuple[Screen, ...]:
        """The one graph there is."""
        return (Screen(f"{CONSOLE}/graph", "graph.html", self.show_graph, "Graph", heavy=True),)

    async def show_graph(self, request: Request) -> GraphPage:
        """`GET /console/graph`; `?namespace=` shows that one alone."""
        namespace, principal = query_str(request, "namespace") or "", caller_of(request).principal
        snapshot = self._catalog.registry.snapshot
        key = ("console graph", self._catalog.visibility.slot(principal), namespace)
        page: GraphPage | None = self._catalog.cache.get(snapshot, key)
        if page is None:
            shows = self._catalog.visibility.filter_for(principal)
            dataflow = self._catalog.registry.artifacts.get("dataflow")
            page = await asyncio.to_thread(_make_page, dataflow, shows, namespace)
            self._catalog.cache.put(snapshot, key, page)
        return page


def _make_page(dataflow: Any, shows: Any, namespace: str) -> GraphPage:
    from toolyard.insight.dataflow.artifact import Dataflow
    from toolyard.insight.graph import GraphOptions, select_graph

    if not isinstance(dataflow, Dataflow):
        return GraphPage(False, [], namespace, [], [], 0, 0, 0)
    tools = dataflow.tools
    seen = sorted({tool.namespace for tool in tools if shows is None or shows(tool)})
    wanted = (namespace,) if namespace in seen else ()
    chosen = select_graph(dataflow, GraphOptions(top=2, namespaces=wanted, linked=True))
    ends = zip(chosen.sources.tolist(), chosen.targets.tolist(), chosen.scores.tolist(), strict=True)
    shown = [end for end in ends if shows is None or (shows(tools[end[0]]) and shows(tools[end[1]]))][:_MOST_EDGES]
    places = {place: number for number, place in enumerate(dict.fromkeys(p for end in shown for p in end[:2]))}
    nodes = [GraphNode(tools[place].qualified_name, tools[place].name, tools[place].namespace) for place in places]
    edges = []
    for source, target, score in shown:
        edge = dataflow.edge(source, target)
        carries = [f"{feed.output} → {feed.parameter}" for feed in (edge.feeds if edge else ())[:3]]
        edges.append(GraphEdge(places[source], places[target], round(score, 4), carries))
    columns = _arrange_columns(len(nodes), [(edge.source, edge.target) for edge in edges])
    for number, column in enumerate(columns):
        for row, node in enumerate(column):
            nodes[node].x, nodes[node].y = number * (_WIDE + _GAP_X), row * (_HIGH + _GAP_Y)
    width = len(columns) * (_WIDE + _GAP_X) - _GAP_X if columns else 0
    height = max((len(column) for column in columns), default=0) * (_HIGH + _GAP_Y)
    total = dataflow.edge_count if shows is None else len(shown)
    return GraphPage(True, seen, wanted[0] if wanted else "", nodes, edges, total, width, height)


def _arrange_columns(count: int, edges: list[tuple[int, int]]) -> list[list[int]]:
    """The nodes in columns, so that most edges go to the right; within a column near what they are tied to."""
    ranks = _rank_nodes(count, edges)
    columns: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for node, rank in enumerate(ranks):
        columns[rank].append(node)
    near: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        near[source].append(target)
        near[target].append(source)
    for sweep in range(_SWEEPS):
        place = {node: row for column in columns for row, node in enumerate(column)}
        for column in columns if sweep % 2 == 0 else reversed(columns):
            column.sort(key=lambda node: (sum(place[one] for one in near[node]) / max(len(near[node]), 1), node))
            place.update({node: row for row, node in enumerate(column)})
    return columns


def _rank_nodes(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """For each node the length of the longest way to it; edges that would close a circle, the weaker ones, go back."""
    forward: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        if not _reaches(forward, target, source):
            forward[source].append(target)
    ranks = [0] * count
    for _ in range(count):
        moved = False
        for source, targets in enumerate(forward):
            for target in targets:
                if ranks[target] <= ranks[source]:
                    ranks[target], moved = ranks[source] + 1, True
        if not moved:
            break
    return ranks


def _reaches(forward: list[list[int]], start: int, goal: int) -> bool:
    seen, line = {start}, [start]
    while line:
        node = line.pop()
        if node == goal:
            return True
        fresh = [one for one in forward[node] if one not in seen]
        seen.update(fresh)
        line += fresh
    return False
