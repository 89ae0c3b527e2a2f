"""`tc/missing`: a task that the sampled tools cannot solve, because a needed tool or value was removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any, Literal

from toolyard.insight.base import Edge, Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, ToolSampler, Tries, derive_seed
from toolyard.insight.samplers.mix import draw_inner, find_places, make_inner_sampler
from toolyard.model.errors import SamplingError
from toolyard.model.tool import Tool

_MAX_FAILURES = 3
"""Failures of the inner sampler after which it is not tried again with that size."""

_MODES = ("tool", "parameter")
_REASON_PREFIX = {"tool": "the tool to take away has to be drawn too: ", "parameter": ""}
_NOTHING_REMOVABLE = {
    "tool": "no tool of the samples feeds another what none of the rest gives as well",
    "parameter": "no tool of the samples has a required parameter",
}
"""Reasons, by mode, why nothing can be removed from the samples."""


class MissingOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/missing`."""

    sampler: Any = None
    """The inner sampler: its name, a mapping of `type` and its options, or a sampler.

    None for `tc/chain`, or `tc/random` if the registry has no dataflow or no such chain.
    """
    mode: Literal["any", "tool", "parameter"] = "any"
    """What is removed: a tool that others need, the value of a required parameter, or either at random."""
    max_tries: Tries = 256
    """Maximum number of samples of the inner sampler that are tried."""


class MissingSampler(ToolSampler[MissingOptions]):
    """A sample with something missing, described in `details`: `missing` ("tool" or "parameter"), `tool`, `parameter`.

    A missing tool is one that feeds others a value that, according to the dataflow, none of the rest provides; any tool
    if the sample has no edges. A missing parameter is one for which the task has no value; it stays in the tool's
    definition. If only parameters fed by a tool of the sample are available, `fed_by` lists the feeding tools.
    """

    sampler_name = "tc/missing"
    topology = "missing"

    def _check_inner(self) -> None:
        self._make_samplers(self.options)

    def count(self, options: MissingOptions, seed: int) -> int | None:
        """`k`, by default the inner sampler's."""
        return options.k or self._make_samplers(options)[0].options.k

    def draw(self, ask: SampleRequest[MissingOptions]) -> Sample:
        """Draw samples until something can be removed from one."""
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
        """Draw a sample and remove something; None if that fails, with `reasons` and `partial` updated."""
        modes = list(_MODES) if ask.options.mode == "any" else [ask.options.mode]
        failures = Counter[str]()
        for number in range(ask.options.max_tries):
            for mode in ask.chance("mode", number).each(modes):
                extra = 1 if mode == "tool" else 0
                seed = derive_seed(ask.seed, "inner", mode, number)
                try:
                    whole = draw_inner(ask, inner, ask.k + extra, seed, anchor=ask.anchor, short=short)
                except SamplingError as error:
                    reasons[mode] = f"{_REASON_PREFIX[mode]}{error}"
                    failures[mode] += 1
                    # At most `k` - 1: a partial result of `k` tools would look like a sample, though nothing was
                    # removed.
                    _keep_longer(partial, error.tools[: ask.k - 1])
                    continue
                found = _remove_tool(ask, whole) if extra else _remove_value(ask, whole)
                if found is not None:
                    return found
                reasons[mode] = _NOTHING_REMOVABLE[mode]
                _keep_longer(partial, whole[: ask.k - 1])
            modes = [mode for mode in modes if failures[mode] < _MAX_FAILURES]
        return None

    def _make_samplers(self, options: MissingOptions) -> list[ToolSampler[Any]]:
        known = "dataflow" in self._take_snapshot().artifacts
        usual = ("tc/chain", "tc/random") if known else ("tc/random",)
        chosen = usual if options.sampler is None else (options.sampler,)
        return [make_inner_sampler(self.registry, given, self.sampler_name) for given in chosen]


def _keep_longer(partial: list[Tool], other: list[Tool]) -> None:
    if len(other) > len(partial):
        partial[:] = other


