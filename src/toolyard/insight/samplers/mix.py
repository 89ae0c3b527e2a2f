"""`tc/mix`: now this sampler, now that; and what samplers share that draw with the help of others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import (
    RandomStream,
    SampleRequest,
    SamplerOptionError,
    SamplerOptions,
    ToolSampler,
    derive_seed,
)
from toolyard.model.errors import SamplingError
from toolyard.plugins import get_tool_sampler

_SPREAD = 0.02
"""The part of all candidates among which chance decides."""


def by_hardness(
    chance: RandomStream,
    scores: npt.NDArray[np.float32],
    candidates: Sequence[int] | npt.NDArray[np.intp],
    number: int,
    hardness: float,
    name_ids: Sequence[int],
    used: Sequence[int] = (),
) -> list[int]:
    """`number` candidates: with hardness 1 of those that score most, with 0 of those that score least.

    Chance decides among a few times as many as are wanted. No name is taken twice, nor one of the names of `used`
    places; fewer are returned if there are no more.
    """
    places = np.asarray(candidates, np.intp)
    ranked = places[np.lexsort((places, -scores[places]))].tolist()
    window = min(len(ranked), max(3 * number, math.ceil(_SPREAD * len(ranked))))
    start = round((1.0 - hardness) * (len(ranked) - window))
    before, after = ranked[:start][::-1], ranked[start + window :]
    # Where the window does not have enough names, those next to it follow, the nearest first.
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


Strategy = Literal["proportional", "uniform"]


def shares_of(ask: SampleRequest[Any], weights: Mapping[str, float] | None, strategy: Strategy) -> dict[str, float]:
    """The share of each namespace in the whole; together they are 1.

    A given weight is a share of the whole: with `{"a": 0.8}` and one other namespace, that one has 0.2. What the
    given ones leave is split among the rest, evenly or by their number of tools. If they leave nothing, they are
    taken in proportion, and the rest have no share.
    """
    given = dict(weights or {})
    for namespace, weight in given.items():
        if namespace not in ask.spaces:
            ask.known(namespace)
        if not (math.isfinite(weight) and weight >= 0):
            raise ask.refusal(f"the weight of the namespace {namespace!r} must be 0 or more, not {weight}")
    counts = {space: len(ask.world.spaces[space]) for space in ask.spaces}
    shares = {space: given[space] for space in counts if space in given}
    rest = {space: count if strategy == "proportional" else 1 for space, count in counts.items() if space not in given}
    left = max(0.0, 1.0 - math.fsum(shares.values())) if rest else 0.0
    for space, part in rest.items():
        shares[space] = left * part / sum(rest.values())
    total = math.fsum(shares.values())
    if total <= 0:
        raise ask.refusal("every namespace has weight 0")
    return {space: shares[space] / total for space in counts}


def share_slots(
    chance: RandomStream, shares: Mapping[str, float], sizes: Mapping[str, int], count: int
) -> dict[str, int]:
    """How many tools each namespace gives, `count` in all or as many as there are.

    Each gets its share of `count`, rounded up or down at random so that on average it is exact; what a namespace
    does not have, the others give.
    """
    taken = dict.fromkeys(shares, 0)
    open_to = [space for space in shares if shares[space] > 0 and sizes[space] > 0]
    while open_to and count > 0:
        for space, number in zip(
            open_to, _round_shares(chance, [shares[space] for space in open_to], count), strict=True
        ):
            number = min(number, sizes[space] - taken[space])
            taken[space] += number
            count -= number
        open_to = [space for space in open_to if taken[space] < sizes[space]]
    return taken


def _round_shares(chance: RandomStream, weights: Sequence[float], count: int) -> list[int]:
    """`count` split by weight: marks at equal distances, from a random start, along the weights in random order."""
    order = list(chance.each(range(len(weights))))
    total = math.fsum(weights)
    numbers = [0] * len(weights)
    start, passed, last = chance.fraction(), 0.0, 0
    for position, place in enumerate(order):
        passed += weights[place] / total * count
        # The end of the line is `count` itself, whatever the sum of rounded parts says.
        marks = count if position == len(order) - 1 else min(count, max(last, math.ceil(passed - start)))
        numbers[place] = marks - last
        last = marks
    return numbers


def inner_sampler(registry: Any, given: Any, outer: str) -> ToolSampler[Any]:
    """A sampler that is given as it is, by its name, or as a mapping of `type` and its options.

    Its `k` counts where the outer one is told none. A `seed` of its own would never count, so it is refused.
    """
    if isinstance(given, ToolSampler):
        if given.options.seed is not None:
            raise _seed_refused(outer, given.sampler_name or type(given).__name__, given.options.seed)
        return given
    if isinstance(given, str):
        given = {"type": given}
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        raise SamplerOptionError(
            f"{outer}: a sampler is given by its name, or as a mapping such as {{type: tc/chain, k: 3}}, not {given!r}"
        )
    options = {str(name): value for name, value in given.items() if name != "type"}
    if "registry" in options:
        raise SamplerOptionError(f"{outer}: a sampler inside it has the same registry; leave out 'registry'")
    if options.get("seed") is not None:
        raise _seed_refused(outer, given["type"], options["seed"])
    made: ToolSampler[Any] = get_tool_sampler(given["type"], registry=registry, **options)
    return made


def _seed_refused(outer: str, inner: str, seed: Any) -> SamplerOptionError:
    return SamplerOptionError(
        f"{outer}: {inner} inside it has the seed {seed!r}, which would decide nothing: the seed of {outer} decides; "
        f"leave it out there, or give it to {outer}"
    )


def draw_inner(
    ask: SampleRequest[Any],
    inner: ToolSampler[Any],
    k: int,
    seed: int,
    *,
    anchor: int | None = None,
    short: bool | None = None,
) -> Sample:
    """A sample of the inner sampler, of the same snapshot, in the namespaces that the outer one is to draw from.

    Where the outer one draws from all, the inner one keeps to those of its own options.
    """
    given: dict[str, Any] = {"k": k, "seed": seed}
    if ask.options.namespace is not None:
        given["namespace"] = ask.options.namespace
    if ask.options.allow_short if short is None else short:
        given["allow_short"] = True
    if type(inner).sample is ToolSampler.sample:
        return inner.sample_from(ask.view, given, anchor)
    # A class that overrides `sample` whole sees the registry as it is now, and takes what options it takes.
    drawn = inner.sample(given.pop("k"), **given)
    return drawn if isinstance(drawn, Sample) else Sample(drawn, topology=inner.topology, seed=seed)


def places_of(ask: SampleRequest[Any], sample: Sample) -> list[int]:
    """Where the tools of a sample are in the snapshot; one that a sampler changed is where it came from."""
    places: list[int] = []
    for tool in sample:
        overloads = ask.world.named(tool.namespace, tool.name)
        exact = [place for place in overloads if ask.tools[place].fingerprint == tool.fingerprint]
        places += (exact or overloads)[:1]
    return places


Part = tuple[ToolSampler[Any], float]


class MixOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/mix` takes."""

    samplers: Any = ()
    """A list of `{sampler: {type: tc/chain, min_score: 0.7}, weight: 2}`. A bare name, a sampler, or a mapping with
    `type`, the options and perhaps `weight`, will do as well. A weight that is not given is 1."""
    fallback: bool = True
    """When the sampler that was chosen finds nothing, try the others."""


