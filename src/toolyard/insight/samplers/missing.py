"""`tc/missing`: what cannot be done with the tools drawn, since one needed thing was taken away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from toolyard.insight.base import Edge, Feed, Sample
from toolyard.insight.dataflow.paths import fields_of, needed_of
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, ToolSampler, Tries, derive_seed
from toolyard.insight.samplers.mix import draw_inner, inner_sampler, places_of
from toolyard.model.errors import SamplingError
from toolyard.model.names import IN_PLACE
from toolyard.model.tool import Tool

_TOGETHER = IN_PLACE | {"dependentRequired", "minProperties", "maxProperties"}
"""Keywords by which one parameter may depend on another."""
_HOPELESS = 3
"""So many failures of the inner sampler mean that it will not find a sample of that size."""

_MODES = ("tool", "parameter")
_WHY = {"tool": "the tool to take away has to be drawn too: ", "parameter": ""}
_NOTHING = {
    "tool": "whatever a tool of the samples gives the others, another of them gives as well",
    "parameter": "no tool of the samples has a required parameter that could be taken out",
}
"""Why there is nothing to take away, by mode, where there are samples."""


class MissingOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/missing` takes."""

    sampler: Any = None
    """The sampler of the tools: its name, a mapping of `type` and its options, or the sampler itself. None for
    `tc/chain`, and where the registry knows no dataflow or has no such chain, `tc/random`."""
    mode: Literal["any", "tool", "parameter"] = "any"
    """What is taken away: a tool that others need, a required parameter, or one of both by chance."""
    keep_definition: bool = False
    """Leave the parameter in the definition: its value is what is missing, and `details` says which."""
    max_tries: Tries = 256
    """Samples of the inner sampler that are tried."""


class MissingSampler(ToolSampler[MissingOptions]):
    """A sample with a hole, of which `details` tells: `missing` ("tool" or "parameter"), `tool`, `parameter`.

    A missing tool is one that feeds others of the sample something that, by all that the registry's dataflow knows, no
    other of them gives. Where nothing is known of what feeds what, it is any. A missing parameter is gone from the
    definition of its tool, and what fed it from the edges; `fed_by` says who did.
    """

    sampler_name = "tc/missing"
    topology = "missing"

    def _check_inner(self) -> None:
        """What is wrong with the inner sampler is said at once."""
        self._make_samplers(self.options)

    def count(self, options: MissingOptions, seed: int) -> int | None:
        """That of the inner sampler, if nobody says more."""
        return options.k or self._make_samplers(options)[0].options.k

    def draw(self, ask: SampleRequest[MissingOptions]) -> Sample:
        """Draw, and take away, until there is something to take."""
        reasons: dict[str, str] = {}
        partial: list[Tool] = []
        for short in (False, True) if ask.options.allow_short else (False,):
            for inner in self._make_samplers(ask.options):
                found = self._draw_with_hole(ask, inner, reasons, partial, short)
                if found is not None:
                    return found
        raise ask.failure("; ".join(reasons[mode] for mode in _MODES if mode in reasons), partial)

    def _draw_with_hole(
        self,
        ask: SampleRequest[MissingOptions],
        inner: ToolSampler[Any],
        reasons: dict[str, str],
        partial: list[Tool],
        short: bool,
    ) -> Sample | None:
        """A sample with a hole; None if the inner sampler has none, and then why, and the most tools it found."""
        modes = list(_MODES) if ask.options.mode == "any" else [ask.options.mode]
        failures = Counter[str]()
        for number in range(ask.options.max_tries):
            for mode in ask.chance("mode", number).each(modes):
                extra = 1 if mode == "tool" else 0
                seed = derive_seed(ask.seed, "inner", mode, number)
                try:
                    whole = draw_inner(ask, inner, ask.k + extra, seed, anchor=ask.anchor, short=short)
                except SamplingError as error:
                    reasons[mode] = f"{_WHY[mode]}{error}"
                    failures[mode] += 1
                    # As many as are asked for are no sample yet: one of them would be taken away.
                    _keep_longer(partial, error.tools[: ask.k - 1])
                    continue
                found = _without_tool(ask, whole) if extra else _without_parameter(ask, whole)
                if found is not None:
                    return found
                reasons[mode] = _NOTHING[mode]
                _keep_longer(partial, whole[: ask.k - 1])
            modes = [mode for mode in modes if failures[mode] < _HOPELESS]
        return None

    def _make_samplers(self, options: MissingOptions) -> list[ToolSampler[Any]]:
        known = "dataflow" in self._take_snapshot().artifacts
        usual = ("tc/chain", "tc/random") if known else ("tc/random",)
        chosen = usual if options.sampler is None else (options.sampler,)
        return [inner_sampler(self.registry, given, self.sampler_name) for given in chosen]


def _keep_longer(partial: list[Tool], other: list[Tool]) -> None:
    if len(other) > len(partial):
        partial[:] = other


