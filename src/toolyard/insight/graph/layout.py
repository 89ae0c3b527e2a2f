"""From a dataflow to a picture. The same dataflow always gives the same one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from toolyard.insight.dataflow.artifact import Array, Dataflow
from toolyard.insight.graph.choose import Chosen, Wanted, choose
from toolyard.insight.graph.colours import PALETTE
from toolyard.insight.graph.columns import columns_of
from toolyard.insight.graph.groups import groups_of
from toolyard.insight.graph.labels import cells, fitted, plain, shared
from toolyard.insight.graph.pack import pack
from toolyard.insight.graph.picture import CHAR, ROW, TITLE, Box, Line, Node, Picture
from toolyard.insight.graph.routes import route

_LABEL = 28
"""Cells of a name."""
_PAD = 14.0
_ROW_GAP = 6.0
_COLUMN_GAP = 68.0
_BOX_GAP = 44.0
_GROUP_GAP = 40.0
_TEXT_PAD = 9.0
_HEAD_CHAR = 7.6


class _Block(msgspec.Struct, frozen=True):
    """A namespace before it has its place: its tools as if it stood at the origin."""

    namespace: str
    title: str
    width: float
    height: float
    nodes: tuple[Node, ...]


def lay_out(dataflow: Dataflow, wanted: Wanted | None = None) -> Picture:
    """The picture of a dataflow."""
    chosen = choose(dataflow, wanted or Wanted())
    spaces: dict[str, list[int]] = {}
    for place in chosen.places.tolist():
        spaces.setdefault(dataflow.tools[place].namespace, []).append(place)
    labels = _labels(dataflow, spaces)
    owners = np.full(len(dataflow.tools), -1)
    for box, places in enumerate(spaces.values()):
        owners[places] = box
    parts = _by_owner(owners, chosen, len(spaces))
    blocks = [
        _block(box, namespace, places, chosen, parts[box], labels)
        for box, (namespace, places) in enumerate(spaces.items())
    ]
    ties = Counter[tuple[int, int]]()
    for one, other in zip(owners[chosen.sources].tolist(), owners[chosen.targets].tolist(), strict=True):
        if one != other:
            ties[min(one, other), max(one, other)] += 1
    corners = pack([(block.width, block.height) for block in blocks], ties, _BOX_GAP)
    boxes = tuple(
        Box(block.namespace, block.title, x + _BOX_GAP / 2, y + _BOX_GAP / 2, block.width, block.height, colour)
        for (block, (x, y), colour) in zip(blocks, corners, _colours(spaces), strict=True)
    )
    nodes = tuple(
        msgspec.structs.replace(node, x=round(node.x + box.x, 1), y=round(node.y + box.y, 1))
        for box, block in zip(boxes, blocks, strict=True)
        for node in block.nodes
    )
    width = max((box.x + box.width for box in boxes), default=320.0) + _BOX_GAP / 2
    height = max((box.y + box.height for box in boxes), default=120.0) + _BOX_GAP / 2
    return Picture(dataflow, width, height, boxes, nodes, _lines(chosen, nodes, boxes))


def _colours(spaces: dict[str, list[int]]) -> list[int]:
    """In the order of their names, so that the order of loading changes no colour."""
    order = {namespace: place for place, namespace in enumerate(sorted(spaces))}
    return [order[namespace] % len(PALETTE) for namespace in spaces]


def _labels(dataflow: Dataflow, spaces: dict[str, list[int]]) -> dict[int, str]:
    """One for each tool, without what all names of its namespace begin with; overloads are numbered."""
    labels: dict[int, str] = {}
    for places in spaces.values():
        seen = Counter[str]()
        names = [plain(dataflow.tools[place].name) for place in places]
        begin = shared(names)
        for place, name in zip(places, names, strict=True):
            seen[name] += 1
            suffix = f" ({seen[name]})" if seen[name] > 1 else ""
            short = "…" + name[begin:] if begin else name
            labels[place] = fitted(short, _LABEL - len(suffix)) + suffix
    return labels


def _by_owner(owners: Array, chosen: Chosen, count: int) -> list[Array]:
    """The edges inside each namespace, by their numbers."""
    inside = np.where(owners[chosen.sources] == owners[chosen.targets], owners[chosen.sources], count)
    order = np.argsort(inside, kind="stable")
    bounds = np.searchsorted(inside[order], np.arange(count + 1))
    return [order[bounds[box] : bounds[box + 1]] for box in range(count)]


def _block(
    box: int, namespace: str, places: Sequence[int], chosen: Chosen, edges: Array, labels: Mapping[int, str]
) -> _Block:
    """A namespace: its groups side by side, each in columns."""
    known = np.asarray(places)
    sources, targets = (np.searchsorted(known, ends[edges]) for ends in (chosen.sources, chosen.targets))
    weights = chosen.scores[edges]
    groups = groups_of(len(places), sources, targets, weights)
    owners = np.empty(len(places), np.int64)
    for number, group in enumerate(groups):
        owners[group] = number
    ends = np.array([owners[sources], owners[targets]])
    inside = [np.flatnonzero((ends == number).all(axis=0)) for number in range(len(groups))]
    grids = []
    for group, part in zip(groups, inside, strict=True):
        at = np.searchsorted(group, sources[part]), np.searchsorted(group, targets[part])
        columns = columns_of(len(group), *at, weights[part])
        grids.append(_grid(box, [[places[group[one]] for one in column] for column in columns], labels))
    ties = Counter((min(pair), max(pair)) for pair in zip(*ends.tolist(), strict=True) if pair[0] != pair[1])
    corners = pack([(width, height) for width, height, _ in grids], ties, _GROUP_GAP)
    nodes = tuple(
        msgspec.structs.replace(node, x=node.x + x + _PAD, y=node.y + y + TITLE)
        for (x, y), (_, _, grid) in zip(corners, grids, strict=True)
        for node in grid
    )
    # Lines between tools of the last column go round on its right.
    width = max(node.x + node.width for node in nodes) + _PAD + (18.0 if len(edges) else 0.0)
    height = max(node.y for node in nodes) + ROW + _PAD
    name = plain(namespace)
    width = round(max(width, min(cells(name), 30) * _HEAD_CHAR + 2 * _PAD), 1)
    title = fitted(name, max(4, int((width - 2 * _PAD) / _HEAD_CHAR)))
    return _Block(namespace, title, width, round(height, 1), nodes)


def _grid(
    box: int, columns: Sequence[Sequence[int]], labels: Mapping[int, str]
) -> tuple[float, float, tuple[Node, ...]]:
    """Columns of tools, the shorter ones in the middle: width, height, and the tools."""
    rows = max(len(column) for column in columns)
    nodes: list[Node] = []
    x = 0.0
    for column in columns:
        width = round(max(cells(labels[place]) for place in column) * CHAR + 2 * _TEXT_PAD, 1)
        y = (rows - len(column)) * (ROW + _ROW_GAP) / 2
        for place in column:
            nodes.append(Node(place, box, labels[place], x, y, width))
            y += ROW + _ROW_GAP
        x += width + _COLUMN_GAP
    return x - _COLUMN_GAP, rows * (ROW + _ROW_GAP) - _ROW_GAP, tuple(nodes)


def _lines(chosen: Chosen, nodes: Sequence[Node], boxes: tuple[Box, ...]) -> tuple[Line, ...]:
    numbers = {node.place: number for number, node in enumerate(nodes)}
    lines = []
    ends = (chosen.sources, chosen.targets, chosen.scores, _strengths(chosen.scores))
    for source, target, score, strength in zip(*(part[::-1].tolist() for part in ends), strict=True):
        one, other = numbers[source], numbers[target]
        points, heading = route(nodes[one], nodes[other], boxes)
        lines.append(Line(one, other, score, strength, tuple(round(point, 1) for point in points), heading))
    return tuple(lines)


def _strengths(scores: Array) -> Array:
    """The share of edges that are weaker: scores crowd, and a picture shall still tell the strong from the weak."""
    if not len(scores) or scores[0] == scores[-1]:
        return np.ones(len(scores))
    ranks = np.searchsorted(scores[::-1], scores)
    return ranks / max(int(ranks.max()), 1)
