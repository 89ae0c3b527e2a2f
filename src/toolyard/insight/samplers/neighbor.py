"""Samplers by similarity: `tc/neighbor`, tools similar to a seed; `tc/conflict`, tools easily confused.

And `tc/irrelevant`, tools that do not meet a need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from toolyard.insight.arrays import Floats, compute_cosines, round_rows, row_lengths
from toolyard.insight.base import Sample
from toolyard.insight.embeddings.vectors import configured_embedder
from toolyard.insight.samplers.base import RandomStream, SampleRequest, SamplerOptions, Score, ToolSampler, Tries
from toolyard.insight.samplers.random import Strategy, compute_shares
from toolyard.insight.search.query import split_words
from toolyard.model.tool import Tool

_SPREAD = 0.02
"""Minimum fraction of the candidates among which the choice is random."""


def draw_by_hardness(
    chance: RandomStream,
    scores: Floats,
    candidates: Sequence[int] | npt.NDArray[np.intp],
    number: int,
    hardness: float,
    name_ids: Sequence[int],
    used: Sequence[int] = (),
) -> list[int]:
    """Draw `number` candidates: among the highest scores with hardness 1, among the lowest with 0.

    The choice is random within a window a few times as large as `number`. No name is drawn twice, nor any name of the
    `used` tools; fewer are returned if there are no more.
    """
    places = np.asarray(candidates, np.intp)
    ranked = places[np.lexsort((places, -scores[places]))].tolist()
    window = min(len(ranked), max(3 * number, math.ceil(_SPREAD * len(ranked))))
    start = round((1.0 - hardness) * (len(ranked) - window))
    before, after = ranked[:start][::-1], ranked[start + window :]
    # If the window does not have enough names, continue outward from it, nearest first.
    next_to_it = (place for pair in zip_longest(before, after) for place in pair if place is not None)
    names = {name_ids[place] for place in used}
    taken: list[int] = []
    for place in chain(chance.each(ranked[start : start + window]), next_to_it):
        if len(taken) == number:
            break
        if name_ids[place] not in names:
            names.add(name_ids[place])
            taken.append(place)
    return taken


_TOOLS_A_TRY = 32
"""Tools per try that `max_tries` assumes; larger groups use up more of it."""


class NeighborSamplerOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/neighbor`."""

    namespace_weights: dict[str, float] | None = None
    """Namespace -> probability that the seed comes from it; the others share the rest."""
    strategy: Strategy = "proportional"
    """How the others share it: by their number of tools, or evenly ("uniform")."""
    temperature: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    """Lower values prefer the nearest tools more strongly."""
    use_seed_namespace: bool = True
    """Draw only from the seed's namespace."""
    min_score: Annotated[float, msgspec.Meta(ge=-1, le=1)] = -1.0
    """Minimum similarity of a neighbor."""
    max_tries: Tries = 200
    """Maximum number of seeds that are tried."""


class NeighborSampler(ToolSampler[NeighborSamplerOptions]):
    """A tool and similar ones, without near duplicates.

    If the seed has too few neighbors, their neighbors are added, and so on.
    """

    sampler_name = "tc/neighbor"
    topology = "neighbors"
    required_artifacts = ("neighbors",)

    def draw(self, ask: SampleRequest[NeighborSamplerOptions]) -> Sample:
        """Grow groups from random seeds until one is large enough."""
        near = ask.snapshot.artifacts["neighbors"]
        best: list[tuple[int, float]] = []
        chance = ask.chance("neighbors")
        left = ask.options.max_tries * _TOOLS_A_TRY
        for number, seed in enumerate(self._list_seeds(ask)):
            if number == ask.options.max_tries or left <= 0:
                break
            found = _grow_group(ask, near, seed, chance)
            left -= len(found)
            if len(found) > len(best):
                best = found
            if len(best) == ask.k:
                break
        inside = "in its namespace " if ask.options.use_seed_namespace else ""
        return ask.sample(
            [place for place, _ in best],
            reason=f"no tool has so many neighbors {inside}that are not nearly the same",
            roles=["seed", *["neighbor"] * (len(best) - 1)][: len(best)],
            score=min((score for _, score in best[1:]), default=None),
        )

    def _list_seeds(self, ask: SampleRequest[NeighborSamplerOptions]) -> Iterator[int]:
        if ask.anchor is not None:
            yield ask.anchor
            return
        shares = compute_shares(ask, ask.options.namespace_weights, ask.options.strategy)
        chance = ask.chance("seed")
        spaces = [space for space, share in shares.items() if share > 0]
        for space in chance.by_weight(spaces, [shares[space] for space in spaces]):
            yield from chance.each(ask.snapshot.spaces[space])