def _without_tool(ask: SampleRequest[MissingOptions], whole: Sample) -> Sample | None:
    keep = None if ask.anchor is None else ask.tools[ask.anchor]
    order = [at for at in ask.chance("tool").each(range(len(whole))) if whole[at] is not keep]
    hole = RemovableTools(ask, whole).first(order) if len(whole) > 1 else None
    if hole is None:
        return None
    tool = whole[hole.at]
    kept = [
        edge
        for edge in whole.edges
        if not (is_of(edge.source, edge.source_overload, tool) or is_of(edge.target, edge.target_overload, tool))
    ]
    left = [place for place in range(len(whole)) if place != hole.at]
    return ask.sample(
        [whole[place] for place in left],
        roles=["incomplete" if place in hole.needy else "complete" for place in left],
        edges=kept,
        score=_score_edges(whole, kept),
        details={
            "missing": "tool",
            "tool": tool.qualified_name,
            "overload": tool.fingerprint,
            "position": hole.at,
            "needed_by": [whole[place].qualified_name for place in left if place in hole.needy],
            "replaceable": False,
            "lost_edges": [edge.to_dict() for edge in hole.lost],
            "inner_topology": whole.topology,
        },
    )


def _score_edges(whole: Sample, edges: list[Edge]) -> float | None:
    """Where the score was that of the weakest edge, that of the weakest of those that are left."""
    if not whole.edges or whole.score != min(edge.score for edge in whole.edges):
        return whole.score
    return min((edge.score for edge in edges), default=None)


def _without_parameter(ask: SampleRequest[MissingOptions], whole: Sample) -> Sample | None:
    kept = ask.options.keep_definition
    able = [(at, tool) for at, tool in enumerate(whole) if kept or can_lose(tool)]
    choices = [(at, name) for at, tool in able for name in required_parameters(tool)]
    if not choices:
        return None
    at, name = ask.chance("parameter").pick(choices)
    tool = whole[at]
    fed = [edge for edge in whole.edges if is_of(edge.target, edge.target_overload, tool)]
    feeders = [edge.source for edge in fed if any(feeds_parameter(feed, tool, name) for feed in edge.feeds)]
    tools, edges = list(whole), list(whole.edges)
    if not kept:
        tools[at] = without_parameter(tool, name)
        edges = list(edges_without(edges, tool, name, tools[at]))
    return ask.sample(
        tools,
        roles=["incomplete" if place == at else "complete" for place in range(len(tools))],
        edges=edges,
        score=_score_edges(whole, edges),
        details={
            "missing": "parameter",
            "tool": tool.qualified_name,
            "overload": tool.fingerprint,
            "position": at,
            "parameter": name,
            "schema": tool.parameters["properties"][name],
            "fed_by": feeders,
            "definition_kept": kept,
            "inner_topology": whole.topology,
        },
    )


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
        name, answer = self._whole[at].name, self._whole[at].output_parameters
        others = [tool for place, tool in enumerate(self._whole) if place != at]
        return any(tool.name == name and tool.output_parameters == answer for tool in others)


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


def required_parameters(tool: Tool) -> list[str]:
    """The names of the parameters that a call must give, in the order of the definition."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    return [name for name in properties if name in required]


def can_lose(tool: Tool) -> bool:
    """Whether a parameter can be taken out: nothing but `properties` and `required` speaks of it."""
    return _TOGETHER.isdisjoint(tool.parameters)


def without_parameter(tool: Tool, name: str) -> Tool:
    """A copy of the tool with one required parameter less."""
    properties = {key: part for key, part in tool.parameters["properties"].items() if key != name}
    required = [key for key in tool.parameters["required"] if key != name]
    left = {**tool.parameters, "properties": properties, "required": required}
    if not required:
        del left["required"]
    return tool.replace(parameters=left)


def is_of(name: str, overload: str, tool: Tool) -> bool:
    """Whether an end of an edge is that tool."""
    return name == tool.qualified_name and overload in ("", tool.fingerprint)


def feeds_parameter(feed: Feed, tool: Tool, parameter: str) -> bool:
    """Whether a feed gives that parameter of the tool, or something in it.

    A name may have dots itself, so a path belongs to the longest name that it begins with.
    """
    path = feed.parameter
    owners = [name for name in tool.parameters["properties"] if f"{path}.".startswith((f"{name}.", f"{name}[]"))]
    return max(owners, key=len, default=None) == parameter


def edges_without(edges: Sequence[Edge], tool: Tool, parameter: str, left: Tool) -> Iterator[Edge]:
    """What is true of these edges now that `left` stands for `tool`: without those that fed nothing else."""
    must = needed_of(field.path for field in fields_of(left.parameters).found if field.required)
    for edge in edges:
        if edge.source_overload == tool.fingerprint and edge.source == tool.qualified_name:
            edge = msgspec.structs.replace(edge, source_overload=left.fingerprint)
        if not is_of(edge.target, edge.target_overload, tool):
            yield edge
            continue
        feeds = tuple(feed for feed in edge.feeds if not feeds_parameter(feed, tool, parameter))
        if edge.feeds and not feeds:
            continue
        yield msgspec.structs.replace(
            edge,
            feeds=feeds,
            # Best first: an edge is as strong as the best of its feeds.
            score=edge.score if feeds[:1] == edge.feeds[:1] else feeds[0].score,
            covers_required=bool(must) and must <= {feed.parameter for feed in feeds},
            target_overload=edge.target_overload and left.fingerprint,
        )
