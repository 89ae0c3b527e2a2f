"""A definition with one required parameter less, and what that leaves of the edges to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from toolyard.insight.base import Edge, Feed
from toolyard.insight.dataflow.paths import fields_of, needed_of
from toolyard.model.names import IN_PLACE
from toolyard.model.tool import Tool

_TOGETHER = IN_PLACE | {"dependentRequired", "minProperties", "maxProperties"}
"""Keywords by which one parameter may depend on another."""


def required_parameters(tool: Tool) -> list[str]:
    """The names of the parameters that a call must give, in the order of the definition."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    return [name for name in properties if name in required]


def can_lose(tool: Tool) -> bool:
    """Whether a parameter can be taken out: nothing but `properties` and `required` speaks of it."""
    return _TOGETHER.isdisjoint(tool.parameters)


def without_parameter(tool: Tool, name: str) -> Tool:
    """A copy of the tool with one required parameter less."""
    properties = {key: part for key, part in tool.parameters["properties"].items() if key != name}
    required = [key for key in tool.parameters["required"] if key != name]
    left = {**tool.parameters, "properties": properties, "required": required}
    if not required:
        del left["required"]
    return tool.replace(parameters=left)


def is_of(name: str, overload: str, tool: Tool) -> bool:
    """Whether an end of an edge is that tool."""
    return name == tool.qualified_name and overload in ("", tool.fingerprint)


def feeds_parameter(feed: Feed, tool: Tool, parameter: str) -> bool:
    """Whether a feed gives that parameter of the tool, or something in it.

    A name may have dots itself, so a path belongs to the longest name that it begins with.
    """
    owners = [name for name in tool.parameters["properties"] if _begins_with(feed.parameter, name)]
    return max(owners, key=len, default=None) == parameter


def _begins_with(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}[]"))


def edges_without(edges: Sequence[Edge], tool: Tool, parameter: str, left: Tool) -> Iterator[Edge]:
    """What is true of these edges now that `left` stands for `tool`: without those that fed nothing else."""
    must = _list_required(left)
    for edge in edges:
        if edge.source_overload == tool.fingerprint and edge.source == tool.qualified_name:
            edge = msgspec.structs.replace(edge, source_overload=left.fingerprint)
        if not is_of(edge.target, edge.target_overload, tool):
            yield edge
            continue
        feeds = tuple(feed for feed in edge.feeds if not feeds_parameter(feed, tool, parameter))
        if edge.feeds and not feeds:
            continue
        yield msgspec.structs.replace(
            edge,
            feeds=feeds,
            # Best first: an edge is as strong as the best of its feeds.
            score=edge.score if feeds[:1] == edge.feeds[:1] else feeds[0].score,
            covers_required=bool(must) and must <= {feed.parameter for feed in feeds},
            target_overload=edge.target_overload and left.fingerprint,
        )


def _list_required(tool: Tool) -> frozenset[str]:
    """Paths that a call must have, as dataflow counts them."""
    return needed_of(field.path for field in fields_of(tool.parameters).found if field.required)
