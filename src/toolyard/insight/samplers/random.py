"""`tc/random`: tools drawn by chance."""

from __future__ import annotations

from typing import ClassVar

from toolyard.insight.sample import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, ToolSampler
from toolyard.insight.samplers.rng import RandomStream
from toolyard.insight.samplers.shares import Strategy, share_slots, shares_of


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
    options_type: ClassVar[type[RandomOptions]] = RandomOptions

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
