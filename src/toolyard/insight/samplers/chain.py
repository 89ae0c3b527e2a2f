"""`tc/chain`: each tool feeds the next; the fans: one tool feeds several, or is fed by them."""

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
from toolyard.insight.samplers.snapshot_view import Arrows, Graph

_LOOKAHEAD = 8
"""How far ahead dead ends are seen."""
_FIRST_LIMIT = 64
"""Steps that one start may take, per tool, before the others have had their turn."""

_PART_STEPS = 2000
_ARROWS = 32
"""To look at so many edges counts as a step."""


class FlowOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What samplers take that follow the dataflow; `tc/chain` takes nothing else."""

    min_score: Score = 0.0
    """The weakest edge that counts."""
    max_tries: Tries = 100_000
    """Steps of the search, after which it gives up."""


class ChainSampler(ToolSampler[FlowOptions]):
    """A chain A -> B -> C of `k` tools with different names; strong edges are more likely.

    The search goes back on dead ends and begins again elsewhere, so a chain that exists is found, if `max_tries`
    steps are enough for it.
    """

    sampler_name = "tc/chain"
    topology = "chain"
    required_artifacts = ("dataflow",)

    def draw(self, ask: SampleRequest[FlowOptions]) -> Sample:
        """Search from random starts."""
        graph = ask.world.graph(ask.options.min_score, ask.spaces)
        search = ChainSearch(graph, ask.k, ask.chance("steps"), ask.options.max_tries)
        # No chain is longer than there are names; the rest is only about the part that is told of.
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
    """Places in random order, each as the first of the chain; or a tool that has to be there, at each place of it."""
    if ask.anchor is not None:
        return ((ask.anchor, back) for back in ask.chance("position").each(range(ask.k)))
    places = graph.sources if ask.k > 1 and graph.sources else ask.places
    return ((place, 0) for place in ask.chance("start").each(places))


def _find_longest(ask: SampleRequest[FlowOptions], graph: Graph, found: list[int]) -> list[int]:
    """The longest chain that a short search finds, where there is none as long as it should be."""
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
    """Depth-first search for a path of `k` tools within a number of steps."""

    def __init__(self, graph: Graph, k: int, chance: RandomStream, budget: int) -> None:
        self._graph = graph
        self._k = k
        self._chance = chance
        self._left = budget
        self._budget = budget
        self._walks: dict[tuple[bool, int, int], bool] = {}
        self.best: list[int] = []
        """The longest path so far."""

    def run(self, starts: Iterable[tuple[int, int]]) -> list[int]:
        """A path of `k` places, or the longest that was met. Each start is (a place, how many tools come before it)."""
        found = search_starts(starts, _FIRST_LIMIT * self._k, self._search_from, lambda: self._left <= 0)
        return self.best if found is None else found

    def reason(self, min_score: float) -> str:
        """Why there is no path."""
        if self._left <= 0:
            return f"no chain was met in max_tries={self._budget} steps"
        weak = f" with edges of {min_score} or more" if min_score else ""
        return f"there is no chain of {self._k} tools{weak}"

    def _search_from(self, begin: tuple[int, int], limit: int) -> tuple[list[int] | None, bool]:
        """A path that has a place behind so many others; and whether all of them were looked at."""
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
                # The tool that this list of successors belonged to leaves again.
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
        """The places that can come next, in the order in which to try them."""
        size = len(path)
        forward = size > back
        rest = self._k - 1 - size if forward else back - size
        arrows = self._graph.out[path[-1]] if forward else self._graph.into[path[0]]
        self._left -= len(arrows) // _ARROWS
        names = self._graph.name_ids
        fit: Arrows = [
            (place, score)
            for place, score in arrows
            if names[place] not in used and self._can_walk(forward, place, rest)
        ]
        return self._chance.by_weight([place for place, _ in fit], [score for _, score in fit])

    def _can_walk(self, forward: bool, place: int, steps: int) -> bool:
        """Whether that many steps can be gone from here at all, be it in circles."""
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
    """What `tc/fan_out` and `tc/fan_in` take."""

    k: Annotated[int, msgspec.Meta(ge=2)] | None = None
    independence: Literal["prefer", "require", "ignore"] = "prefer"
    """Whether the many may feed each other: only where it cannot be helped, never, or as it comes."""


class _FanSampler(ToolSampler[FanOptions]):
    """A hub, and the many that it feeds or is fed by."""

    required_artifacts = ("dataflow",)
    hub_role: ClassVar[str]
    spoke_role: ClassVar[str]
    is_forward: ClassVar[bool]
    """Whether the hub feeds the others, and comes first."""

    def draw(self, ask: SampleRequest[FanOptions]) -> Sample:
        """The tools in the order in which they run."""
        graph = ask.world.graph(ask.options.min_score, ask.spaces)
        hub, many, free = FanSearch(ask, graph, forward=self.is_forward).run()
        spokes = [(place, self.spoke_role) for place in many]
        hubs = [] if hub is None else [(hub, self.hub_role)]
        found = [*hubs, *spokes] if self.is_forward else [*spokes, *hubs]
        edges = [
            graph.edge(hub, place) if self.is_forward else graph.edge(place, hub) for place in many if hub is not None
        ]
        feeds = "feeds" if self.is_forward else "is fed by"
        reason = f"no tool {feeds} {ask.k - 1} others{_describe_options(ask.options)}"
        return ask.sample(
            [place for place, _ in found],
            reason=ask.explain_no_edges(graph, reason),
            roles=[role for _, role in found],
            edges=edges,
            score=min((edge.score for edge in edges), default=None),
            details={"independent": free},
        )


class FanOutSampler(_FanSampler):
    """[seed, `k` - 1 successors]. The successors can run side by side: where possible, none feeds another."""

    sampler_name = "tc/fan_out"
    topology = "fan_out"
    hub_role, spoke_role, is_forward = "seed", "successor", True


class FanInSampler(_FanSampler):
    """[`k` - 1 predecessors, sink]. Where possible, no predecessor feeds another."""

    sampler_name = "tc/fan_in"
    topology = "fan_in"
    hub_role, spoke_role, is_forward = "sink", "predecessor", False


def _describe_options(options: FanOptions) -> str:
    weak = f" by edges of {options.min_score} or more" if options.min_score else ""
    return weak + (" that do not feed each other" if options.independence == "require" else "")


class FanSearch:
    """For a hub with enough spokes, and for spokes that have nothing to do with each other."""

    def __init__(self, ask: SampleRequest[FanOptions], graph: Graph, *, forward: bool) -> None:
        self._ask = ask
        self._graph = graph
        self._forward = forward
        self._spokes, self._back = (graph.out, graph.into) if forward else (graph.into, graph.out)
        self._need = ask.k - 1
        self._left = ask.options.max_tries
        self._touching: dict[int, frozenset[int]] = {}

    def run(self) -> tuple[int | None, list[int], bool]:
        """The hub, its spokes, and whether these are independent; fewer spokes if that is all there is."""
        wish = self._ask.options.independence
        best: tuple[int | None, list[int], bool] = (None, [], False)
        order = self._ask.chance("spokes")
        for hub, must in self._list_hubs():
            if self._left <= 0:
                break
            self._left -= 1
            spokes = self._order_spokes(hub, order, must)
            if wish == "ignore" and len(spokes) >= self._need:
                return hub, spokes[: self._need], self._are_independent(spokes[: self._need])
            free = self._choose_independent(spokes) if wish != "ignore" else []
            if len(free) == self._need:
                return hub, free, True
            if wish == "prefer":
                free += [place for place in spokes if place not in free][: self._need - len(free)]
            if len(free) > len(best[1]):
                best = (hub, free, self._are_independent(free))
        return best

    def _list_hubs(self) -> Iterator[tuple[int, int | None]]:
        """Hubs in random order, each with the spoke that it has to have."""
        anchor = self._ask.anchor
        if anchor is None:
            # If none has enough, those that have some can still give the part that is told of.
            some = self._graph.hubs(self._forward, self._need) or self._graph.hubs(self._forward, 1)
            return ((place, None) for place in self._ask.chance("hub").each(some))
        feeders = [place for place, _ in self._back[anchor]]
        return iter([(anchor, None), *((place, anchor) for place in self._ask.chance("hub").each(feeders))])

    def _order_spokes(self, hub: int, chance: RandomStream, must: int | None) -> list[int]:
        """The spokes of a hub by chance and strength, each name once; one that has to come along first."""
        arrows = self._spokes[hub]
        order = chance.by_weight([place for place, _ in arrows], [score for _, score in arrows])
        names = {self._graph.name_ids[place]: place for place in reversed(order)}
        if must is not None:
            names[self._graph.name_ids[must]] = must
        kept = [place for place in order if names[self._graph.name_ids[place]] == place]
        return kept if must is None else [must, *(place for place in kept if place != must)]

    def _choose_independent(self, spokes: list[int]) -> list[int]:
        """As many spokes as needed of which none touches another, or the most that were met."""
        must = self._ask.anchor
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
            elif positions and not (len(chosen) == 1 and chosen[0] == must):
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
