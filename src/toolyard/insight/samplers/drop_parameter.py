"""A definition with one required parameter less, and what that leaves of the edges to it.

The rule for every keyword: what was good with the parameter is good without it. Every good call had it, so whatever
asks for its presence (`required: [it]`, `if: {required: [it]}`) holds from now on, and whatever depends on its value
(`properties: {it: {const: a}}`) might hold or not. Where the two cannot be told apart, more is accepted, never less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from toolyard.insight.base import Edge, Feed
from toolyard.insight.dataflow.paths import fields_of, needed_of
from toolyard.model.tool import Tool
from toolyard.schema.subschemas import resolve_pointer

_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
_MOST_REFERENCES = 32
"""References, each behind the other, that are followed."""


def required_parameters(tool: Tool) -> list[str]:
    """The names of the parameters that a call must give, in the order of the definition."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    return [name for name in properties if name in required]


def without_parameter(tool: Tool, name: str) -> Tool:
    """A copy of the tool with one required parameter less, and nothing left that asks for it."""
    left = _Cut(tool.parameters, name).cut(tool.parameters)
    left.setdefault("properties", {})
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


def _is_open(schema: Any) -> bool:
    """Whether a schema asks for nothing."""
    return schema is True or schema == {}


class _Cut:
    """Takes a name out of a schema and out of the subschemas that judge the same object. It changes copies only."""

    def __init__(self, root: dict[str, Any], name: str) -> None:
        self._root = root
        self._name = name
        self._following: list[str] = []

    def cut(self, schema: Any) -> Any:
        """A schema without the name."""
        if not isinstance(schema, dict):
            return schema
        made = dict(schema)
        self._cut_own(made)
        self._cut_unions(made)
        self._cut_condition(made)
        if "not" in made:
            self._cut_negation(made)
        if isinstance(made.get("$ref"), str):
            self._cut_reference(made)
        self._cut_dependencies(made)
        return made

    def _cut_own(self, made: dict[str, Any]) -> None:
        for key in ("required", "properties"):
            value = made.get(key)
            if isinstance(value, list | dict) and self._name in value:
                made[key] = _remove_name(value, self._name)
                if not made[key]:
                    del made[key]
        for key in ("minProperties", "maxProperties"):
            # It was one of those that are counted.
            if isinstance(made.get(key), int):
                made[key] = max(0, made[key] - 1)

    def _cut_dependencies(self, made: dict[str, Any]) -> None:
        """What depended on its presence holds for good; that it depended on others is nothing any more."""
        for key in _DEPENDENT:
            if not isinstance(made.get(key), dict):
                continue
            cut = {
                other: _remove_name(wanted, self._name) if isinstance(wanted, list) else self.cut(wanted)
                for other, wanted in made[key].items()
            }
            always = cut.pop(self._name, None)
            if isinstance(always, list):
                known = made.get("required", [])
                made["required"] = [*known, *(other for other in always if other not in known)]
            elif always is not None and not _is_open(always):
                _add_branches(made, "allOf", [always])
            made[key] = {other: wanted for other, wanted in cut.items() if wanted != [] and not _is_open(wanted)}
            if not made[key]:
                del made[key]

    def _cut_unions(self, made: dict[str, Any]) -> None:
        for key in ("allOf", "anyOf", "oneOf"):
            branches = made.get(key)
            if not isinstance(branches, list):
                continue
            cut = [self.cut(branch) for branch in branches]
            if cut == branches:
                continue
            del made[key]
            if key == "allOf":
                cut = [branch for branch in cut if not _is_open(branch)]
            elif all(map(_is_open, cut)):
                cut = []
            # A branch of `anyOf` or `oneOf` that is left empty stays, as one that always holds: without it, a call
            # that was good for the sake of the parameter would have to be good for the sake of another branch.
            if key == "oneOf" and any(map(self._mentions_name, branches)):
                # The value said which branch it was. Now more than one may hold, and that must do.
                key = "anyOf"
            if cut:
                _add_branches(made, key, cut)

    def _cut_condition(self, made: dict[str, Any]) -> None:
        for key in ("then", "else"):
            if key in made:
                made[key] = self.cut(made[key])
                if _is_open(made[key]):
                    del made[key]
        if "if" not in made:
            return
        if self._mentions_name(made["if"]):
            # The value said which of the two holds. Now either will do.
            del made["if"]
            ways = [made.pop("then", {}), made.pop("else", {})]
            if not all(map(_is_open, ways)):
                _add_branches(made, "anyOf", ways)
        elif "then" in made or "else" in made:
            made["if"] = self.cut(made["if"])
        else:
            del made["if"]

    def _cut_negation(self, made: dict[str, Any]) -> None:
        if self._mentions_name(made["not"]):
            # "Not that value": no value is given, so nothing is forbidden.
            del made["not"]
        else:
            made["not"] = self.cut(made["not"])

    def _cut_reference(self, made: dict[str, Any]) -> None:
        """A definition that names the parameter is written out without it; others may refer to it as it is."""
        reference = made["$ref"]
        if not self._may_follow(reference):
            return
        target = resolve_pointer(self._root, reference)
        self._following.append(reference)
        cut = self.cut(target)
        self._following.pop()
        if cut != target:
            del made["$ref"]
            if not _is_open(cut):
                _add_branches(made, "allOf", [cut])

    def _mentions_name(self, schema: Any) -> bool:
        """Whether a schema, or one that judges the same object, says something of the value."""
        if not isinstance(schema, dict):
            return False
        properties = schema.get("properties")
        if isinstance(properties, dict) and not _is_open(properties.get(self._name, True)):
            return True
        if any(map(self._mentions_name, _in_place(schema))):
            return True
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not self._may_follow(reference):
            return False
        self._following.append(reference)
        told = self._mentions_name(resolve_pointer(self._root, reference))
        self._following.pop()
        return told

    def _may_follow(self, reference: str) -> bool:
        return reference not in self._following and len(self._following) < _MOST_REFERENCES


def _remove_name(value: Any, name: str) -> Any:
    """A list or mapping without a name."""
    if isinstance(value, dict):
        return {key: part for key, part in value.items() if key != name}
    return [key for key in value if key != name]


def _add_branches(made: dict[str, Any], key: str, branches: list[Any]) -> None:
    """Ask for these as well; what is already asked for stays."""
    if key == "allOf":
        known = made.get(key)
        made[key] = [*(known if isinstance(known, list) else ()), *branches]
    elif key in made:
        _add_branches(made, "allOf", [{key: branches}])
    else:
        made[key] = branches


def _in_place(schema: dict[str, Any]) -> Iterator[Any]:
    """The subschemas that judge the same object."""
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            yield from schema[key]
    for key in ("dependentSchemas", "dependencies"):
        if isinstance(schema.get(key), dict):
            yield from schema[key].values()
    yield from (schema[key] for key in ("not", "if", "then", "else") if key in schema)
