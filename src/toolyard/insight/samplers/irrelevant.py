"""`tc/irrelevant`: tools of which none does what is needed."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from toolyard.insight.embeddings.choice import default_embedder
from toolyard.insight.sample import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, Score, ToolSampler, Tries
from toolyard.insight.samplers.content import has_words
from toolyard.insight.samplers.hardness import by_hardness
from toolyard.insight.samplers.similarity import Floats, compute_cosines, lengths_of, whole_numbers

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
    options_type: ClassVar[type[IrrelevantOptions]] = IrrelevantOptions

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
    """How well each tool fits a query: by its words, and by embeddings of the usual model if the tools have them."""
    scale = np.float32(_TOO_LIKE["query"] / _WORDS_OF_QUERY)
    scores: Floats = np.minimum(ask.world.words.share(query) * scale, np.float32(1))
    scores = np.where(_on_topic(ask, query), np.maximum(scores, np.float32(_TOO_LIKE["query"])), scores)
    known = ask.world.artifacts.get("embeddings")
    embedder = default_embedder()
    if embedder is not None and getattr(known, "model", None) == embedder.name:
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
