"""`tc/random`: tools drawn by chance; `tc/coverage`: so that in the end every tool was drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import RandomStream, SampleRequest, SamplerOptions, ToolSampler, Tries, derive_seed
from toolyard.insight.samplers.mix import Strategy, draw_inner, inner_sampler, places_of, share_slots, shares_of
from toolyard.insight.samplers.snapshot_view import SnapshotView
from toolyard.model.errors import SamplingError


class RandomOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/random` takes."""

    namespace_weights: dict[str, float] | None = None
    """Namespace -> its share of the sample; the others share what is left."""
    strategy: Strategy = "proportional"
    """How they share it: by their number of tools, or evenly ("uniform")."""


class RandomSampler(ToolSampler[RandomOptions]):
    """Any tools, in random order. An overload comes in only when there are not enough names."""

    sampler_name = "tc/random"
    topology = "set"

    def draw(self, ask: SampleRequest[RandomOptions]) -> Sample:
        """Share the sample out among namespaces, then draw in each."""
        shares = shares_of(ask, ask.options.namespace_weights, ask.options.strategy)
        first = ask.anchor
        sizes = {space: len(ask.world.spaces[space]) for space in ask.spaces}
        numbers = share_slots(ask.chance("namespaces"), shares, sizes, ask.k)
        if first is not None:
            _make_room(numbers, ask.tools[first].namespace)
        found: list[int] = []
        for space, number in numbers.items():
            if number:
                pool = ask.world.spaces[space]
                found += draw_distinct(ask.chance("tools", space), pool, number, ask.world.name_ids, first)
        shut = [space for space, share in shares.items() if share == 0]
        reason = f"the namespaces {', '.join(map(repr, shut))} have weight 0" if shut else "there are no more"
        return ask.sample(list(ask.chance("order").each(found)), reason=reason, roles=["tool"] * len(found))


def _make_room(numbers: dict[str, int], space: str) -> None:
    """See to it that a namespace gives a tool."""
    if numbers[space] == 0:
        most = max(numbers, key=lambda other: numbers[other])
        numbers[most] -= 1
        numbers[space] = 1


def draw_distinct(
    chance: RandomStream, pool: tuple[int, ...], number: int, name_ids: list[int], first: int | None = None
) -> list[int]:
    """`number` of these places, other overloads of a name only if there are not enough names."""
    chosen: list[int] = []
    again: list[int] = []
    names: set[int] = set()
    if first is not None and first in pool:
        chosen.append(first)
        names.add(name_ids[first])
    for place in chance.each(pool):
        if len(chosen) == number:
            break
        if name_ids[place] not in names:
            names.add(name_ids[place])
            chosen.append(place)
        elif place != first:
            again.append(place)
    return chosen + again[: number - len(chosen)]


Counts: TypeAlias = npt.NDArray[np.int64]


class CoverageOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/coverage` takes."""

    sampler: Any = "tc/random"
    """The sampler that draws: its name, a mapping of `type` and its options, or the sampler itself."""
    usage: dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**53)]] = {}
    """Qualified name -> how often the tool has been drawn; `usage_of(samples)` counts it."""
    max_tries: Tries = 32
    """Tools, the least used first, that are tried as part of the sample, before any sample will do."""
    candidates: Tries = 4
    """Of so many samples around that tool, the one whose other tools were used least is taken."""


class CoverageSampler(ToolSampler[CoverageOptions]):
    """Samples of another sampler, built around the tools that were used least.

    `sample` keeps no count: give `usage`. `series` counts along, and goes on until every tool that the inner sampler
    can place at all has had its turn.
    """

    sampler_name = "tc/coverage"
    topology = "coverage"

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(registry, k=k, seed=seed, **options)
        self._inner = inner_sampler(registry, self.options.sampler, self.sampler_name)

    def count(self, options: CoverageOptions, seed: int) -> int | None:
        """That of the inner sampler, if nobody says more."""
        return options.k or self._choose_sampler(options).options.k

    def draw(self, ask: SampleRequest[CoverageOptions]) -> Sample:
        """Around the least used tool that the inner sampler finds a sample for."""
        return self._draw_least_used(ask, _count_usage(ask), set())

    def series(self, n: int, k: int | None = None, *, seed: int | None = None, **overrides: Any) -> Iterator[Sample]:
        """`n` samples; each counts what those before it used. A registry that changes meanwhile is counted anew."""
        start = self._series_seed(seed)
        world: SnapshotView | None = None
        usage: Counts = np.zeros(0, np.int64)
        hopeless: set[int] = set()
        for number in range(n):
            ask = self._build_request({**overrides, "k": k, "seed": derive_seed(start, "series", number)})
            if ask.world is not world:
                world, usage, hopeless = ask.world, _count_usage(ask), set()
            sample = self._draw_least_used(ask, usage, hopeless)
            for place in places_of(ask, sample):
                usage[place] += 1
            yield sample

    def _draw_least_used(self, ask: SampleRequest[CoverageOptions], usage: Counts, hopeless: set[int]) -> Sample:
        """`hopeless` are places of tools that are in no sample; those that are found out here are added."""
        inner = self._choose_sampler(ask.options)
        for number, place in enumerate(_least_used(ask, usage, hopeless)):
            if number == ask.options.max_tries:
                break
            sample = self._draw_around(ask, inner, place, usage)
            if sample is not None:
                return self._add_usage(ask, sample, usage, place)
            hopeless.add(place)
        try:
            return self._add_usage(ask, draw_inner(ask, inner, ask.k, derive_seed(ask.seed, "inner")), usage, None)
        except SamplingError as error:
            raise ask.failure(str(error), error.tools) from error

    def _choose_sampler(self, options: CoverageOptions) -> ToolSampler[Any]:
        known = options.sampler == self.options.sampler
        return self._inner if known else inner_sampler(self.registry, options.sampler, self.sampler_name)

    def _draw_around(
        self, ask: SampleRequest[CoverageOptions], inner: ToolSampler[Any], place: int, usage: Counts
    ) -> Sample | None:
        """A sample with the tool at `place`, and with others that were used little; None if there is none."""
        best: Sample | None = None
        least = -1.0
        for number in range(ask.options.candidates):
            try:
                seed = derive_seed(ask.seed, "inner", place, number)
                sample = draw_inner(ask, inner, ask.k, seed, anchor=place, short=False)
            except SamplingError:
                break
            fresh = float(np.sum(1.0 / (1 + usage[places_of(ask, sample)])))
            if fresh > least:
                best, least = sample, fresh
            if fresh >= ask.k:
                break
        return best

    def _add_usage(
        self, ask: SampleRequest[CoverageOptions], sample: Sample, usage: Counts, place: int | None
    ) -> Sample:
        places = places_of(ask, sample)
        return ask.pass_on(
            sample,
            around=None if place is None else ask.tools[place].qualified_name,
            new=[ask.tools[one].qualified_name for one in places if usage[one] == 0],
            usage=[int(usage[one]) for one in places],
        )


def _count_usage(ask: SampleRequest[CoverageOptions]) -> Counts:
    """How often each tool has been used, as the option says."""
    given = ask.options.usage
    usage: Counts = np.zeros(len(ask.tools), np.int64)
    for name, count in given.items():
        namespace, _, bare = name.partition(TOOL_NAMESPACE_SEP)
        for place in ask.world.named(namespace, bare):
            usage[place] = count
    return usage


def _least_used(ask: SampleRequest[CoverageOptions], usage: Counts, hopeless: set[int]) -> Iterator[int]:
    """Places, the least used first, by chance among equals."""
    chance = ask.chance("least used")
    places = np.asarray(ask.places, np.intp)
    counts = usage[places]
    for level in np.unique(counts).tolist():
        for place in chance.each(places[counts == level].tolist()):
            if place not in hopeless:
                yield place


def usage_of(samples: Any) -> dict[str, int]:
    """Qualified name -> in how many of these samples the tool is."""
    return dict(Counter(name for sample in samples for name in dict.fromkeys(tool.qualified_name for tool in sample)))
