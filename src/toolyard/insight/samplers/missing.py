"""What cannot be done with the tools drawn: `tc/missing` takes one needed thing away, `tc/irrelevant` draws others."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from toolyard.insight.base import Edge, Sample
from toolyard.insight.embeddings.vectors import told_embedder
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, Score, ToolSampler, Tries, derive_seed
from toolyard.insight.samplers.drop_parameter import (
    RemovableTools,
    edges_without,
    feeds_parameter,
    is_of,
    required_parameters,
    without_parameter,
)
from toolyard.insight.samplers.mix import by_hardness, draw_inner, inner_sampler
from toolyard.insight.samplers.snapshot_view import Floats, compute_cosines, has_words, lengths_of, whole_numbers
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

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(registry, k=k, seed=seed, **options)
        self._inner = self._make_samplers(self.options.sampler)

    def count(self, options: MissingOptions, seed: int) -> int | None:
        """That of the inner sampler, if nobody says more."""
        return options.k or self._choose_samplers(options)[0].options.k

    def draw(self, ask: SampleRequest[MissingOptions]) -> Sample:
        """Draw, and take away, until there is something to take."""
        reasons: dict[str, str] = {}
        partial: list[Tool] = []
        for short in (False, True) if ask.options.allow_short else (False,):
            for inner in self._choose_samplers(ask.options):
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

    def _choose_samplers(self, options: MissingOptions) -> list[ToolSampler[Any]]:
        return self._inner if options.sampler == self.options.sampler else self._make_samplers(options.sampler)

    def _make_samplers(self, given: Any) -> list[ToolSampler[Any]]:
        if given is not None:
            return [inner_sampler(self.registry, given, self.sampler_name)]
        known = "dataflow" in self._take_snapshot().artifacts
        kinds = ("tc/chain", "tc/random") if known else ("tc/random",)
        return [inner_sampler(self.registry, kind, self.sampler_name) for kind in kinds]


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


_TOO_LIKE = {"embeddings": 0.5, "words": 0.35, "query": 0.35}
"""From here on a tool may well do what another does, or what a query asks for."""
_WORDS_OF_QUERY = 0.08
"""So much of a query in the words of a tool, its parameters included, is as much as the likeness above. So is any word
that they share and that says what the tool is for. Of the labelled queries of the corpus, asked of 10, 100 and 1,000
tools, 96%, 96% and 93% of the tools that fit have the one or the other, and 19%, 22% and 22% of the others.
"""


class IrrelevantOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/irrelevant` takes."""

    query: str | None = None
    """What is needed, in words."""
    tool: str | None = None
    """The qualified name of the tool that is needed; without this and a query, one is drawn by chance."""
    max_score: Score | None = None
    """The likeness from which a tool fits; None for a usual value."""
    hardness: Score = 0.5
    """How near they come to what is needed, among those that do not fit: 1 for the nearest, 0 for the farthest."""
    max_tries: Tries = 64
    """Needs that are tried, where chance draws them."""


class IrrelevantSampler(ToolSampler[IrrelevantOptions]):
    """Tools that do not fit a need. The right answer to it is to call none of them; `details` says what is needed."""

    sampler_name = "tc/irrelevant"
    topology = "irrelevant"

    def draw(self, ask: SampleRequest[IrrelevantOptions]) -> Sample:
        """Leave out what fits, then draw by hardness."""
        query = ask.options.query
        if query is not None and ask.options.tool is not None:
            raise ask.refusal("give a query or a tool, not both")
        if query is not None and not has_words(query):
            raise ask.refusal(f"the query {query!r} has no words; say what is needed, or leave it out to draw a need")
        best: list[int] = []
        told: dict[str, Any] = {}
        scores: Floats = np.zeros(0, np.float32)
        for number, (need, scores_now, details) in enumerate(_find_needs(ask)):
            found = _list_misfits(ask, need, scores_now, details["likeness"], number)
            if len(found) > len(best) or not told:
                best, told, scores = found, details, scores_now
            if len(best) == ask.k or number + 1 == ask.options.max_tries:
                break
        return ask.sample(
            best,
            reason="there are not enough tools that do not fit; ask for fewer, or for something that fewer of them do",
            roles=["irrelevant"] * len(best),
            score=float(max(scores[best])) if best else None,
            details=told,
        )


def _find_needs(ask: SampleRequest[IrrelevantOptions]) -> Any:
    """What may be needed: the place of the tool that would fit, how like it all tools are, and what to tell."""
    options = ask.options
    if options.query is not None:
        yield None, _score_fits(ask, options.query), {"query": options.query, "likeness": "query"}
        return
    likeness = ask.world.likeness
    if options.tool is not None:
        places: Any = [ask.place_of(options.tool)]
    else:
        places = (place for place in ask.chance("need").each(ask.world.all_places) if place != ask.anchor)
    for place in places:
        tool = ask.tools[place]
        details = {"needed": tool.qualified_name, "needed_overload": tool.fingerprint, "likeness": likeness.kind}
        yield place, likeness.to(place), details


def _score_fits(ask: SampleRequest[IrrelevantOptions], query: str) -> Floats:
    """How well each tool fits a query: by its words, and by embeddings if the tools have them."""
    scale = np.float32(_TOO_LIKE["query"] / _WORDS_OF_QUERY)
    scores: Floats = np.minimum(ask.world.words.share(query) * scale, np.float32(1))
    scores = np.where(_on_topic(ask, query), np.maximum(scores, np.float32(_TOO_LIKE["query"])), scores)
    embedder = told_embedder(ask.world)
    if embedder is not None:
        rows = np.vstack([ask.world.likeness.vectors, whole_numbers(embedder.encode([query]))])
        scores = np.maximum(scores, compute_cosines(rows, lengths_of(rows), len(ask.tools))[:-1])
    return scores


def _on_topic(ask: SampleRequest[IrrelevantOptions], query: str) -> npt.NDArray[np.bool_]:
    """Which tools have a word in common with a query, or a namesake that has."""
    shared = ask.world.content.shared(query)
    for name in {ask.tools[place].name for place in np.flatnonzero(shared).tolist()}:
        shared[list(ask.world.namesakes(name))] = True
    return shared


def _list_misfits(
    ask: SampleRequest[IrrelevantOptions], need: int | None, scores: Floats, kind: str, number: int
) -> list[int]:
    limit = _TOO_LIKE[kind] if ask.options.max_score is None else ask.options.max_score
    fit = np.asarray(ask.places, np.intp)
    fit = fit[scores[fit] < limit]
    if need is not None:
        # A namesake is called for the same purpose, however it is described.
        namesakes = np.asarray(ask.world.namesakes(ask.tools[need].name), np.intp)
        fit = fit[~np.isin(fit, namesakes)]
    first: list[int] = []
    if ask.anchor is not None:
        if ask.anchor not in fit:
            return []
        first = [ask.anchor]
    chance = ask.chance("tools", number)
    rest = by_hardness(chance, scores, fit, ask.k - len(first), ask.options.hardness, ask.world.name_ids, first)
    return first + rest
