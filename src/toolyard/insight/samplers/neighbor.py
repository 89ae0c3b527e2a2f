"""`tc/neighbor`: tools around one tool; `tc/sparse`: tools far from one another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Protocol

import msgspec
import numpy as np

from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import (
    RandomStream,
    SampleRequest,
    SamplerOptions,
    Score,
    ToolSampler,
    Tries,
    derive_seed,
)
from toolyard.insight.samplers.mix import Strategy, by_hardness, draw_inner, inner_sampler, places_of, shares_of
from toolyard.insight.samplers.snapshot_view import SnapshotView
from toolyard.model.errors import SamplingError

_TOOLS_A_TRY = 32
"""Samples of more tools than that are tried less often."""


class Near(Protocol):
    """What the sampler needs to know of the artifact."""

    def near(self, place: int) -> list[tuple[int, float]]:
        """The neighbors of a place, best first."""

    def duplicates(self, place: int) -> tuple[int, ...]:
        """The places of tools that are nearly the same."""


class NeighborSamplerOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/neighbor` takes."""

    namespace_weights: dict[str, float] | None = None
    """Namespace -> how often the seed comes from it; the others share what is left."""
    strategy: Strategy = "proportional"
    """How they share it: by their number of tools, or evenly ("uniform")."""
    temperature: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    """The lower, the more the nearest are preferred."""
    use_seed_namespace: bool = True
    """Take only tools of the seed's namespace."""
    min_score: Annotated[float, msgspec.Meta(ge=-1, le=1)] = -1.0
    """The least likeness that makes a neighbor."""
    max_tries: Tries = 200
    """Seeds that are tried."""


class NeighborSampler(ToolSampler[NeighborSamplerOptions]):
    """A seed and tools like it, none of them nearly the same as another.

    Where the neighbors of the seed are too few, theirs come in, and so on.
    """

    sampler_name = "tc/neighbor"
    topology = "neighbors"
    required_artifacts = ("neighbors",)

    def draw(self, ask: SampleRequest[NeighborSamplerOptions]) -> Sample:
        """Grow a neighborhood from random seeds until one is large enough."""
        artifact = ask.world.artifacts["neighbors"]
        near: Near = artifact if hasattr(artifact, "near") else _Plain(artifact, ask.world)
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
        shares = shares_of(ask, ask.options.namespace_weights, ask.options.strategy)
        chance = ask.chance("seed")
        spaces = [space for space, share in shares.items() if share > 0]
        for space in chance.by_weight(spaces, [shares[space] for space in spaces]):
            yield from chance.each(ask.world.spaces[space])


def _grow_group(
    ask: SampleRequest[NeighborSamplerOptions], near: Near, seed: int, chance: RandomStream
) -> list[tuple[int, float]]:
    """The seed and its neighbors with their likeness, drawn by `softmax(likeness / temperature)`."""
    options, names = ask.options, ask.world.name_ids
    spaces = (ask.tools[seed].namespace,) if options.use_seed_namespace else ask.spaces
    chosen = [(seed, 1.0)]
    shut = {seed, *near.duplicates(seed)}
    used = {names[seed]}
    pool: dict[int, float] = {}
    heard: list[int] = [seed]
    asked = 0
    while len(chosen) < ask.k:
        fit = [place for place in pool if place not in shut and names[place] not in used]
        if not fit:
            if asked == len(heard):
                break
            for place, score in near.near(heard[asked]):
                if score >= options.min_score and place not in pool and ask.tools[place].namespace in spaces:
                    pool[place] = score
                    heard.append(place)
            asked += 1
            continue
        best = max(pool[place] for place in fit)
        weights = [math.exp((pool[place] - best) / options.temperature) for place in fit]
        place = chance.weighted(fit, weights)
        chosen.append((place, pool[place]))
        shut.update((place, *near.duplicates(place)))
        used.add(names[place])
    return chosen


class _Plain:
    """An artifact that is a plain mapping of the documented form."""

    def __init__(self, artifact: Mapping[str, Any], world: SnapshotView) -> None:
        self._artifact = artifact
        self._tools = world.tools
        self._places = {(tool.namespace, tool.name, tool.fingerprint): at for at, tool in enumerate(world.tools)}

    def near(self, place: int) -> list[tuple[int, float]]:
        found = [
            (other, float(row[2]))
            for space, (rows, _) in self._find_row(place).items()
            for row in rows
            if (other := self._places.get((space, row[0], row[1]))) is not None
        ]
        return sorted(found, key=lambda one: (-one[1], one[0]))

    def duplicates(self, place: int) -> tuple[int, ...]:
        found = [
            self._places.get((space, row[0], row[1]))
            for space, (_, rows) in self._find_row(place).items()
            for row in rows
        ]
        return tuple(other for other in found if other is not None)

    def _find_row(self, place: int) -> Mapping[str, Any]:
        tool = self._tools[place]
        known: Mapping[str, Any] = self._artifact.get(tool.qualified_name, {}).get(tool.fingerprint, {})
        return known


class SparseOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/sparse` takes."""

    sampler: Any = "tc/random"
    """The sampler of the relevant tools: its name, a mapping of `type` and its options, or the sampler itself."""
    k_relevant: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """How many tools are relevant; the `k` of the inner sampler if it has one, else a quarter of `k`."""
    hardness: Score = 0.5
    """How like the relevant tools the others are: 1 for the most alike, 0 for the least."""
    shuffle: bool = True
    """Mix them; if False, the relevant tools come first, in their order."""


class SparseSampler(ToolSampler[SparseOptions]):
    """Relevant tools, from any other sampler, and distractors, which are like them but not nearly the same."""

    sampler_name = "tc/sparse"
    topology = "sparse"

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(registry, k=k, seed=seed, **options)
        self._inner = inner_sampler(registry, self.options.sampler, self.sampler_name)

    def draw(self, ask: SampleRequest[SparseOptions]) -> Sample:
        """The inner sample first, then what distracts from it."""
        options = ask.options
        known = options.sampler == self.options.sampler
        inner = self._inner if known else inner_sampler(self.registry, options.sampler, self.sampler_name)
        number = options.k_relevant or inner.options.k or max(1, ask.k // 4)
        if number > ask.k:
            raise ask.refusal(f"{number} relevant tools are more than all {ask.k}")
        try:
            relevant = draw_inner(ask, inner, number, derive_seed(ask.seed, "relevant"), anchor=ask.anchor)
        except SamplingError as error:
            raise ask.failure(f"the relevant tools: {error}", error.tools) from error
        places = places_of(ask, relevant)
        likeness = ask.world.likeness
        scores = likeness.to_any(places) if places else np.zeros(len(ask.tools), np.float32)
        fit = np.asarray(ask.places, np.intp)
        fit = fit[scores[fit] < likeness.same()]
        chance = ask.chance("distractors")
        others = by_hardness(chance, scores, fit, ask.k - number, options.hardness, ask.world.name_ids, places)
        rows = [(tool, "relevant") for tool in relevant] + [(ask.tools[place], "distractor") for place in others]
        if options.shuffle:
            rows = list(ask.chance("order").each(rows))
        return ask.sample(
            [tool for tool, _ in rows],
            reason="there are not enough other tools to distract",
            roles=[role for _, role in rows],
            edges=relevant.edges,
            score=float(np.mean(scores[others])) if others else None,
            details={
                "relevant": [tool.qualified_name for tool in relevant],
                "relevant_roles": list(relevant.roles),
                "relevant_topology": relevant.topology,
                "likeness": likeness.kind,
                **({"inner": relevant.details} if relevant.details else {}),
            },
        )
