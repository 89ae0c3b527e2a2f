"""What the two renderers share: templates that escape everything, and sentences about tools and edges."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from toolyard.constants import VERSION
from toolyard.insight.graph.labels import plain
from toolyard.insight.graph.picture import Picture
from toolyard.insight.sample import Edge
from toolyard.model.tool import Tool

_DESCRIPTION = 300


def resource(folder: str, name: str) -> str:
    """The text of a file of this package."""
    return files("toolyard.insight.graph").joinpath(folder, name).read_text("utf-8")


def render(template: str, **values: Any) -> str:
    """A template filled in; whatever is not marked safe by this package is escaped."""
    return _environment().get_template(template).render(version=VERSION, **values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(lambda name: resource("templates", name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def described(tool: Tool) -> str:
    """The first paragraph of a description, not too long."""
    text = plain(" ".join(tool.description.strip().partition("\n\n")[0].split()))
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 1] + "…"


def edge_of(picture: Picture, source: int, target: int) -> Edge:
    """The edge between two nodes, with what it carries."""
    edge = picture.dataflow.edge(picture.nodes[source].place, picture.nodes[target].place)
    assert edge is not None
    return edge


def summary(picture: Picture) -> str:
    """One line about a picture."""
    total = picture.dataflow.edge_count
    parts = (
        f"{len(picture.nodes):,} {'tool' if len(picture.nodes) == 1 else 'tools'}",
        f"{len(picture.boxes):,} {'namespace' if len(picture.boxes) == 1 else 'namespaces'}",
        f"{len(picture.lines):,} of {total:,} edges, the strongest",
    )
    return ", ".join(parts)
