"""Where in an answer the entity is, or the list of entities, that it is about."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.engines.simulator.values import SchemaValues
from toolyard.schema.subschemas import SubSchema
from toolyard.schema.ways import allowed_types, find_ways
from toolyard.words.identifiers import plain_letters
from toolyard.words.plurals import singular

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


class AnswerPath(msgspec.Struct, frozen=True, eq=False):
    """A part of an answer, and the properties that lead to it."""

    names: tuple[str, ...]
    node: SubSchema
    properties: dict[str, SubSchema]
    """Of the entity there, or of those in the list."""


def find_entity(values: SchemaValues, noun: str) -> AnswerPath | None:
    """The thing an answer is about: the whole of it, or what it wraps."""
    node: SubSchema = values.root
    path: tuple[str, ...] = ()
    while len(path) < _DEEPEST:
        properties = _properties_of(values, node)
        if properties is None:
            return None
        wrapped = _wrapped_name(values, properties, noun)
        if wrapped is None:
            return AnswerPath(path, node, properties)
        path, node = (*path, wrapped), properties[wrapped]
    return None


def _wrapped_name(values: SchemaValues, properties: dict[str, SubSchema], noun: str) -> str | None:
    letters = {plain_letters(name): name for name in reversed(properties)}
    if any(plain in letters for plain in ("id", "uuid", "sid", "sha", plain_letters(noun) + "id")):
        return None
    for plain in (plain_letters(noun), plain_letters(noun.rpartition(" ")[2]), *_WRAPPERS):
        name = letters.get(plain)
        if name is not None and _properties_of(values, properties[name]):
            return name
    return None


def find_list(values: SchemaValues, noun: str) -> AnswerPath | None:
    """The list of objects that an answer is about."""
    found: list[tuple[int, int, AnswerPath]] = []
    stack: list[tuple[tuple[str, ...], SubSchema]] = [((), values.root)]
    while stack:
        path, node = stack.pop(0)
        items = _item_node(values, node)
        if items is not None:
            inside = _properties_of(values, items)
            if inside is not None:
                found.append((_rank_path(path, noun), len(found), AnswerPath(path, items, inside)))
            continue
        properties = _properties_of(values, node) if len(path) < 2 else None
        stack += [((*path, name), sub) for name, sub in (properties or {}).items()]
        if len(stack) > 200:
            break
    if not found:
        return None
    best = min(found, key=lambda one: one[:2])
    alone = len(best[2].names) == 0 or best[0] < 3 or (len(found) == 1 and len(best[2].names) == 1 and _has_id(best[2]))
    return best[2] if alone else None


def is_any_object(values: SchemaValues) -> bool:
    """True if a schema allows any object and says nothing about it."""
    schema = values.root
    kinds = allowed_types(schema)
    said = ("properties", "allOf", "anyOf", "oneOf", "$ref", "enum", "const", "items", "required", "not", "if")
    free = (kinds is None or "object" in kinds) and not any(key in schema for key in said)
    return free and schema.get("additionalProperties", True) in (True, {}) and "patternProperties" not in schema


def _has_id(path: AnswerPath) -> bool:
    return any(plain_letters(name).endswith(("id", "name", "key")) for name in path.properties)


def _rank_path(path: tuple[str, ...], noun: str) -> int:
    if not path:
        return 0
    last = plain_letters(path[-1])
    thing, tail = plain_letters(noun), plain_letters(noun.rpartition(" ")[2])
    if singular(last) in (thing, tail) or last in (thing, tail):
        return 0 + len(path) - 1
    return 1 + len(path) - 1 if last in _LISTS else 5


def _item_node(values: SchemaValues, node: SubSchema) -> SubSchema | None:
    for way in find_ways(values.root, node):
        kinds = allowed_types(way.schema)
        items = way.schema.get("items")
        if isinstance(items, dict) and (kinds is None or "array" in kinds):
            return items
    return None


def _properties_of(values: SchemaValues, node: SubSchema) -> dict[str, Any] | None:
    """What an object there has; None if there is no object, or nothing is said about it."""
    for way in find_ways(values.root, node):
        kinds = allowed_types(way.schema)
        properties = way.schema.get("properties")
        if isinstance(properties, dict) and properties and (kinds is None or "object" in kinds):
            return properties
    return None
