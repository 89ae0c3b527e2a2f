"""`Picture`: where everything is drawn. Made by `lay_out`; the renderers only write it down."""

from __future__ import annotations

import msgspec

from toolyard.insight.dataflow.artifact import Dataflow

ROW = 22.0
"""Height of a tool."""
CHAR = 6.7
"""Width of a character, at most, in the monospaced letters that tools are named in."""
LETTERS = 11
TITLE = 30.0
"""Height of the head of a namespace."""


class Box(msgspec.Struct, frozen=True):
    """A namespace."""

    namespace: str
    title: str
    x: float
    y: float
    width: float
    height: float
    colour: int
    """A place in `PALETTE`."""


class Node(msgspec.Struct, frozen=True):
    """A tool."""

    place: int
    """Its place in the dataflow."""
    box: int
    label: str
    x: float
    y: float
    width: float


class Line(msgspec.Struct, frozen=True):
    """An edge: a start, then three points for each of its curves. Both its ends are horizontal."""

    source: int
    """A place in `Picture.nodes`."""
    target: int
    score: float
    strength: float
    """From 0 for the weakest that is drawn to 1 for the strongest."""
    points: tuple[float, ...]
    heading: int
    """1 if it ends to the right, -1 if it ends to the left."""


class Picture(msgspec.Struct, frozen=True):
    """Namespaces as boxes, in each its tools in columns, and lines between them."""

    dataflow: Dataflow
    width: float
    height: float
    boxes: tuple[Box, ...]
    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    """Weakest first, so that the strongest are on top."""
