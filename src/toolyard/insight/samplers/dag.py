"""`tc/dag`: a connected, acyclic graph of tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

import msgspec

from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import SampleRequest, ToolSampler, Tries, search_starts
from toolyard.insight.samplers.chain import FlowOptions
from toolyard.insight.samplers.snapshot_view import Graph

Count = Annotated[int, msgspec.Meta(ge=1)]
Arc = tuple[int, int]
_ARCS = 100
"""Edges whose examination counts as one step."""


class DagOptions(FlowOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/dag`."""

    depth: Count | None = None
    """Exact number of levels. A tool is one level below the lowest tool that feeds it."""
    width: Count | None = None
    """Maximum number of tools on one level, which can run in parallel."""
    branching: Count | None = None
    """Maximum number of tools that one tool feeds."""
    max_tries: Tries = 20_000


class DagSampler(ToolSampler[DagOptions]):
    """A connected acyclic graph, in topological order."""

    sampler_name = "tc/dag"
    topology = "dag"
    required_artifacts = ("dataflow",)

    def draw(self, ask: SampleRequest[DagOptions]) -> Sample:
        """Grow a graph from random starts."""
        graph = ask.snapshot.graph(ask.options.min_score, ask.spaces)
        _check_options(ask)
        search = DagSearch(ask, graph)
        found = search.run()
        levels = found.levels
        places = sorted(levels, key=lambda place: (levels[place], found.order.index(place)))
        edges = [graph.edge(*arc) for arc in _list_arcs(graph, found, ask.options.branching)]
        return ask.sample(
            places,
            reason=ask.explain_no_edges(graph, search.reason),
            roles=[f"level {levels[place]}" for place in places],
            edges=edges,
            score=min((edge.score for edge in edges), default=None),
            details={
                "levels": [levels[place] for place in places],
                "depth": max(levels.values(), default=-1) + 1,
                "width": _count_most(levels.values()),
            },
        )


def _check_options(ask: SampleRequest[DagOptions]) -> None:
    k, depth, width = ask.k, ask.options.depth, ask.options.width
    if depth is not None and depth > k:
        raise ask.refusal(f"{k} tools cannot have {depth} levels")
    if depth is not None and width is not None and depth * width < k:
        raise ask.refusal(f"{depth} levels of {width} tools hold no more than {depth * width}, not {k}")
    if depth == 1 and k > 1:
        raise ask.refusal(f"{k} tools that feed each other have at least 2 levels, not 1")


class PartialGraph(NamedTuple):
    """A partial graph: every tool but the first was added with one arc."""

    order: tuple[int, ...]
    arcs: tuple[Arc, ...]
    levels: dict[int, int]


