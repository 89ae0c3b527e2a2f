"""Where in an answer the thing is, or the list of things, that it is about."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.engines.simulator.draw import plain_letters
from toolyard.engines.simulator.merge import Node, flat, types_of
from toolyard.engines.simulator.roles import singular
from toolyard.engines.simulator.values import Values

_WRAPPERS = (
    "data",
    "result",
    "response",
    "item",
    "payload",
    "record",
    "resource",
    "object",
    "value",
    "body",
    "content",
)
_LISTS = frozenset(("items", "data", "results", "values", "records", "entries", "list", "resources", "content"))
_LISTS |= {"objects", "rows", "result", "response", "elements", "hits", "matches", "members", "value", "documents"}
_DEEPEST = 3


class Place(msgspec.Struct, frozen=True, eq=False):
    """A part of an answer, and the properties that lead to it."""

    path: tuple[str, ...]
    node: Node
    properties: dict[str, Node]
    """Of the thing there, or of the things in the list."""


def thing_in(values: Values, noun: str) -> Place | None:
    """The thing an answer is about: the whole of it, or what it wraps."""
    node: Node = values.root
    path: tuple[str, ...] = ()
    while len(path) < _DEEPEST:
        properties = _properties(values, node)
        if properties is None:
            return None
        wrapped = _wrapped(values, properties, noun)
        if wrapped is None:
            return Place(path, node, properties)
        path, node = (*path, wrapped), properties[wrapped]
    return None


def _wrapped(values: Values, properties: dict[str, Node], noun: str) -> str | None:
    letters = {plain_letters(name): name for name in reversed(properties)}
    if any(plain in letters for plain in ("id", "uuid", "sid", "sha", plain_letters(noun) + "id")):
        return None
    for plain in (plain_letters(noun), plain_letters(noun.rpartition(" ")[2]), *_WRAPPERS):
        name = letters.get(plain)
        if name is not None and _properties(values, properties[name]):
            return name
    return None


def list_in(values: Values, noun: str) -> Place | None:
    """The list of objects that an answer is about."""
    found: list[tuple[int, int, Place]] = []
    stack: list[tuple[tuple[str, ...], Node]] = [((), values.root)]
    while stack:
        path, node = stack.pop(0)
        items = _items(values, node)
        if items is not None:
            inside = _properties(values, items)
            if inside is not None:
                found.append((_likely(path, noun), len(found), Place(path, items, inside)))
            continue
        properties = _properties(values, node) if len(path) < 2 else None
        stack += [((*path, name), sub) for name, sub in (properties or {}).items()]
        if len(stack) > 200:
            break
    if not found:
        return None
    best = min(found, key=lambda one: one[:2])
    alone = len(best[2].path) == 0 or best[0] < 3 or (len(found) == 1 and len(best[2].path) == 1 and _has_id(best[2]))
    return best[2] if alone else None


def is_free(values: Values) -> bool:
    """True if a schema allows any object and says nothing about it."""
    schema = values.root
    kinds = types_of(schema)
    said = ("properties", "allOf", "anyOf", "oneOf", "$ref", "enum", "const", "items", "required", "not", "if")
    free = (kinds is None or "object" in kinds) and not any(key in schema for key in said)
    return free and schema.get("additionalProperties", True) in (True, {}) and "patternProperties" not in schema


def _has_id(place: Place) -> bool:
    return any(plain_letters(name).endswith(("id", "name", "key")) for name in place.properties)


def _likely(path: tuple[str, ...], noun: str) -> int:
    if not path:
        return 0
    last = plain_letters(path[-1])
    thing, tail = plain_letters(noun), plain_letters(noun.rpartition(" ")[2])
    if singular(last) in (thing, tail) or last in (thing, tail):
        return 0 + len(path) - 1
    return 1 + len(path) - 1 if last in _LISTS else 5


def _items(values: Values, node: Node) -> Node | None:
    for way in flat(values.root, node):
        kinds = types_of(way.schema)
        items = way.schema.get("items")
        if isinstance(items, dict) and (kinds is None or "array" in kinds):
            return items
    return None


def _properties(values: Values, node: Node) -> dict[str, Any] | None:
    """What an object there has; None if there is no object, or nothing is said about it."""
    for way in flat(values.root, node):
        kinds = types_of(way.schema)
        properties = way.schema.get("properties")
        if isinstance(properties, dict) and properties and (kinds is None or "object" in kinds):
            return properties
    return None
