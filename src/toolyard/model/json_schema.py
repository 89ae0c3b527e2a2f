"""The vocabulary of JSON Schema, and JSON values: their type names, pointers and copies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps arbitrary names to subschemas."""

SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of subschemas."""

SCHEMA_SINGLES = frozenset(
    {
        "additionalProperties",
        "additionalItems",
        "unevaluatedProperties",
        "unevaluatedItems",
        "propertyNames",
        "contains",
        "contentSchema",
        "items",
        "not",
        "if",
        "then",
        "else",
    }
)
"""Keywords whose value is one subschema (`items` may also be a list in older drafts)."""

IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
    | {"$ref", "$dynamicRef", "$recursiveRef"}
)
"""Keywords whose subschemas validate the same value again, which can multiply the work."""

JSON_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


def pointer_of(path: Iterable[str | int]) -> str:
    """The RFC 6901 JSON pointer of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def json_type(value: object) -> str:
    """The JSON Schema name of a value's type, or its Python name if it has none."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
        case _:
            return type(value).__name__


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value