def _grow_group(
    ask: SampleRequest[NeighborSamplerOptions], near: Any, seed: int, chance: RandomStream
) -> list[tuple[int, float]]:
    """Draw neighbors with probability `softmax(similarity / temperature)`; return indexes and similarities."""
    options, names = ask.options, ask.snapshot.name_ids
    spaces = (ask.tools[seed].namespace,) if options.use_seed_namespace else ask.spaces
    chosen = [(seed, 1.0)]
    excluded = {seed, *near.duplicates(seed)}
    used = {names[seed]}
    pool: dict[int, float] = {}
    queue: list[int] = [seed]
    position = 0
    while len(chosen) < ask.k:
        fit = [place for place in pool if place not in excluded and names[place] not in used]
        if not fit:
            if position == len(queue):
                break
            for place, score in near.near(queue[position]):
                if score >= options.min_score and place not in pool and ask.tools[place].namespace in spaces:
                    pool[place] = score
                    queue.append(place)
            position += 1
            continue
        best = max(pool[place] for place in fit)
        weights = [math.exp((pool[place] - best) / options.temperature) for place in fit]
        place = chance.weighted(fit, weights)
        chosen.append((place, pool[place]))
        excluded.update((place, *near.duplicates(place)))
        used.add(names[place])
    return chosen


_MIN_LIKENESS = {"embeddings": 0.3, "words": 0.1}
"""Minimum similarity of tools that may be confused, by kind of similarity.

It is a floor, not a sign of difficulty: of random pairs of tools from all catalogs of the corpus, half are below 0.2 by
embeddings, and 95% below 0.05 by words.
"""


class ConflictOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/conflict`."""

    k: Annotated[int, msgspec.Meta(ge=2)] | None = None
    min_score: Score | None = None
    """Minimum similarity to the gold tool; None for a default, from which tools of the same name are exempt."""
    groups: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Number of groups, each with its own gold tool, among the `k` tools."""
    tool: str | None = None
    """Qualified name of the first group's gold tool; None for a random one."""
    candidates: Tries = 4
    """Number of random tools of which the most easily confused becomes the gold tool."""
    max_tries: Tries = 256
    """Maximum number of tools that are tried as the gold tool."""


class ConflictSampler(ToolSampler[ConflictOptions]):
    """One correct tool and others that look like it but have other parameters or results.

    Tools of the same bare name in other namespaces come first. Tools that differ only in their namespace are not a
    conflict, and are left out.
    """

    sampler_name = "tc/conflict"
    topology = "conflict"

    def draw(self, ask: SampleRequest[ConflictOptions]) -> Sample:
        """Draw each group: a gold tool, then the tools most similar to it."""
        options = ask.options
        if ask.k < 2 * options.groups:
            raise ask.refusal(f"{options.groups} groups need at least {2 * options.groups} tools, not {ask.k}")
        rows: list[tuple[int, str, int, float]] = []
        gold: list[dict[str, Any]] = []
        for group in range(options.groups):
            size = ask.k // options.groups + (group < ask.k % options.groups)
            found = self._draw_group(ask, group, size, [row[0] for row in rows])
            roles = ["gold", *["confusable"] * len(found)]
            rows += [(place, role, group, score) for role, (place, score) in zip(roles, found, strict=False)]
            if found:
                gold.append(_describe_group(ask, found, group))
        mixed = list(ask.chance("order").each(rows))
        return ask.sample(
            [place for place, *_ in mixed],
            reason=_explain_lack(ask),
            roles=[role for _, role, *_ in mixed],
            score=min((score for _, role, _, score in rows if role == "confusable"), default=None),
            details={
                "gold": gold[0]["tool"] if gold else None,
                "gold_overload": gold[0]["overload"] if gold else None,
                "groups": gold,
                "group_of": [group for _, _, group, _ in mixed],
                "likeness": ask.snapshot.likeness.kind,
            },
        )

    def _draw_group(
        self, ask: SampleRequest[ConflictOptions], group: int, size: int, taken: list[int]
    ) -> list[tuple[int, float]]:
        """Find a gold tool and its conflicts, or the largest group found; return pairs of index and similarity."""
        best: list[tuple[int, float]] = []
        best_score = -1.0
        complete = 0
        for number, gold in enumerate(_list_golds(ask, group, taken)):
            if number == ask.options.max_tries or complete == ask.options.candidates:
                break
            found = _find_alike(ask, gold, size - 1, taken)
            score = min((score for _, score in found), default=0.0)
            if (len(found) + 1, score) > (len(best), best_score):
                best, best_score = [(gold, 1.0), *found], score
            complete += len(found) == size - 1
        return best


def _list_golds(ask: SampleRequest[ConflictOptions], group: int, taken: list[int]) -> Iterable[int]:
    name = ask.options.tool
    if ask.anchor is not None and group == 0:
        return [ask.anchor]
    if name is not None and group == 0:
        return [ask.place_of(name)]
    names = {ask.snapshot.name_ids[place] for place in taken}
    return (place for place in ask.chance("gold", group).each(ask.places) if ask.snapshot.name_ids[place] not in names)


def _find_alike(
    ask: SampleRequest[ConflictOptions], gold: int, number: int, taken: list[int]
) -> list[tuple[int, float]]:
    """The tools most similar to the gold tool, with their similarity; each name once, namesakes first."""
    names = ask.snapshot.name_ids
    used = {names[gold], *(names[place] for place in taken)}
    found: list[tuple[int, float]] = []
    for place, score in _rank_by_likeness(ask, gold):
        if len(found) == number:
            break
        if names[place] not in used and list_differences(ask.tools[gold], ask.tools[place]):
            used.add(names[place])
            found.append((place, score))
    return found


def _rank_by_likeness(ask: SampleRequest[ConflictOptions], gold: int) -> Iterator[tuple[int, float]]:
    """Indexes and similarities: namesakes first, whatever their similarity unless `min_score` was given."""
    scores, limit = ask.snapshot.likeness.to(gold), _least_likeness(ask)
    others = np.array([place for place in ask.places if place != gold], np.intp)
    others = others[np.lexsort((others, -scores[others]))]
    ranked = list(zip(others.tolist(), scores[others].tolist(), strict=True))
    named = frozenset(ask.snapshot.namesakes(ask.tools[gold].name))
    least = -1.0 if ask.options.min_score is None else limit
    yield from (row for row in ranked if row[0] in named and row[1] >= least)
    yield from (row for row in ranked if row[0] not in named and row[1] >= limit)


def _least_likeness(ask: SampleRequest[ConflictOptions]) -> float:
    given = ask.options.min_score
    return _MIN_LIKENESS[ask.snapshot.likeness.kind] if given is None else given


def _explain_lack(ask: SampleRequest[ConflictOptions]) -> str:
    least, by_words = _least_likeness(ask), ask.snapshot.likeness.kind == "words"
    fewer = "ask for fewer tools" + (f", lower min_score={least}" if least else "")
    words = "; likeness goes by words: the enrichment embeddings may see more of it" if by_words else ""
    return f"no tool is like so many others by {least} or more; {fewer}, or add tools that are alike{words}"


def list_differences(one: Tool, other: Tool) -> list[str]:
    """The parts of the definition, other than names, in which two tools differ."""
    found = ["parameters"] if one.fingerprint != other.fingerprint else []
    found += ["output_parameters"] if one.output_parameters != other.output_parameters else []
    found += ["description"] if one.description != other.description else []
    return found + (["effects"] if one.effects != other.effects else [])


def _describe_group(ask: SampleRequest[ConflictOptions], found: list[tuple[int, float]], group: int) -> dict[str, Any]:
    tool = ask.tools[found[0][0]]
    return {
        "group": group,
        "tool": tool.qualified_name,
        "overload": tool.fingerprint,
        "conflicts": [
            {
                "tool": ask.tools[place].qualified_name,
                "likeness": round(score, 4),
                "same_name": ask.tools[place].name == tool.name,
                "differs": list_differences(tool, ask.tools[place]),
            }
            for place, score in found[1:]
        ],
    }


_FITTING_LIKENESS = {"embeddings": 0.5, "words": 0.35, "query": 0.35}
"""Similarity from which a tool may well do what another does, or what a query asks for.

Sharing one content word with a query gives the same value. Of the labelled queries of the corpus against 10, 100 and
1,000 tools, 95%, 95% and 93% of the tools that fit share one, and 17%, 19% and 17% of the others.
"""


class IrrelevantOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/irrelevant`."""

    query: str | None = None
    """The need, as a text."""
    tool: str | None = None
    """Qualified name of the needed tool; without this and a query, one is drawn at random."""
    max_score: Score | None = None
    """Similarity from which a tool fits; None for a default."""
    hardness: Score = 0.5
    """How close the tools are to the need, among those that do not fit: 1 for the nearest, 0 for the farthest."""
    max_tries: Tries = 64
    """Maximum number of needs that are tried, if they are drawn at random."""


class IrrelevantSampler(ToolSampler[IrrelevantOptions]):
    """Tools that do not help with a need. The right answer is to call none of them; `details` has the need."""

    sampler_name = "tc/irrelevant"
    topology = "irrelevant"

    def draw(self, ask: SampleRequest[IrrelevantOptions]) -> Sample:
        """Leave out tools that fit, then draw by hardness."""
        query = ask.options.query
        if query is not None and ask.options.tool is not None:
            raise ask.refusal("give a query or a tool, not both")
        if query is not None and not split_words(query):
            raise ask.refusal(f"the query {query!r} has no words; say what is needed, or leave it out to draw a need")
        best: list[int] = []
        best_details: dict[str, Any] = {}
        scores: Floats = np.zeros(0, np.float32)
        for number, (need, scores_now, details) in enumerate(_find_needs(ask)):
            found = _list_misfits(ask, need, scores_now, details["likeness"], number)
            if len(found) > len(best) or not best_details:
                best, best_details, scores = found, details, scores_now
            if len(best) == ask.k or number + 1 == ask.options.max_tries:
                break
        return ask.sample(
            best,
            reason="there are not enough tools that do not fit; ask for fewer, or for something that fewer of them do",
            roles=["irrelevant"] * len(best),
            score=float(max(scores[best])) if best else None,
            details=best_details,
        )


def _find_needs(ask: SampleRequest[IrrelevantOptions]) -> Any:
    """Yield possible needs: the index of the needed tool or None, the similarity of all tools, and the details."""
    options = ask.options
    if options.query is not None:
        yield None, _score_fits(ask, options.query), {"query": options.query, "likeness": "query"}
        return
    likeness = ask.snapshot.likeness
    if options.tool is not None:
        places: Any = [ask.place_of(options.tool)]
    else:
        places = (place for place in ask.chance("need").each(ask.snapshot.all_places) if place != ask.anchor)
    for place in places:
        tool = ask.tools[place]
        details = {"needed": tool.qualified_name, "needed_overload": tool.fingerprint, "likeness": likeness.kind}
        yield place, likeness.to(place), details


def _score_fits(ask: SampleRequest[IrrelevantOptions], query: str) -> Floats:
    """How well each tool fits a query: by words shared with it or a namesake, and by embeddings if there are any."""
    shared = ask.snapshot.content.shared(query)
    for name in {ask.tools[place].name for place in np.flatnonzero(shared).tolist()}:
        shared[list(ask.snapshot.namesakes(name))] = True
    scores: Floats = shared * np.float32(_FITTING_LIKENESS["query"])
    embedder = configured_embedder(ask.snapshot)
    if embedder is not None:
        rows = np.vstack([ask.snapshot.likeness.vectors, round_rows(embedder.encode([query]))])
        scores = np.maximum(scores, compute_cosines(rows, row_lengths(rows), len(ask.tools))[:-1])
    return scores


def _list_misfits(
    ask: SampleRequest[IrrelevantOptions], need: int | None, scores: Floats, kind: str, number: int
) -> list[int]:
    limit = _FITTING_LIKENESS[kind] if ask.options.max_score is None else ask.options.max_score
    fit = np.asarray(ask.places, np.intp)
    fit = fit[scores[fit] < limit]
    if need is not None:
        # Tools of the same name serve the same purpose, however they are described.
        namesakes = np.asarray(ask.snapshot.namesakes(ask.tools[need].name), np.intp)
        fit = fit[~np.isin(fit, namesakes)]
    first: list[int] = []
    if ask.anchor is not None:
        if ask.anchor not in fit:
            return []
        first = [ask.anchor]
    chance = ask.chance("tools", number)
    rest = draw_by_hardness(chance, scores, fit, ask.k - len(first), ask.options.hardness, ask.snapshot.name_ids, first)
    return first + rest
