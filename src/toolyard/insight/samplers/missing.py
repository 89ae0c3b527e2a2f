"""`tc/missing`: what cannot be done with the tools drawn, since one needed thing was taken away."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from toolyard.insight.base import Edge, Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, ToolSampler, Tries, derive_seed
from toolyard.insight.samplers.drop_parameter import (
    RemovableTools,
    edges_without,
    feeds_parameter,
    is_of,
    required_parameters,
    without_parameter,
)
from toolyard.insight.samplers.mix import draw_inner, inner_sampler
from toolyard.model.errors import SamplingError
from toolyard.model.tool import Tool

_HOPELESS = 3
"""So many failures of the inner sampler mean that it will not find a sample of that size."""

_MODES = ("tool", "parameter")
_WHY = {"tool": "the tool to take away has to be drawn too: ", "parameter": ""}
_NOTHING = {
    "tool": "whatever a tool of the samples gives the others, another of them gives as well",
    "parameter": "no tool of the samples has a required parameter",
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
    choices = [(at, name) for at, tool in enumerate(whole) for name in required_parameters(tool)]
    if not choices:
        return None
    at, name = ask.chance("parameter").pick(choices)
    tool = whole[at]
    fed = [edge for edge in whole.edges if is_of(edge.target, edge.target_overload, tool)]
    feeders = [edge.source for edge in fed if any(feeds_parameter(feed, tool, name) for feed in edge.feeds)]
    tools, edges = list(whole), list(whole.edges)
    if not ask.options.keep_definition:
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
            "definition_kept": ask.options.keep_definition,
            "inner_topology": whole.topology,
        },
    )