class MixSampler(ToolSampler[MixOptions]):
    """One of several samplers, chosen by weight. The sample is as that one draws it; `details` says which it was."""

    sampler_name = "tc/mix"
    topology = "mix"

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(registry, k=k, seed=seed, **options)
        self._parts = self._make_parts(self.options.samplers)

    def count(self, options: MixOptions, seed: int) -> int | None:
        """That of the sampler that is chosen, if nobody says more."""
        if options.k is not None:
            return options.k
        first: ToolSampler[Any] = self._order_samplers(options, seed)[0]
        known: int | None = first.options.k
        return known

    def draw(self, ask: SampleRequest[MixOptions]) -> Sample:
        """Choose, and draw."""
        failed: list[str] = []
        partial: list[Any] = []
        order = self._order_samplers(ask.options, ask.seed)
        for number, inner in enumerate(order if ask.options.fallback else order[:1]):
            try:
                seed = derive_seed(ask.seed, "inner", number)
                sample = draw_inner(ask, inner, ask.k, seed, anchor=ask.anchor, short=False)
            except SamplingError as error:
                failed.append(str(error))
                partial = max(partial, error.tools[: ask.k], key=len)
                continue
            return ask.pass_on(sample, sampler=inner.sampler_name or type(inner).__name__, failed=failed)
        return ask.sample(partial, reason="; ".join(failed))

    def _order_samplers(self, options: MixOptions, seed: int) -> list[ToolSampler[Any]]:
        """The samplers in the order in which to try them."""
        parts = self._parts if options.samplers == self.options.samplers else self._make_parts(options.samplers)
        heavy = [part for part in parts if part[1] > 0]
        return RandomStream(seed, self.sampler_name, "choice").by_weight(
            [inner for inner, _ in heavy], [weight for _, weight in heavy]
        )

    def _make_parts(self, given: Any) -> list[Part]:
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise SamplerOptionError(f"{self.sampler_name}: give `samplers`, a list of samplers and their weights")
        parts = [self._make_part(one) for one in given]
        if not any(weight > 0 for _, weight in parts):
            raise SamplerOptionError(f"{self.sampler_name}: every sampler has weight 0")
        return parts

    def _make_part(self, given: Any) -> Part:
        weight: Any = 1.0
        if isinstance(given, Mapping):
            weight = given.get("weight", 1.0)
            given = {name: value for name, value in given.items() if name != "weight"}
            if "sampler" in given and "type" not in given:
                extra = [name for name in given if name != "sampler"]
                if extra:
                    raise SamplerOptionError(
                        f"{self.sampler_name}: {extra[0]!r} stands beside `sampler`; put it inside, or use `type`"
                    )
                given = given["sampler"]
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (0 <= weight < math.inf):
            raise SamplerOptionError(f"{self.sampler_name}: a weight is a number of 0 or more, not {weight!r}")
        return inner_sampler(self.registry, given, self.sampler_name), float(weight)
