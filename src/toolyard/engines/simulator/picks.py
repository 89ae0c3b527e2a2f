"""`Pick`: one of 256 values by one byte, so that many can be had at once without a call for each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from toolyard.engines.simulator.draw import Draw

SIZE = 256
_NULLS = 32
_STRIDE = 157
_KEPT = 20_000


class Pick:
    """A maker of values that all are known beforehand. Rows are shared: there are far fewer than schemas."""

    __slots__ = ("row",)

    def __init__(self, values: Sequence[Any]) -> None:
        # 1, 1.0 and True are equal, but not the same.
        self.row = _row(tuple(values), tuple(map(type, values)))

    def __call__(self, draw: Draw) -> Any:
        """One of them."""
        return self.row[draw.byte()]


class Numbers(Pick):
    """A maker of whole numbers from `low` to `high`, or of these parts of them; not of each if there are too many."""

    __slots__ = ()

    def __init__(self, low: int, high: int, step: int = 1, parts: int = 1) -> None:
        self.row = _numbers(low, high, step, parts)


def with_examples(pick: Pick, values: list[Any]) -> Pick:
    """One in two is one of these values."""
    half = SIZE // 2
    return Pick((*_some(pick.row, half), *_some(values, half)))


def joined(picks: list[Pick], nulls: bool) -> Pick:
    """As if one of these were chosen first; one in eight is null, if there are nulls."""
    if not picks:
        return Pick((None,))
    room = SIZE - (_NULLS if nulls else 0)
    found = [value for pick in picks for value in _some(pick.row, room // len(picks))]
    return Pick((*found, *[None] * (_NULLS if nulls else 0)))


def _some(values: Sequence[Any], count: int) -> list[Any]:
    """So many, from the whole of them; again from their beginning if there are fewer."""
    size = len(values)
    if size <= count:
        return [values[at % size] for at in range(count)]
    return [values[at * size // count] for at in range(count)]


@lru_cache(maxsize=_KEPT)
def _row(values: tuple[Any, ...], kinds: tuple[type, ...]) -> tuple[Any, ...]:
    return _shuffled(_some(values, SIZE))


@lru_cache(maxsize=_KEPT)
def _numbers(low: int, high: int, step: int, parts: int) -> tuple[Any, ...]:
    found = _some(range(low, high + 1), SIZE)
    return _shuffled([number * step for number in found] if parts == 1 else [number / parts for number in found])


def _shuffled(values: list[Any]) -> tuple[Any, ...]:
    """In an order in which every part of it is like the whole."""
    return tuple([values[at * _STRIDE % SIZE] for at in range(SIZE)])
