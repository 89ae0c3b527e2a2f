"""`tc/missing`: tools of which one thing is taken away that is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from toolyard.insight.sample import Sample
from toolyard.insight.sampler import Ask, SamplerOptions, ToolSampler, Tries
from toolyard.insight.samplers.chance import derive
from toolyard.insight.samplers.inner import draw_inner, inner_sampler
from toolyard.model.errors import SamplingError
from toolyard.model.tool import Tool

_HOPELESS = 3
"""So many failures of the inner sampler mean that it will not find a sample of that size."""


class MissingOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/missing` takes."""

    sampler: Any = None
    """The sampler of the tools: its name, a mapping of `type` and its options, or the sampler itself. None for
    `tc/chain`, and where the registry knows no dataflow or has no such chain, `tc/random`."""
    mode: Literal["any", "tool", "parameter"] = "any"
    """What is taken away: a tool that others need, a required parameter, or one of both by chance."""
    keep_definition: bool = False
    """Leave the parameter in the definition: its value is what is missing, and `details` says which."""
    max_tries: Tries = 64
    """Samples of the inner sampler that are tried."""


class MissingSampler(ToolSampler[MissingOptions]):
    """A sample with a hole, of which `details` tells: `missing` ("tool" or "parameter"), `tool`, `parameter`.

    A missing tool is one that feeds others of the sample, and that no other of them can stand in for. Where nothing
    is known of what feeds what, it is any. A missing parameter is gone from the definition of its tool.
    """

    sampler_name = "tc/missing"
    topology = "missing"
    options_type: ClassVar[type[MissingOptions]] = MissingOptions

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(registry, k=k, seed=seed, **options)
        self._inner = self._make(self.options.sampler)

    def count(self, options: MissingOptions, seed: int) -> int | None:
        """That of the inner sampler, if nobody says more."""
        return options.k or self._inner[0].options.k

    def draw(self, ask: Ask[MissingOptions]) -> Sample:
        """Draw, and take away, until there is something to take."""
        known = ask.options.sampler == self.options.sampler
        reasons: list[str] = []
        partial: list[Tool] = []
        samplers = self._inner if known else self._make(ask.options.sampler)
        for short in (False, True) if ask.options.allow_short else (False,):
            for inner in samplers:
                found = self._take(ask, inner, reasons, partial, short)
                if found is not None:
                    return found
        raise ask.failure(reasons[0] if reasons else "no tool of the samples has a required parameter", partial)

    def _take(
        self, ask: Ask[MissingOptions], inner: ToolSampler[Any], reasons: list[str], partial: list[Tool], short: bool
    ) -> Sample | None:
        """A sample with a hole; None if the inner sampler has none, and then why, and the most tools it found."""
        modes = ["tool", "parameter"] if ask.options.mode == "any" else [ask.options.mode]
        failures = Counter[str]()
        for number in range(ask.options.max_tries):
            for mode in ask.chance("mode", number).each(modes):
                extra = 1 if mode == "tool" else 0
                seed = derive(ask.seed, "inner", mode, number)
                try:
                    whole = draw_inner(ask, inner, ask.k + extra, seed, anchor=ask.anchor, short=short)
                except SamplingError as error:
                    reasons.append(str(error))
                    failures[mode] += 1
                    _keep_longer(partial, error.tools[: ask.k])
                    continue
                found = _without_tool(ask, whole) if extra else _without_parameter(ask, whole)
                if found is not None:
                    return found
                _keep_longer(partial, whole[: ask.k - 1])
            modes = [mode for mode in modes if failures[mode] < _HOPELESS]
        return None

    def _make(self, given: Any) -> list[ToolSampler[Any]]:
        if given is not None:
            return [inner_sampler(self.registry, given, self.sampler_name)]
        known = "dataflow" in self._view().artifacts
        kinds = ("tc/chain", "tc/random") if known else ("tc/random",)
        return [inner_sampler(self.registry, kind, self.sampler_name) for kind in kinds]