class DagSearch:
    """Grows a graph tool by tool, with backtracking."""

    def __init__(self, ask: SampleRequest[DagOptions], graph: Graph) -> None:
        self._ask = ask
        self._graph = graph
        self._options = ask.options
        self._chance = ask.chance("growth")
        self._left = ask.options.max_tries
        bounds = (ask.options.depth, ask.options.width, ask.options.branching)
        self._bounded = any(bound is not None for bound in bounds)
        self.best = PartialGraph((), (), {})
        most = max(graph.reach, default=0)
        self._hopeless = ask.k > max(1, most)
        """True if no connected component has `k` names; the search then only finds a part for the error."""
        if self._hopeless:
            self._left = min(self._left, 2 * most)

    def run(self) -> PartialGraph:
        """Return a graph of `k` tools, or the largest found."""
        found = search_starts(self._list_starts(), 16 * self._ask.k, self._search_from, lambda: self._left <= 0)
        return self.best if found is None else found

    @property
    def reason(self) -> str:
        """Why no graph was found."""
        if self._left <= 0 and not self._hopeless:
            return f"no such graph was met in max_tries={self._options.max_tries} steps"
        return "there is no such graph in the dataflow"

    def _list_starts(self) -> Iterable[int]:
        if self._ask.anchor is not None:
            return [self._ask.anchor]
        chance = self._ask.chance("start")
        if self._ask.k == 1:
            return chance.each(self._ask.places)
        reach = self._graph.reach
        # If no component is large enough, the largest gives a partial result for the error.
        enough = min(self._ask.k, max(reach, default=0))
        return (place for place in chance.each(self._graph.linked) if reach[place] >= enough)

    def _search_from(self, start: int, limit: int) -> tuple[PartialGraph | None, bool]:
        """Grow a graph from `start`; also return whether the search was exhaustive."""
        first = PartialGraph((start,), (), {start: 0})
        seen: set[frozenset[int] | frozenset[Arc]] = set()
        stack = [(first, self._list_larger(first))]
        while stack:
            partial_graph, larger = stack[-1]
            if len(partial_graph.order) > len(self.best.order):
                self.best = partial_graph
            depth = max(partial_graph.levels.values()) + 1
            if len(partial_graph.order) == self._ask.k and self._options.depth in (None, depth):
                return partial_graph, True
            if limit <= 0 or self._left <= 0:
                return None, False
            limit -= 1
            self._left -= 1
            after = next(larger, None)
            if after is None:
                stack.pop()
                continue
            mark: frozenset[int] | frozenset[Arc] = frozenset(after.arcs) if self._bounded else frozenset(after.order)
            if mark not in seen:
                seen.add(mark)
                stack.append((after, self._list_larger(after)))
        return None, True

    def _list_larger(self, partial_graph: PartialGraph) -> Iterator[PartialGraph]:
        """Yield the graphs with one more tool, in the order in which to try them."""
        if len(partial_graph.order) == self._ask.k:
            return
        names = self._graph.name_ids
        used = {names[place] for place in partial_graph.order}
        found: list[tuple[Arc, float]] = []
        for place in partial_graph.order:
            found += [((place, other), score) for other, score in self._graph.out[place] if names[other] not in used]
            found += [((other, place), score) for other, score in self._graph.into[place] if names[other] not in used]
        self._left -= len(found) // _ARCS
        for arc in self._chance.by_weight([arc for arc, _ in found], [score for _, score in found]):
            new = arc[1] if arc[1] not in partial_graph.levels else arc[0]
            more = (*partial_graph.arcs, arc)
            after = PartialGraph((*partial_graph.order, new), more, _find_levels(partial_graph.levels, arc, more))
            if self._fits_options(after):
                yield after

    def _fits_options(self, partial_graph: PartialGraph) -> bool:
        """Whether the graph satisfies the options and can still reach the requested depth."""
        options = self._options
        depth = max(partial_graph.levels.values()) + 1
        if options.depth is not None and not depth <= options.depth <= depth + self._ask.k - len(partial_graph.order):
            return False
        sources = (source for source, _ in partial_graph.arcs)
        if options.branching is not None and _count_most(sources) > options.branching:
            return False
        # Adding a tool above others moves them down, so the width is checked only once the graph is complete.
        final = len(partial_graph.order) == self._ask.k
        return not final or options.width is None or _count_most(partial_graph.levels.values()) <= options.width


def _count_most(items: Iterable[int]) -> int:
    """How often the most frequent item occurs."""
    return max(Counter(items).values(), default=0)


def _find_levels(before: dict[int, int], arc: Arc, arcs: tuple[Arc, ...]) -> dict[int, int]:
    """Update the longest path to each tool for one more arc; the arcs form a tree, so there is no cycle."""
    source, target = arc
    if source in before:
        return {**before, target: before[source] + 1}
    levels = {**before, source: 0}
    fed: dict[int, list[int]] = {}
    for start, end in arcs:
        fed.setdefault(start, []).append(end)
    sinking = [(source, target)]
    while sinking:
        above, place = sinking.pop()
        if levels[place] <= levels[above]:
            levels[place] = levels[above] + 1
            sinking += [(place, below) for below in fed.get(place, ())]
    return levels


def _list_arcs(graph: Graph, found: PartialGraph, branching: int | None) -> list[Arc]:
    """The arcs of the growth, plus all others that lead down, which add no cycle and change no level."""
    arcs = list(found.arcs)
    known = set(arcs)
    fed = Counter(source for source, _ in arcs)
    for source in found.order:
        for target, _ in graph.out[source]:
            if target not in found.levels or (source, target) in known:
                continue
            if found.levels[source] < found.levels[target] and (branching is None or fed[source] < branching):
                fed[source] += 1
                arcs.append((source, target))
    return sorted(arcs, key=lambda arc: (found.levels[arc[0]], found.order.index(arc[0]), found.levels[arc[1]]))
