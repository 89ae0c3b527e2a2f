"""The dataflow as samplers walk it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.sample import Edge
from toolyard.model.tool import Tool

Arrows = list[tuple[int, float]]


class Graph:
    """Edges by place, forward and back, best first. Between two overloads of one name there is none."""

    def __init__(self, dataflow: Dataflow, name_ids: Sequence[int], out: list[Arrows], into: list[Arrows]) -> None:
        self._dataflow = dataflow
        self.name_ids = name_ids
        self.out = out
        self.into = into
        self._hubs: dict[tuple[bool, int], list[int]] = {}

    @cached_property
    def linked(self) -> tuple[int, ...]:
        """The places that have an edge."""
        return tuple(place for place, arrows in enumerate(self.out) if arrows or self.into[place])

    @cached_property
    def name_count(self) -> int:
        """How many names have an edge."""
        return len({self.name_ids[place] for place in self.linked})

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The places that feed another."""
        return tuple(place for place, arrows in enumerate(self.out) if arrows)

    @cached_property
    def reach(self) -> list[int]:
        """For each place, how many names hang together with it, itself included."""
        sizes = [1] * len(self.out)
        seen = [False] * len(self.out)
        for start in self.linked:
            if seen[start]:
                continue
            seen[start] = True
            group = [start]
            for place in group:
                for other, _ in (*self.out[place], *self.into[place]):
                    if not seen[other]:
                        seen[other] = True
                        group.append(other)
            size = len({self.name_ids[place] for place in group})
            for place in group:
                sizes[place] = size
        return sizes

    def hubs(self, forward: bool, count: int) -> list[int]:
        """The places that feed, or are fed by, at least so many others; kept, because every draw asks for them."""
        found = self._hubs.get((forward, count))
        if found is None:
            arrows = self.out if forward else self.into
            found = self._hubs[forward, count] = [place for place in self.linked if len(arrows[place]) >= count]
        return found

    def edge(self, source: int, target: int) -> Edge:
        """An edge with what it carries."""
        edge = self._dataflow.edge(source, target)
        if edge is None:
            raise KeyError((source, target))
        return edge

    def path(self, places: Sequence[int]) -> list[Edge]:
        """The edges from each place to the next."""
        return [self.edge(source, target) for source, target in pairwise(places)]

    def among(self, places: Sequence[int]) -> list[Edge]:
        """Every edge from one of these places to another."""
        inside = frozenset(places)
        return [
            self.edge(source, target)
            for source in dict.fromkeys(places)
            for target, _ in self.out[source]
            if target in inside
        ]


def build_graph(
    artifact: Any, tools: Sequence[Tool], name_ids: Sequence[int], min_score: float, allowed: frozenset[str] | None
) -> Graph:
    """The graph of an artifact, without weak edges and those that leave the allowed namespaces."""
    dataflow = artifact if isinstance(artifact, Dataflow) else Dataflow.from_edges(tools, _read_edges(artifact, tools))
    inside = [allowed is None or tool.namespace in allowed for tool in tools]
    out: list[Arrows] = [[] for _ in tools]
    into: list[Arrows] = [[] for _ in tools]
    for place in range(len(tools)):
        if not inside[place]:
            continue
        for other, score in dataflow.out_edges(place):
            if score >= min_score and inside[other] and name_ids[other] != name_ids[place]:
                out[place].append((other, score))
                into[other].append((place, score))
    for arrows in into:
        arrows.sort(key=lambda arrow: (-arrow[1], arrow[0]))
    return Graph(dataflow, name_ids, out, into)


def _read_edges(artifact: Mapping[str, Any], tools: Sequence[Tool]) -> Iterator[tuple[int, int, float]]:
    """The edges of an artifact that is a plain mapping of the documented form."""
    places = {(tool.namespace, tool.name, tool.fingerprint): place for place, tool in enumerate(tools)}
    for place, tool in enumerate(tools):
        spaces = artifact.get("out", {}).get(tool.qualified_name, {}).get(tool.fingerprint, {})
        for space, arrows in spaces.items():
            for name, fingerprint, score, *_ in arrows:
                other = places.get((space, name, fingerprint))
                if other is not None:
                    yield place, other, score
