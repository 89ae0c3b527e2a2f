"""The way of a line: beside the tools of its own namespace, and in one strand from namespace to namespace."""

from __future__ import annotations

from toolyard.insight.graph.picture import ROW, Box, Node

_CLEAR = 12.0
"""Less room than this between two tools, and the line goes round."""
_INSET = 14.0

Points = tuple[float, ...]


def route(source: Node, target: Node, boxes: tuple[Box, ...]) -> tuple[Points, int]:
    """The points of a line and the way it ends: 1 to the right, -1 to the left."""
    if source.box == target.box:
        return _inside(source, target)
    return _between(source, target, boxes[source.box], boxes[target.box])


def _inside(source: Node, target: Node) -> tuple[Points, int]:
    y1, y2 = source.y + ROW / 2, target.y + ROW / 2
    if target.x - source.x - source.width >= _CLEAR:
        x1, x2, side = source.x + source.width, target.x, 1
    elif source.x - target.x - target.width >= _CLEAR:
        x1, x2, side = source.x, target.x + target.width, -1
    else:
        x1, x2 = source.x + source.width, target.x + target.width
        bow = max(x1, x2) + min(12 + abs(y2 - y1) * 0.14, 46)
        return (x1, y1, bow, y1, bow, y2, x2, y2), -1
    bend = max(22.0, abs(x2 - x1) * 0.5)
    return (x1, y1, x1 + side * bend, y1, x2 - side * bend, y2, x2, y2), side


def _between(source: Node, target: Node, one: Box, other: Box) -> tuple[Points, int]:
    first, second, upright = _ports(one, other)
    y1, y2 = source.y + ROW / 2, target.y + ROW / 2
    out = 1 if first[0] >= source.x + source.width / 2 else -1
    into = 1 if second[0] <= target.x + target.width / 2 else -1
    x1 = source.x + (source.width if out == 1 else 0.0)
    x2 = target.x + (0.0 if into == 1 else target.width)
    points = [x1, y1]
    points += _leg((x1, y1), (out, 0), first, upright)
    points += _leg(first, upright, second, upright)
    points += _leg(second, upright, (x2, y2), (into, 0))
    return tuple(points), into


def _leg(
    start: tuple[float, float], leaving: tuple[int, int], end: tuple[float, float], arriving: tuple[int, int]
) -> Points:
    """One curve, by the directions at its ends."""
    bend = max(abs(end[0] - start[0]), abs(end[1] - start[1])) * 0.45
    return (
        start[0] + leaving[0] * bend,
        start[1] + leaving[1] * bend,
        end[0] - arriving[0] * bend,
        end[1] - arriving[1] * bend,
        *end,
    )


def _ports(one: Box, other: Box) -> tuple[tuple[float, float], tuple[float, float], tuple[int, int]]:
    """Where every line between two boxes leaves the one and enters the other, and in which direction."""
    across = max(other.x - one.x - one.width, one.x - other.x - other.width)
    down = max(other.y - one.y - one.height, one.y - other.y - other.height)
    if across >= down:
        y1, y2 = _facing((one.y, one.height), (other.y, other.height))
        if other.x > one.x:
            return (one.x + one.width, y1), (other.x, y2), (1, 0)
        return (one.x, y1), (other.x + other.width, y2), (-1, 0)
    x1, x2 = _facing((one.x, one.width), (other.x, other.width))
    if other.y > one.y:
        return (x1, one.y + one.height), (x2, other.y), (0, 1)
    return (x1, one.y), (x2, other.y + other.height), (0, -1)


def _facing(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Two places on facing sides, as near each other as can be."""
    low, high = max(one[0], other[0]) + _INSET, min(one[0] + one[1], other[0] + other[1]) - _INSET
    if low <= high:
        return (low + high) / 2, (low + high) / 2
    centre_one, centre_other = one[0] + one[1] / 2, other[0] + other[1] / 2
    return (
        min(max(centre_other, one[0] + _INSET), one[0] + one[1] - _INSET),
        min(max(centre_one, other[0] + _INSET), other[0] + other[1] - _INSET),
    )
