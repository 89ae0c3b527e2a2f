"""Gemini's schemas back to JSON Schema."""

from __future__ import annotations

from typing import Any

from toolyard.model import Schema
from toolyard.schema.subschemas import types_of

_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_SNAKE = {
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "property_ordering": "propertyOrdering",
}
"""Spellings of the Python SDK, which the REST API accepts as well."""


def json_schema(schema: Any) -> Schema:
    """The JSON Schema of a Gemini schema; what is no schema at all allows anything."""
    if not isinstance(schema, dict):
        return {}
    given: Schema = {_SNAKE.get(key) or key: value for key, value in schema.items() if value is not None}
    out: Schema = {}
    for key, value in given.items():
        if key == "type":
            name = str(getattr(value, "value", value)).lower()
            out |= {} if name == "type_unspecified" else {"type": name}
        elif key in _COUNTS and isinstance(value, str) and value.isdecimal():
            # 64-bit integers are text in protobuf JSON.
            out[key] = int(value)
        elif key == "properties" and isinstance(value, dict):
            order = [name for name in given.get("propertyOrdering", ()) if name in value]
            ordered: Schema = {**dict.fromkeys(order), **value}
            out[key] = {name: json_schema(sub) for name, sub in ordered.items()}
        elif key == "items":
            out[key] = json_schema(value)
        elif key == "anyOf" and isinstance(value, list):
            out[key] = [json_schema(sub) for sub in value]
        elif key not in ("nullable", "propertyOrdering"):
            out[key] = value
    return _with_null(out) if given.get("nullable") is True else out


def _with_null(schema: Schema) -> Schema:
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    out = dict(schema)
    if "type" in out:
        out["type"] = list(dict.fromkeys([*types_of(out["type"]), "null"]))
    if isinstance(out.get("enum"), list):
        out["enum"] = [*out["enum"], None]
    return out
