"""Which tool of a sample the others cannot do without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from toolyard.insight.sample import Edge, Sample
from toolyard.insight.samplers.base import SampleRequest
from toolyard.insight.samplers.drop_parameter import is_of
from toolyard.insight.samplers.nested import places_of
from toolyard.model.tool import Tool

Link = tuple[int, int, Edge]
"""An edge, and where in the sample its source and its target are."""


class Hole(NamedTuple):
    """A tool that can be taken away, and what is lost with it."""

    at: int
    lost: list[Edge]
    """The edges by which it fed others."""
    needy: frozenset[int]
    """Where the tools are of which a parameter is fed by nobody who is left."""


class RemovableTools:
    """What is known of the tools of one sample: the edges that came with it, and those of the registry's dataflow.

    A sampler tells of the edges it went by, a chain of those along it. Whether one tool can stand in for another
    depends on every edge that there is between those that are left.
    """

    def __init__(self, ask: SampleRequest[Any], whole: Sample) -> None:
        self._whole = whole
        self._own = _list_links(whole, whole.edges)
        known = _list_links(whole, _list_known_edges(ask, whole))
        self._told = self._own or known
        self._into: dict[int, list[tuple[int, Edge]]] = {}
        for source, target, edge in (*self._own, *known):
            self._into.setdefault(target, []).append((source, edge))

    def first(self, order: Iterable[int]) -> Hole | None:
        """The first tool that others need and nobody can stand in for.

        Where the sampler went by no edges, and no tool is needed as far as is known, the first that feeds none.
        """
        idle: Hole | None = None
        for at in order:
            if self._has_twin(at):
                continue
            links = [link for link in self._told if link[0] == at]
            needy = frozenset(target for _, target, edge in links if self._is_lost(at, target, edge))
            if needy:
                return Hole(at, [edge for *_, edge in links], needy)
            if not links and not self._own:
                idle = idle or Hole(at, [], frozenset())
        return idle

    def _is_lost(self, gone: int, target: int, edge: Edge) -> bool:
        """Whether something that the edge feeds is fed by nobody else. What does not say what it feeds, feeds all."""
        others = [other for source, other in self._into[target] if source not in (gone, target)]
        if not edge.feeds:
            return not others
        fed = {feed.parameter for other in others for feed in other.feeds}
        return all(other.feeds for other in others) and any(feed.parameter not in fed for feed in edge.feeds)

    def _has_twin(self, at: int) -> bool:
        """Whether the same tool is there once more, in another namespace."""
        tool = self._whole[at]
        return any(_are_twins(tool, other) for place, other in enumerate(self._whole) if place != at)


def _are_twins(one: Tool, other: Tool) -> bool:
    return one.name == other.name and one.output_parameters == other.output_parameters


def _list_known_edges(ask: SampleRequest[Any], whole: Sample) -> list[Edge]:
    """The edges between these tools in the dataflow of the registry, however weak."""
    if "dataflow" not in ask.world.artifacts:
        return []
    return ask.world.graph(0.0, ask.spaces).among(places_of(ask, whole))


def _list_links(whole: Sample, edges: Iterable[Edge]) -> list[Link]:
    """The edges of which both ends are in the sample."""
    named: dict[str, list[int]] = {}
    for at, tool in enumerate(whole):
        named.setdefault(tool.qualified_name, []).append(at)
    links: list[Link] = []
    for edge in edges:
        sources = [at for at in named.get(edge.source, ()) if is_of(edge.source, edge.source_overload, whole[at])]
        targets = [at for at in named.get(edge.target, ()) if is_of(edge.target, edge.target_overload, whole[at])]
        links += [(source, target, edge) for source in sources for target in targets]
    return links
