"""`tc/random`: tools drawn at random; and the shares of namespaces in a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import RandomStream, SampleRequest, SamplerOptions, ToolSampler

Strategy = Literal["proportional", "uniform"]


def compute_shares(
    ask: SampleRequest[Any], weights: Mapping[str, float] | None, strategy: Strategy
) -> dict[str, float]:
    """Compute the share of each namespace; the shares sum to 1.

    A given weight is a share of the whole: with `{"a": 0.8}` and one other namespace, the other gets 0.2. What the
    given weights leave is split among the rest, evenly or by their number of tools. If they leave nothing, they are
    normalised, and the rest get nothing.
    """
    given = dict(weights or {})
    for namespace, weight in given.items():
        if namespace not in ask.spaces:
            ask.check_namespace(namespace)
        if not (math.isfinite(weight) and weight >= 0):
            raise ask.refusal(f"the weight of the namespace {namespace!r} must be 0 or more, not {weight}")
    counts = {space: len(ask.snapshot.spaces[space]) for space in ask.spaces}
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
    """Compute how many tools each namespace contributes, `count` in all or as many as there are.

    Each contributes its share of `count`, rounded up or down at random so that the expected number is exact. Namespaces
    with too few tools are made up for by the others.
    """
    taken = dict.fromkeys(shares, 0)
    open_to = [space for space in shares if shares[space] > 0 and sizes[space] > 0]
    while open_to and count > 0:
        numbers = _round_shares(chance, [shares[space] for space in open_to], count)
        for space, number in zip(open_to, numbers, strict=True):
            number = min(number, sizes[space] - taken[space])
            taken[space] += number
            count -= number
        open_to = [space for space in open_to if taken[space] < sizes[space]]
    return taken


def _round_shares(chance: RandomStream, weights: Sequence[float], count: int) -> list[int]:
    """Split `count` by weight, by systematic sampling: equidistant marks, from a random start, in random order."""
    order = list(chance.each(range(len(weights))))
    total = math.fsum(weights)
    numbers = [0] * len(weights)
    start, passed, last = chance.fraction(), 0.0, 0
    for position, place in enumerate(order):
        passed += weights[place] / total * count
        # The last part ends at `count` exactly, regardless of rounding errors.
        marks = count if position == len(order) - 1 else min(count, max(last, math.ceil(passed - start)))
        numbers[place] = marks - last
        last = marks
    return numbers


class RandomOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/random`."""

    namespace_weights: dict[str, float] | None = None
    """Namespace -> its share of the sample; the others share the rest."""
    strategy: Strategy = "proportional"
    """How the others share it: by their number of tools, or evenly ("uniform")."""


class RandomSampler(ToolSampler[RandomOptions]):
    """Any tools, in random order. Overloads are used only if there are not enough names."""

    sampler_name = "tc/random"
    topology = "set"

    def draw(self, ask: SampleRequest[RandomOptions]) -> Sample:
        """Divide the sample among namespaces, then draw from each."""
        shares = compute_shares(ask, ask.options.namespace_weights, ask.options.strategy)
        first = ask.anchor
        sizes = {space: len(ask.snapshot.spaces[space]) for space in ask.spaces}
        numbers = share_slots(ask.chance("namespaces"), shares, sizes, ask.k)
        if first is not None:
            space = ask.tools[first].namespace
            if numbers[space] == 0:
                numbers[max(numbers, key=lambda other: numbers[other])] -= 1
                numbers[space] = 1
        found: list[int] = []
        for space, number in numbers.items():
            if number:
                pool = ask.snapshot.spaces[space]
                found += draw_distinct(ask.chance("tools", space), pool, number, ask.snapshot.name_ids, first)
        excluded = [space for space, share in shares.items() if share == 0]
        reason = f"the namespaces {', '.join(map(repr, excluded))} have weight 0" if excluded else "there are no more"
        return ask.sample(list(ask.chance("order").each(found)), reason=reason, roles=["tool"] * len(found))


def draw_distinct(
    chance: RandomStream, pool: tuple[int, ...], number: int, name_ids: list[int], first: int | None = None
) -> list[int]:
    """Draw `number` indexes, several overloads of a name only if there are not enough names."""
    chosen: list[int] = []
    repeated: list[int] = []
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
            repeated.append(place)
    return chosen + repeated[: number - len(chosen)]