def _remove_tool(ask: SampleRequest[MissingOptions], whole: Sample) -> Sample | None:
    anchor = None if ask.anchor is None else ask.tools[ask.anchor]
    order = [at for at in ask.chance("tool").each(range(len(whole))) if whole[at] is not anchor]
    known = _list_known_edges(ask, whole)
    removable = [at for at in order if any(_find_dependents(whole, known, at))] if whole.edges else order
    if not removable or len(whole) == 1:
        return None
    removed = removable[0]
    tool, left = whole[removed], [one for at, one in enumerate(whole) if at != removed]
    lost = [edge for edge in whole.edges if _starts_at(edge, tool)]
    kept = [edge for edge in whole.edges if edge not in lost and not _ends_at(edge, tool)]
    dependents = _find_dependents(whole, known, removed)
    return ask.sample(
        left,
        roles=["incomplete" if lacks else "complete" for lacks in dependents],
        edges=kept,
        score=_score_edges(whole, kept),
        details={
            "missing": "tool",
            "tool": tool.qualified_name,
            "overload": tool.fingerprint,
            "position": removed,
            "needed_by": [one.qualified_name for one, lacks in zip(left, dependents, strict=True) if lacks],
            "lost_edges": [edge.to_dict() for edge in lost],
            "inner_topology": whole.topology,
        },
    )


def _list_known_edges(ask: SampleRequest[MissingOptions], whole: Sample) -> list[Edge]:
    """All edges between these tools; samples list only those the sampler used, such as those along a chain."""
    dataflow = ask.snapshot.artifacts.get("dataflow")
    if dataflow is None:
        return list(whole.edges)
    between = (dataflow.edge(*pair) for pair in permutations(find_places(ask, whole), 2))
    return [*whole.edges, *(edge for edge in between if edge is not None)]


def _find_dependents(whole: Sample, known: Sequence[Edge], removed: int) -> list[bool]:
    """For each of the other tools, whether the tool at `removed` feeds it a value that none of the rest does."""
    tool, dependents = whole[removed], []
    for one in (other for at, other in enumerate(whole) if at != removed):
        lost = [edge for edge in whole.edges if _starts_at(edge, tool) and _ends_at(edge, one)]
        rest = [edge for edge in known if _ends_at(edge, one) and not _starts_at(edge, tool)]
        dependents.append(bool(_list_fed(lost) - _list_fed(rest)))
    return dependents


def _list_fed(edges: Sequence[Edge]) -> set[str]:
    """The parameters that these edges feed; "" for an edge without feeds."""
    return {path for edge in edges for path in ([feed.parameter for feed in edge.feeds] or [""])}


def _starts_at(edge: Edge, tool: Tool) -> bool:
    return edge.source == tool.qualified_name and edge.source_overload in ("", tool.fingerprint)


def _ends_at(edge: Edge, tool: Tool) -> bool:
    return edge.target == tool.qualified_name and edge.target_overload in ("", tool.fingerprint)


def _score_edges(whole: Sample, edges: list[Edge]) -> float | None:
    """Recompute the score if it was that of the weakest edge."""
    if not whole.edges or whole.score != min(edge.score for edge in whole.edges):
        return whole.score
    return min((edge.score for edge in edges), default=None)


def _remove_value(ask: SampleRequest[MissingOptions], whole: Sample) -> Sample | None:
    choices = [(at, name) for at, tool in enumerate(whole) for name in _list_required(tool)]
    if not choices:
        return None
    known = _list_known_edges(ask, whole)
    # Prefer parameters that no other tool feeds, since a fed value is not really missing.
    unfed = [(at, name) for at, name in choices if not _list_feeders(known, whole[at], name)]
    at, name = ask.chance("parameter").pick(unfed or choices)
    tool = whole[at]
    return ask.sample(
        list(whole),
        roles=["incomplete" if place == at else "complete" for place in range(len(whole))],
        edges=list(whole.edges),
        score=whole.score,
        details={
            "missing": "parameter",
            "tool": tool.qualified_name,
            "overload": tool.fingerprint,
            "position": at,
            "parameter": name,
            "schema": tool.parameters["properties"][name],
            "fed_by": _list_feeders(known, tool, name),
            "inner_topology": whole.topology,
        },
    )


def _list_required(tool: Tool) -> list[str]:
    """The required parameters, in the order of the definition."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    return [name for name in properties if name in required]


def _list_feeders(known: Sequence[Edge], tool: Tool, parameter: str) -> list[str]:
    """The tools that feed the parameter or something inside it."""
    feeds = [(edge.source, feed.parameter) for edge in known if _ends_at(edge, tool) for feed in edge.feeds]
    return list(dict.fromkeys(source for source, path in feeds if _find_parameter(path, tool) == parameter))


def _find_parameter(path: str, tool: Tool) -> str | None:
    """The parameter that a path starts with. Names may contain dots, so the longest match wins."""
    owners = [name for name in tool.parameters["properties"] if f"{path}.".startswith((f"{name}.", f"{name}[]"))]
    return max(owners, key=len, default=None)
