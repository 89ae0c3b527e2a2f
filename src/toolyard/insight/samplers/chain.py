"""`tc/chain`: each tool feeds the next; `tc/fan_out` and `tc/fan_in`: one tool feeds several, or is fed by them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import (
    RandomStream,
    SampleRequest,
    SamplerOptions,
    Score,
    ToolSampler,
    Tries,
    search_starts,
)
from toolyard.insight.samplers.snapshot_view import Graph

_LOOKAHEAD = 8
"""Steps of lookahead for dead ends."""
_FIRST_LIMIT = 64
"""Initial step limit of a start, per tool of the chain."""

_PART_STEPS = 2000
_ARROWS = 32
"""Edges whose examination counts as one step."""


class FlowOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of samplers that follow the dataflow, such as `tc/chain`."""

    min_score: Score = 0.0
    """Minimum score of an edge."""
    max_tries: Tries = 100_000
    """Maximum number of steps of the search."""


class ChainSampler(ToolSampler[FlowOptions]):
    """A chain A -> B -> C of `k` tools with different names; strong edges are more likely.

    The search backtracks from dead ends and tries other starts, so it finds an existing chain if `max_tries` steps
    suffice.
    """

    sampler_name = "tc/chain"
    topology = "chain"
    required_artifacts = ("dataflow",)

    def draw(self, ask: SampleRequest[FlowOptions]) -> Sample:
        """Search from random starts."""
        graph = ask.snapshot.graph(ask.options.min_score, ask.spaces)
        search = ChainSearch(graph, ask.k, ask.chance("steps"), ask.options.max_tries)
        # No chain is longer than the number of names; then only find the longest part for the error.
        found = search.run(_list_starts(ask, graph)) if ask.k <= max(1, graph.name_count) else []
        if len(found) < ask.k and ask.anchor is None:
            found = _find_longest(ask, graph, found)
        edges = graph.path(found)
        return ask.sample(
            found,
            reason=ask.explain_no_edges(graph, search.reason(ask.options.min_score)),
            edges=edges,
            score=min((edge.score for edge in edges), default=None),
        )


def _list_starts(ask: SampleRequest[FlowOptions], graph: Graph) -> Iterator[tuple[int, int]]:
    """Starts as (index, position in the chain): random first tools, or the anchor at each position."""
    if ask.anchor is not None:
        return ((ask.anchor, back) for back in ask.chance("position").each(range(ask.k)))
    places = graph.sources if ask.k > 1 and graph.sources else ask.places
    return ((place, 0) for place in ask.chance("start").each(places))


def _find_longest(ask: SampleRequest[FlowOptions], graph: Graph, found: list[int]) -> list[int]:
    """The longest chain that a short search finds, for the error when there is no chain of `k` tools."""
    most = min(ask.k - 1, max(1, graph.name_count))
    while len(found) < most:
        length = (len(found) + most + 1) // 2
        part = ChainSearch(graph, length, ask.chance("part", length), _PART_STEPS).run(_list_starts(ask, graph))
        if len(part) > len(found):
            found = part
        if len(part) < length:
            most = length - 1
    return found


