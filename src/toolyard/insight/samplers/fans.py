"""`tc/fan_out` and `tc/fan_in`: one tool feeds many, or many feed one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from toolyard.insight.sample import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, Score, ToolSampler, Tries
from toolyard.insight.samplers.graph import Arrows, Graph
from toolyard.insight.samplers.rng import RandomStream


class FanOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/fan_out` and `tc/fan_in` take."""

    k: Annotated[int, msgspec.Meta(ge=2)] | None = None
    min_score: Score = 0.0
    """The weakest edge that counts."""
    independence: Literal["prefer", "require", "ignore"] = "prefer"
    """Whether the many may feed each other: only where it cannot be helped, never, or as it comes."""
    max_tries: Tries = 100_000
    """Steps of the search, after which it gives up."""


class FanOutSampler(ToolSampler[FanOptions]):
    """[seed, `k` - 1 successors]. The successors can run side by side: where possible, none feeds another."""

    sampler_name = "tc/fan_out"
    topology = "fan_out"
    required_artifacts = ("dataflow",)
    options_type: ClassVar[type[FanOptions]] = FanOptions

    def draw(self, ask: SampleRequest[FanOptions]) -> Sample:
        """The seed, then its successors."""
        graph = ask.world.graph(ask.options.min_score, ask.spaces)
        hub, many, free = FanSearch(ask, graph, graph.out, graph.into).run()
        found = [] if hub is None else [hub, *many]
        edges = [] if hub is None else [graph.edge(hub, place) for place in many]
        return ask.sample(
            found,
            reason=ask.explain_no_edges(graph, f"no tool feeds {ask.k - 1} others{_describe_options(ask.options)}"),
            roles=["seed", *["successor"] * len(many)][: len(found)],
            edges=edges,
            score=min((edge.score for edge in edges), default=None),
            details={"independent": free},
        )


class FanInSampler(ToolSampler[FanOptions]):
    """[`k` - 1 predecessors, sink]. Where possible, no predecessor feeds another."""

    sampler_name = "tc/fan_in"
    topology = "fan_in"
    required_artifacts = ("dataflow",)
    options_type: ClassVar[type[FanOptions]] = FanOptions

    def draw(self, ask: SampleRequest[FanOptions]) -> Sample:
        """The predecessors, then the sink."""
        graph = ask.world.graph(ask.options.min_score, ask.spaces)
        hub, many, free = FanSearch(ask, graph, graph.into, graph.out).run()
        found = [] if hub is None else [*many, hub]
        edges = [] if hub is None else [graph.edge(place, hub) for place in many]
        return ask.sample(
            found,
            reason=ask.explain_no_edges(graph, f"no tool is fed by {ask.k - 1} others{_describe_options(ask.options)}"),
            roles=[*["predecessor"] * len(many), "sink"][-len(found) :] if found else (),
            edges=edges,
            score=min((edge.score for edge in edges), default=None),
            details={"independent": free},
        )


def _describe_options(options: FanOptions) -> str:
    weak = f" by edges of {options.min_score} or more" if options.min_score else ""
    return weak + (" that do not feed each other" if options.independence == "require" else "")


class FanSearch:
    """For a hub with enough spokes, and for spokes that have nothing to do with each other."""

    def __init__(self, ask: SampleRequest[FanOptions], graph: Graph, spokes: list[Arrows], back: list[Arrows]) -> None:
        self._ask = ask
        self._graph = graph
        self._spokes = spokes
        self._back = back
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
            forward = self._spokes is self._graph.out
            # If none has enough, those that have some can still give the part that is told of.
            some = self._graph.hubs(forward, self._need) or self._graph.hubs(forward, 1)
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
