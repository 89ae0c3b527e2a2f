"""The tools of one namespace in columns: what feeds on the left, what is fed on the right."""

from __future__ import annotations

import math

import numpy as np

from toolyard.insight.dataflow.artifact import Array

_ROUNDS = 80
_SWEEPS = 12
_FLAT = 7.0
"""How many rows there are for each column: columns are wide, rows are low, and boxes shall be broad."""
_STRAY = 0.3


def levels(count: int, sources: Array, targets: Array, weights: Array) -> Array:
    """How far down the flow each tool is: on average one more than what feeds it. Cycles settle in the middle."""
    degree = np.bincount(sources, weights, count) + np.bincount(targets, weights, count)
    degree[degree == 0] = 1.0
    level = np.zeros(count)
    for _ in range(_ROUNDS):
        pushed = np.bincount(targets, weights * (level[sources] + 1), count)
        pulled = np.bincount(sources, weights * (level[targets] - 1), count)
        level = (level + (pushed + pulled) / degree) / 2
    return level


def columns_of(count: int, sources: Array, targets: Array, weights: Array) -> list[list[int]]:
    """The columns, left to right, each from top to bottom. In each, tools without an edge come last."""
    touched = np.zeros(count, np.bool_)
    touched[sources] = touched[targets] = True
    wide = max(math.ceil(count / max(1.0, math.sqrt(count * _FLAT))), 2 if len(sources) else 1)
    rows = math.ceil(count / wide)
    level = np.round(levels(count, sources, targets, weights), 6)
    linked, alone = np.flatnonzero(touched), np.flatnonzero(~touched)
    columns = _cut(linked[np.argsort(level[linked], kind="stable")], level, wide, rows)
    height = np.zeros(count)
    for column in columns:
        height[column] = _spread(len(column), rows)
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wish = _wishes(count, sources, targets, weights, height)[column]
            column[:] = column[np.lexsort((height[column], wish))]
            height[column] = _spread(len(column), rows)
    return _filled([column.tolist() for column in columns], alone.tolist(), rows)


def _cut(order: Array, level: Array, wide: int, rows: int) -> list[Array]:
    """The order in columns of about one size: each cut is where the level rises most, not far from the even one."""
    count = len(order)
    even, cuts = count / wide, [0]
    for number in range(1, wide):
        # A column takes `rows` at most, and what is left must fit in the columns that are left.
        least, most = max(cuts[-1], count - rows * (wide - number)), min(cuts[-1] + rows, count)
        low = max(least, math.ceil(number * even - even * _STRAY))
        high = min(most, math.floor(number * even + even * _STRAY))
        nearest = min(max(round(number * even), least), most)
        inner = [at for at in range(low, high + 1) if 0 < at < count]
        rises = [(level[order[at]] - level[order[at - 1]], -abs(at - number * even), at) for at in inner]
        cuts.append(max(rises)[2] if rises else nearest)
    return [order[start:end].copy() for start, end in zip(cuts, [*cuts[1:], len(order)], strict=True)]


def _filled(columns: list[list[int]], rest: list[int], rows: int) -> list[list[int]]:
    """The columns with the rest below, each up to the same height."""
    used = 0
    for column in columns:
        room = rows - len(column)
        column.extend(rest[used : used + room])
        used += room
    return [column for column in columns if column]


def _spread(count: int, rows: int) -> Array:
    """Rows of a column; a short one stands in the middle of the others."""
    return np.arange(count) + (rows - count) / 2


def _wishes(count: int, sources: Array, targets: Array, weights: Array, height: Array) -> Array:
    """The mean height of what each tool is tied to; its own height if that is nothing."""
    ties = np.bincount(sources, weights, count) + np.bincount(targets, weights, count)
    pull = np.bincount(sources, weights * height[targets], count) + np.bincount(
        targets, weights * height[sources], count
    )
    return np.where(ties > 0, pull / np.where(ties > 0, ties, 1.0), height)