class ChainSearch:
    """Depth-first search for a path of `k` tools, with a limit on steps."""

    def __init__(self, graph: Graph, k: int, chance: RandomStream, budget: int) -> None:
        self._graph = graph
        self._k = k
        self._chance = chance
        self._left = budget
        self._budget = budget
        self._walks: dict[tuple[bool, int, int], bool] = {}
        self.best: list[int] = []
        """The longest path found so far."""

    def run(self, starts: Iterable[tuple[int, int]]) -> list[int]:
        """Return a path of `k` indexes, or the longest found. A start is (index, number of tools before it)."""
        found = search_starts(starts, _FIRST_LIMIT * self._k, self._search_from, lambda: self._left <= 0)
        return self.best if found is None else found

    def reason(self, min_score: float) -> str:
        """Why no path was found."""
        if self._left <= 0:
            return f"no chain was met in max_tries={self._budget} steps"
        weak = f" with edges of {min_score} or more" if min_score else ""
        return f"there is no chain of {self._k} tools{weak}"

    def _search_from(self, begin: tuple[int, int], limit: int) -> tuple[list[int] | None, bool]:
        """Find a path with the start at its position; also return whether the search was exhaustive."""
        start, back = begin
        self._left -= 1
        if not (self._can_walk(False, start, back) and self._can_walk(True, start, self._k - 1 - back)):
            if not self.best:
                self.best = [start]
            return None, True
        names = self._graph.name_ids
        path = deque([start])
        used = {names[start]}
        stack: list[Iterator[int]] = []
        while len(path) < self._k:
            if len(path) > len(self.best):
                self.best = list(path)
            if len(stack) < len(path):
                stack.append(iter(self._list_next(path, back, used)))
            step = next(stack[-1], None)
            if step is not None and (limit <= 0 or self._left <= 0):
                return None, False
            if step is None:
                stack.pop()
                if not stack:
                    return None, True
                # Backtrack: remove the tool whose successors are exhausted.
                used.discard(names[path.popleft() if len(path) - 1 <= back else path.pop()])
                continue
            limit -= 1
            self._left -= 1
            used.add(names[step])
            if len(path) <= back:
                path.appendleft(step)
            else:
                path.append(step)
        return list(path), True

    def _list_next(self, path: deque[int], back: int, used: set[int]) -> list[int]:
        """The candidates for the next step, in the order in which to try them."""
        size = len(path)
        forward = size > back
        rest = self._k - 1 - size if forward else back - size
        arrows = self._graph.out[path[-1]] if forward else self._graph.into[path[0]]
        self._left -= len(arrows) // _ARROWS
        names = self._graph.name_ids
        fit = [row for row in arrows if names[row[0]] not in used and self._can_walk(forward, row[0], rest)]
        return self._chance.by_weight([place for place, _ in fit], [score for _, score in fit])

    def _can_walk(self, forward: bool, place: int, steps: int) -> bool:
        """Whether a walk of so many steps exists from here, cycles allowed; looks ahead a limited distance."""
        steps = min(steps, _LOOKAHEAD)
        if steps <= 0:
            return True
        key = (forward, place, steps)
        known = self._walks.get(key)
        if known is None:
            arrows = self._graph.out[place] if forward else self._graph.into[place]
            known = self._walks[key] = any(self._can_walk(forward, other, steps - 1) for other, _ in arrows)
        return known


