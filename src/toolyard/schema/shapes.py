"""Recognise the shapes in which catalogs write schemas: property maps, parameter lists, names with descriptions."""

from __future__ import annotations

from typing import Any

from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_schema import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES
from toolyard.schema.typenames import read_described, read_type

NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
ANNOTATIONS = frozenset({"default", "example", "examples", "const"})
TEXTS = frozenset({"title", "description", "format", "pattern", "$ref", "$id", "$comment"})

KEYWORDS = frozenset(
    SCHEMA_MAPS | SCHEMA_LISTS | SCHEMA_SINGLES | {"default", "const", "example", "discriminator", "xml"}
)
"""Keywords whose value may be a mapping that contains 'type'."""

ITEM_NAMES = ("name", "parameter", "param", "argument", "arg", "key", "field", "property")
"""Keys that name the items of a parameter list."""

_KNOWN = (
    KEYWORDS
    | NUMBERS
    | COUNTS
    | ANNOTATIONS
    | TEXTS
    | {"type", "required", "enum", "uniqueItems", "nullable", "optional", "deprecated", "readOnly", "writeOnly"}
    | {"dependentRequired", "dependencies", "contentEncoding", "contentMediaType", "minContains", "maxContains"}
    | {"strict", "externalDocs", "collectionFormat"}
)
"""Keys of a schema that are not reported as unknown."""

_PLAUSIBLE_NAMES = frozenset({"items", "contains", "not", "if", "then", "else"})
"""Keywords that catalogs also use as parameter names."""


def has_descriptions(schema: dict[str, Any]) -> bool:
    """Whether the schema maps names to descriptions, some of which may be schemas."""
    if all(str(key).startswith("x-") for key in schema):
        return False  # annotations only, no properties
    if has_typed_descriptions(schema):
        return True
    return _KNOWN.isdisjoint(schema) and all(isinstance(value, (str, dict)) for value in schema.values())


def has_typed_descriptions(schema: dict[str, Any]) -> bool:
    """Whether the schema maps names to sentences, some of which begin with a type, so its keys are not keywords."""
    texts = [value for value in schema.values() if isinstance(value, str)]
    named = not schema.keys() <= _KNOWN and (not isinstance(schema.get("type"), str) or len(schema["type"].split()) > 1)
    return named and len(texts) == len(schema) and any(read_described(text) is not None for text in texts)


def find_unknown_keys(schema: dict[str, Any]) -> list[str]:
    """Keys of an input schema without properties that have no meaning in a schema or in any known dialect."""
    if is_property_map(schema) or has_descriptions(schema):
        return []
    return [
        key
        for key, value in schema.items()
        if not (key in _KNOWN or str(key).startswith(("x-", "$")) or (isinstance(value, dict) and "type" in value))
    ]


def read_parameter_item(item: Any) -> tuple[str, Any]:
    """Name and schema of an item of a parameter list: also a bare name, `{"city": {...}}`, and OpenAPI's `schema`."""
    if isinstance(item, str):
        return item, {}
    if isinstance(item, dict):
        key = next((key for key in ITEM_NAMES if isinstance(item.get(key), str)), None)
        if key is not None:
            inner = item["schema"] if isinstance(item.get("schema"), dict) else {}
            rest = {other: value for other, value in item.items() if other != key and value is not inner}
            return item[key], {**inner, **rest}
        if len(item) == 1 and _KNOWN.isdisjoint(item):
            return next((str(name), sub) for name, sub in item.items())
    raise InvalidSchemaError("a list of parameters must hold mappings, each with a 'name'")


def is_property_map(schema: dict[str, Any]) -> bool:
    """True for `{"city": {"type": "string"}, ...}`: names mapped to schemas, without the enclosing object schema."""
    if not all(isinstance(value, (dict, str)) for value in schema.values()):
        return False
    if any(isinstance(value, str) for value in schema.values()):
        # {"city": "string"}: only type names, and no key is a keyword that takes text.
        if schema.keys() & (TEXTS | {"type", "$schema"}) or schema.keys() <= ANNOTATIONS:
            return False
        return all(isinstance(value, dict) or read_type(value) is not None for value in schema.values())
    # Only dicts: this shape is also that of a keyword that takes a schema or a map of schemas.
    keywords = schema.keys() & (SCHEMA_MAPS | SCHEMA_SINGLES)
    return keywords <= _PLAUSIBLE_NAMES | SCHEMA_MAPS and all(
        isinstance(schema[key].get("type"), str) for key in keywords
    )
