"""A picture as SVG: one file that any browser and any document takes."""

from __future__ import annotations

from collections.abc import Iterator

from toolyard.insight.graph.colours import PALETTE
from toolyard.insight.graph.labels import plain
from toolyard.insight.graph.picture import LETTERS, ROW, TITLE, Line, Picture
from toolyard.insight.graph.render import described, edge_of, render, summary

_HEAD = 70.0
_STEPS = 4
"""Opacities there are."""
_FEEDS = 4


def to_svg(picture: Picture, title: str = "Dataflow") -> str:
    """The picture, with a legend, and with a `<title>` on each tool and each edge that browsers show on hover."""
    used = sorted({box.colour for box in picture.boxes})
    return render(
        "graph.svg",
        title=plain(title),
        summary=summary(picture),
        picture=picture,
        width=max(round(picture.width), 660),
        height=round(picture.height + _HEAD),
        head=_HEAD,
        row=ROW,
        letters=LETTERS,
        title_height=TITLE,
        palette=[(place, PALETTE[place]) for place in used],
        lines=list(_lines(picture)),
        nodes=list(_nodes(picture)),
        steps=list(range(_STEPS)),
        scores=_scores(picture),
    )


def _lines(picture: Picture) -> Iterator[dict[str, object]]:
    for line in picture.lines:
        edge = edge_of(picture, line.source, line.target)
        told = [f"{edge.source} feeds {edge.target} ({line.score:.2f})"]
        told += [f"{feed.output} → {feed.parameter}" for feed in edge.feeds[:_FEEDS]]
        if len(edge.feeds) > _FEEDS:
            told.append(f"and {len(edge.feeds) - _FEEDS} more")
        box = picture.boxes[picture.nodes[line.source].box]
        path = _path(line)
        yield {"path": path, "colour": box.colour, "step": step_of(line.strength), "told": plain_lines(told)}


def _path(line: Line) -> str:
    points = [f"{point:g}" for point in line.points]
    x, y, back = line.points[-2], line.points[-1], -6 * line.heading
    curves = " ".join(points[2:])
    return f"M{points[0]} {points[1]}C{curves}M{x + back:g} {y - 3.5:g}L{x:g} {y:g}L{x + back:g} {y + 3.5:g}"


def step_of(strength: float) -> int:
    """Which of the opacities a line has."""
    return min(int(strength * _STEPS), _STEPS - 1)


def _nodes(picture: Picture) -> Iterator[tuple[object, str]]:
    for node in picture.nodes:
        tool = picture.dataflow.tools[node.place]
        told = [tool.qualified_name, *([described(tool)] if tool.description else [])]
        yield node, plain_lines(told)


def plain_lines(lines: list[str]) -> str:
    """Lines of a tooltip."""
    return "\n".join(map(plain, lines))


def _scores(picture: Picture) -> list[str]:
    """What the opacities in the legend stand for: the least score of each."""
    least: dict[int, float] = {}
    for line in picture.lines:
        least.setdefault(step_of(line.strength), line.score)
    if not least:
        return []
    digits = 2 if len({f"{score:.2f}" for score in least.values()} - {"1.00"}) == len(least) else 3
    return [f"from {least[step]:.{digits}f}" if step in least else "" for step in range(_STEPS)]