class FanOptions(FlowOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/fan_out` and `tc/fan_in`."""

    k: Annotated[int, msgspec.Meta(ge=2)] | None = None
    independence: Literal["prefer", "require", "ignore"] = "prefer"
    """Whether the spokes may feed each other: only if unavoidable, never, or freely."""


class _FanSampler(ToolSampler[FanOptions]):
    """A hub and its spokes, which it feeds or which feed it."""

    required_artifacts = ("dataflow",)
    hub_role: ClassVar[str]
    spoke_role: ClassVar[str]
    is_forward: ClassVar[bool]
    """Whether the hub feeds the spokes, and so comes first."""

    def draw(self, ask: SampleRequest[FanOptions]) -> Sample:
        """Search for a hub with spokes; the sample is in execution order."""
        graph = ask.snapshot.graph(ask.options.min_score, ask.spaces)
        hub, spokes, independent = FanSearch(ask, graph, forward=self.is_forward).run()
        found, edges = list(spokes), []
        if hub is not None:
            found.insert(0 if self.is_forward else len(spokes), hub)
            edges = [graph.edge(hub, place) if self.is_forward else graph.edge(place, hub) for place in spokes]
        feeds = "feeds" if self.is_forward else "is fed by"
        weak = f" by edges of {ask.options.min_score} or more" if ask.options.min_score else ""
        apart = " that do not feed each other" if ask.options.independence == "require" else ""
        reason = f"no tool {feeds} {ask.k - 1} others{weak}{apart}"
        return ask.sample(
            found,
            reason=ask.explain_no_edges(graph, reason),
            roles=[self.hub_role if place == hub else self.spoke_role for place in found],
            edges=edges,
            score=min((edge.score for edge in edges), default=None),
            details={"independent": independent},
        )


class FanOutSampler(_FanSampler):
    """[seed, `k` - 1 successors]. The successors can run in parallel: if possible, none feeds another."""

    sampler_name = "tc/fan_out"
    topology = "fan_out"
    hub_role, spoke_role, is_forward = "seed", "successor", True


class FanInSampler(_FanSampler):
    """[`k` - 1 predecessors, sink]. If possible, no predecessor feeds another."""

    sampler_name = "tc/fan_in"
    topology = "fan_in"
    hub_role, spoke_role, is_forward = "sink", "predecessor", False


class FanSearch:
    """Searches for a hub with enough spokes that do not feed each other."""

    def __init__(self, ask: SampleRequest[FanOptions], graph: Graph, *, forward: bool) -> None:
        self._ask = ask
        self._graph = graph
        self._forward = forward
        self._spokes, self._back = (graph.out, graph.into) if forward else (graph.into, graph.out)
        self._need = ask.k - 1
        self._left = ask.options.max_tries
        self._touching: dict[int, frozenset[int]] = {}

    def run(self) -> tuple[int | None, list[int], bool]:
        """Return the hub, its spokes, and whether they are independent; fewer spokes if no hub has enough."""
        wanted = self._ask.options.independence
        best: tuple[int | None, list[int], bool] = (None, [], False)
        order = self._ask.chance("spokes")
        for hub, required in self._list_hubs():
            if self._left <= 0:
                break
            self._left -= 1
            spokes = self._order_spokes(hub, order, required)
            if wanted == "ignore" and len(spokes) >= self._need:
                return hub, spokes[: self._need], self._are_independent(spokes[: self._need])
            independent = self._choose_independent(spokes) if wanted != "ignore" else []
            if len(independent) == self._need:
                return hub, independent, True
            if wanted == "prefer":
                independent += [place for place in spokes if place not in independent][: self._need - len(independent)]
            if len(independent) > len(best[1]):
                best = (hub, independent, self._are_independent(independent))
        return best

    def _list_hubs(self) -> Iterator[tuple[int, int | None]]:
        """Yield hubs in random order, each with a spoke it must have or None."""
        anchor = self._ask.anchor
        if anchor is None:
            # If none has enough spokes, hubs with fewer still give a partial result for the error.
            some = self._graph.hubs(self._forward, self._need) or self._graph.hubs(self._forward, 1)
            return ((place, None) for place in self._ask.chance("hub").each(some))
        feeders = [place for place, _ in self._back[anchor]]
        return iter([(anchor, None), *((place, anchor) for place in self._ask.chance("hub").each(feeders))])

    def _order_spokes(self, hub: int, chance: RandomStream, required: int | None) -> list[int]:
        """The spokes of a hub in weighted random order, each name once, with a required spoke first."""
        arrows = self._spokes[hub]
        order = chance.by_weight([place for place, _ in arrows], [score for _, score in arrows])
        names = {self._graph.name_ids[place]: place for place in reversed(order)}
        if required is not None:
            names[self._graph.name_ids[required]] = required
        kept = [place for place in order if names[self._graph.name_ids[place]] == place]
        return kept if required is None else [required, *(place for place in kept if place != required)]

    def _choose_independent(self, spokes: list[int]) -> list[int]:
        """Choose the needed number of spokes without edges between them, or as many as the search finds."""
        required = self._ask.anchor
        need = min(self._need, len(spokes))
        best: list[int] = []
        chosen: list[int] = []
        at = 0
        positions: list[int] = []
        while True:
            if len(chosen) > len(best):
                best = list(chosen)
            if len(best) == need or self._left <= 0:
                return best
            if at < len(spokes) and len(chosen) + len(spokes) - at >= need:
                self._left -= 1
                if not self._touches_any(spokes[at], chosen):
                    chosen.append(spokes[at])
                    positions.append(at)
                at += 1
            elif positions and not (len(chosen) == 1 and chosen[0] == required):
                at = positions.pop() + 1
                chosen.pop()
            else:
                return best

    def _touches_any(self, place: int, chosen: list[int]) -> bool:
        near = self._touching.get(place)
        if near is None:
            arrows = (*self._graph.out[place], *self._graph.into[place])
            near = self._touching[place] = frozenset(other for other, _ in arrows)
        return any(other in near for other in chosen)

    def _are_independent(self, places: list[int]) -> bool:
        return not any(self._touches_any(place, places) for place in places)
