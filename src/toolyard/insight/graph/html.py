"""A picture as one HTML file: zoom, search, filters. It asks for nothing from anywhere.

What comes from tools is data: JSON in a block that browsers do not run, shown as text. The policy of the page allows
the one script and the one style sheet of this package, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
from markupsafe import Markup

from toolyard.insight.graph.colours import PALETTE
from toolyard.insight.graph.labels import plain
from toolyard.insight.graph.picture import LETTERS, ROW, TITLE, Line, Picture
from toolyard.insight.graph.render import described, edge_of, render, resource, summary

_FEEDS = 6
"""Feeds of an edge that are written down."""


def to_html(picture: Picture, title: str = "Dataflow") -> str:
    """The page."""
    style, script = resource("static", "graph.css"), resource("static", "graph.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return render(
        "graph.html",
        title=plain(title),
        summary=summary(picture),
        policy=policy,
        style=Markup(style),  # noqa: S704 (a file of this package)
        script=Markup(script),  # noqa: S704 (a file of this package)
        data=_as_data(_data(picture)),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _as_data(value: Any) -> Markup:
    """JSON in which no markup can begin or end."""
    text = msgspec.json.encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704 (nothing in it is markup any more)


def _data(picture: Picture) -> dict[str, Any]:
    words: dict[str, int] = {}
    return {
        "width": picture.width,
        "height": picture.height,
        "row": ROW,
        "letters": LETTERS,
        "title": TITLE,
        "palette": PALETTE,
        "boxes": [
            {
                "name": plain(box.namespace),
                "title": box.title,
                "at": [box.x, box.y, box.width, box.height],
                "colour": box.colour,
            }
            for box in picture.boxes
        ],
        "nodes": [_node(picture, number) for number in range(len(picture.nodes))],
        "lines": [_line(picture, line, words) for line in picture.lines],
        "words": list(words),
    }


def _node(picture: Picture, number: int) -> list[Any]:
    node = picture.nodes[number]
    tool = picture.dataflow.tools[node.place]
    return [node.label, plain(tool.name), node.box, node.x, node.y, node.width, described(tool)]


def _line(picture: Picture, line: Line, words: dict[str, int]) -> list[Any]:
    edge = edge_of(picture, line.source, line.target)
    feeds = [
        [
            words.setdefault(plain(feed.output), len(words)),
            words.setdefault(plain(feed.parameter), len(words)),
            feed.how,
        ]
        for feed in edge.feeds[:_FEEDS]
    ]
    more = max(len(edge.feeds) - _FEEDS, 0)
    points = [round(point) for point in line.points]
    score, strength = round(line.score, 3), round(line.strength, 2)
    return [line.source, line.target, score, strength, points, line.heading, int(edge.covers_required), feeds, more]
