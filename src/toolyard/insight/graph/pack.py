"""Boxes in a rectangle: none overlaps, and those with much in common are near each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_BROAD = 1.6
"""How much wider than high the whole shall be."""
_SLACKS = (1.12, 1.0, 1.05, 1.2, 1.3, 1.45)
"""How much more room than the boxes fill; the one that gives the smallest page is taken."""
_FEW = 400
_PULL = 0.25
"""How much nearness counts, against height."""

Sizes = Sequence[tuple[float, float]]
Corner = tuple[float, float]


def pack(sizes: Sizes, ties: Mapping[tuple[int, int], float], gap: float) -> list[Corner]:
    """The upper left corner of each box, the largest placed first. `ties` says how much two boxes belong together."""
    grown = [(width + gap, height + gap) for width, height in sizes]
    near: dict[int, list[tuple[int, float]]] = {}
    for (one, other), weight in ties.items():
        near.setdefault(one, []).append((other, weight))
        near.setdefault(other, []).append((one, weight))
    area, widest = sum(width * height for width, height in grown), max([0.0, *(width for width, _ in grown)])
    slacks = _SLACKS if len(sizes) <= _FEW else _SLACKS[:1]
    tried = [_packed(grown, near, max(math.sqrt(area * slack * _BROAD), widest)) for slack in slacks]
    return min(tried, key=lambda corners: _spent(grown, corners))


def _spent(sizes: Sizes, corners: Sequence[Corner]) -> float:
    """The area of the page of the wished shape that holds it all."""
    width = max((x + size[0] for (x, _), size in zip(corners, sizes, strict=True)), default=0.0)
    height = max((y + size[1] for (_, y), size in zip(corners, sizes, strict=True)), default=0.0)
    return max(width / _BROAD, height) ** 2


def _packed(sizes: Sizes, near: Mapping[int, Sequence[tuple[int, float]]], span: float) -> list[Corner]:
    """Each box on the line that the boxes above it make, where it is high up and near its like."""
    corners: dict[int, Corner] = {}
    line = [(0.0, 0.0)]
    for box in sorted(range(len(sizes)), key=lambda box: (-sizes[box][1], -sizes[box][0], box)):
        width, height = sizes[box]
        wish = _wish(near.get(box, []), sizes, corners)
        spots = [(x, _rest(line, x, width)) for x in _starts(line, width, span)]
        costs = [(_cost(spot, sizes[box], wish), spot) for spot in spots]
        x, y = corners[box] = min(costs)[1]
        line = _raised(line, x, width, y + height)
    return [corners[box] for box in range(len(sizes))]


def _starts(line: Sequence[tuple[float, float]], width: float, span: float) -> list[float]:
    """Where a box may begin: at each step of the line that the tops make, or ending at one."""
    steps = [x for x, _ in line]
    found = {0.0, *steps, *(x - width for x in steps[1:]), span - width}
    return sorted(x for x in found if 0 <= x <= span - width + 1e-6)


def _rest(line: Sequence[tuple[float, float]], x: float, width: float) -> float:
    """How low a box can stand there."""
    ends = [start for start, _ in line[1:]] + [math.inf]
    return max(y for (start, y), end in zip(line, ends, strict=True) if start < x + width - 1e-6 and end > x + 1e-6)


def _raised(line: Sequence[tuple[float, float]], x: float, width: float, y: float) -> list[tuple[float, float]]:
    end = x + width
    after = max(step for step in line if step[0] <= end + 1e-6)
    kept = [step for step in line if step[0] < x - 1e-6]
    rest = [step for step in line if step[0] > end + 1e-6]
    return [*kept, (x, y), (end, after[1]), *rest]


def _wish(near: Sequence[tuple[int, float]], sizes: Sizes, corners: Mapping[int, Corner]) -> tuple[float, float] | None:
    """The middle of the placed boxes that a box has something in common with."""
    placed = [(other, weight) for other, weight in near if other in corners]
    if not placed:
        return None
    total = sum(weight for _, weight in placed)
    return (
        sum((corners[other][0] + sizes[other][0] / 2) * weight for other, weight in placed) / total,
        sum((corners[other][1] + sizes[other][1] / 2) * weight for other, weight in placed) / total,
    )


def _cost(at: tuple[float, float], size: tuple[float, float], wish: tuple[float, float] | None) -> float:
    top = at[1] + size[1]
    if wish is None:
        return top
    return top + _PULL * math.hypot(at[0] + size[0] / 2 - wish[0], at[1] + size[1] / 2 - wish[1])
