"""Randomness that repeats: a stream of its own for every seed and purpose, the same in every process and thread."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from random import Random
from typing import TypeVar

T = TypeVar("T")


def fresh_seed() -> int:
    """A seed that nobody has used."""
    return secrets.randbits(63)


def derive_seed(seed: int, *purpose: str | int) -> int:
    """The seed of one purpose under another seed; equal for equal words, 63 bits."""
    # Python refuses to write very long numbers in tens.
    start = str(seed) if -(1 << 128) < seed < 1 << 128 else hex(seed)
    text = "\x1f".join((start, *(str(word) for word in purpose)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class RandomStream:
    """A stream of random choices. It draws on `Random.random` alone, which no Python release changes."""

    def __init__(self, seed: int, *purpose: str | int) -> None:
        self._next = Random(derive_seed(seed, *purpose)).random  # noqa: S311 (it has to repeat)

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        return int(self._next() * count)

    def fraction(self) -> float:
        """A number from 0 up to, but not including, 1."""
        return self._next()

    def pick(self, items: Sequence[T]) -> T:
        """One of them, each as likely as the others."""
        return items[self.below(len(items))]

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """All of them in random order; those that are not asked for cost nothing."""
        moved: dict[int, int] = {}
        for place in range(len(items)):
            other = place + self.below(len(items) - place)
            yield items[moved.get(other, other)]
            moved[other] = moved.pop(place, place)

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """One of them, likelier the heavier it is."""
        point = self._next() * math.fsum(weights)
        for item, weight in zip(items, weights, strict=True):
            point -= weight
            if point < 0:
                return item
        return items[-1]

    def by_weight(self, items: Sequence[T], weights: Sequence[float]) -> list[T]:
        """All of them, as if drawn one after the other by weight, without putting any back."""
        keys = [-math.log(1.0 - self._next()) / max(weight, 1e-9) for weight in weights]
        return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]