def _keep_longer(partial: list[Tool], other: list[Tool]) -> None:
    if len(other) > len(partial):
        partial[:] = other


def _without_tool(ask: Ask[MissingOptions], whole: Sample) -> Sample | None:
    keep = None if ask.anchor is None else ask.tools[ask.anchor]
    order = [at for at in ask.chance("tool").each(range(len(whole))) if whole[at] is not keep]
    feeding = [at for at in order if _needed(whole, at)]
    alone = [at for at in feeding if not _replaceable(whole, at)]
    choice = alone or feeding or order
    if not choice or len(whole) < 2:
        return None
    at = choice[0]
    tool = whole[at]
    lost = [edge for edge in whole.edges if _is(edge.source, edge.source_overload, tool)]
    kept = [edge for edge in whole.edges if edge not in lost and not _is(edge.target, edge.target_overload, tool)]
    needy = dict.fromkeys(edge.target for edge in lost)
    rest = [other for place, other in enumerate(whole) if place != at]
    return ask.sample(
        rest,
        roles=["incomplete" if other.qualified_name in needy else "complete" for other in rest],
        edges=kept,
        score=whole.score,
        details={
            "missing": "tool",
            "tool": tool.qualified_name,
            "overload": tool.fingerprint,
            "position": at,
            "needed_by": list(needy),
            "replaceable": bool(lost) and at not in alone,
            "lost_edges": [edge.to_dict() for edge in lost],
            "inner_topology": whole.topology,
        },
    )


def _needed(whole: Sample, at: int) -> bool:
    return any(_is(edge.source, edge.source_overload, whole[at]) for edge in whole.edges)


def _replaceable(whole: Sample, at: int) -> bool:
    """Whether every tool that this one feeds is fed by another as well."""
    mine = [edge for edge in whole.edges if _is(edge.source, edge.source_overload, whole[at])]
    others = [edge for edge in whole.edges if edge not in mine]
    fed = {(edge.target, feed.parameter) for edge in others for feed in edge.feeds}
    return bool(mine) and all(
        edge.feeds and all((edge.target, feed.parameter) in fed for feed in edge.feeds) for edge in mine
    )


def _is(name: str, overload: str, tool: Tool) -> bool:
    return name == tool.qualified_name and overload in ("", tool.fingerprint)


def _without_parameter(ask: Ask[MissingOptions], whole: Sample) -> Sample | None:
    choices = [(at, name) for at, tool in enumerate(whole) for name in required_parameters(tool)]
    if not choices:
        return None
    at, name = ask.chance("parameter").pick(choices)
    tool = whole[at]
    feeders = list(_feeds_to(whole, tool, name))
    tools = list(whole)
    if not ask.options.keep_definition:
        tools[at] = without_parameter(tool, name)
    return ask.sample(
        tools,
        roles=["incomplete" if place == at else "complete" for place in range(len(tools))],
        edges=whole.edges,
        score=whole.score,
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


def _feeds_to(whole: Sample, tool: Tool, parameter: str) -> Iterator[str]:
    for edge in whole.edges:
        parameters = [feed.parameter.split(".")[0].removesuffix("[]") for feed in edge.feeds]
        if _is(edge.target, edge.target_overload, tool) and parameter in parameters:
            yield edge.source


def required_parameters(tool: Tool) -> list[str]:
    """The names of the parameters that a call must give, in the order of the definition."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    return [name for name in properties if name in required]


def without_parameter(tool: Tool, name: str) -> Tool:
    """The tool with one parameter less."""
    parameters = dict(tool.parameters)
    parameters["properties"] = {key: value for key, value in parameters["properties"].items() if key != name}
    parameters["required"] = [key for key in parameters["required"] if key != name]
    if not parameters["required"]:
        del parameters["required"]
    return tool.replace(parameters=parameters)
