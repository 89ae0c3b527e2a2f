"""`ByteTable`: one of 256 values by one byte."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from toolyard.engines.simulator.draw import Draw

SIZE = 256
_NULLS = 32
_STRIDE = 157
_KEPT = 20_000


class ByteTable:
    """A maker of values that all are known beforehand. Rows are shared: there are far fewer than schemas."""

    __slots__ = ("row",)

    def __init__(self, values: Sequence[Any]) -> None:
        # 1, 1.0 and True are equal, but not the same.
        self.row = _table_of(tuple(values), tuple(map(type, values)))

    def __call__(self, draw: Draw) -> Any:
        """One of them."""
        return self.row[draw.byte()]


class NumberTable(ByteTable):
    """A maker of whole numbers from `low` to `high`, or of these parts of them; not of each if there are too many."""

    __slots__ = ()

    def __init__(self, low: int, high: int, step: int = 1, parts: int = 1) -> None:
        self.row = _table_of_numbers(low, high, step, parts)


def mix_examples(table: ByteTable, values: list[Any]) -> ByteTable:
    """One in two is one of these values."""
    half = SIZE // 2
    return ByteTable((*_spread_values(table.row, half), *_spread_values(values, half)))


def join_tables(tables: list[ByteTable], nulls: bool) -> ByteTable:
    """As if one of these were chosen first; one in eight is null, if there are nulls."""
    if not tables:
        return ByteTable((None,))
    room = SIZE - (_NULLS if nulls else 0)
    found = [value for table in tables for value in _spread_values(table.row, room // len(tables))]
    return ByteTable((*found, *[None] * (_NULLS if nulls else 0)))


def _spread_values(values: Sequence[Any], count: int) -> list[Any]:
    """So many, from the whole of them; again from their beginning if there are fewer."""
    size = len(values)
    if size <= count:
        return [values[at % size] for at in range(count)]
    return [values[at * size // count] for at in range(count)]


@lru_cache(maxsize=_KEPT)
def _table_of(values: tuple[Any, ...], kinds: tuple[type, ...]) -> tuple[Any, ...]:
    return _shuffle_values(_spread_values(values, SIZE))


@lru_cache(maxsize=_KEPT)
def _table_of_numbers(low: int, high: int, step: int, parts: int) -> tuple[Any, ...]:
    found = _spread_values(range(low, high + 1), SIZE)
    return _shuffle_values([number * step for number in found] if parts == 1 else [number / parts for number in found])


def _shuffle_values(values: list[Any]) -> tuple[Any, ...]:
    """In an order in which every part of it is like the whole."""
    return tuple([values[at * _STRIDE % SIZE] for at in range(SIZE)])
