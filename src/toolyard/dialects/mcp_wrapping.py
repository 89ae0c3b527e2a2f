"""`{"result": ...}`: how MCP carries a value that is no object, and how its schema says so.

MCP wants objects as structured content and as output schemas, so servers put other values under one key. Here the
wrapper is taken off again, in a tool's schema when it is listed and in a value when it is answered.
"""

from __future__ import annotations

from typing import Any

from toolyard.dialects.mcp import is_object
from toolyard.dialects.outcome import read_content
from toolyard.dialects.payload import Json
from toolyard.model.tool import Schema
from toolyard.schema.budget import check_budget
from toolyard.schema.subschemas import rebuild

_KEY = "result"
_INSIDE = f"#/properties/{_KEY}"
_MARK = "x-fastmcp-wrap-result"
_AROUND = frozenset({"type", "properties", "required", "title", "description", "$schema", "$defs", _MARK})


def plain_output(schema: Schema) -> Schema | None:
    """The schema inside the wrapper; None if there is none, or what it holds is an object and needs no wrapper."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or properties.keys() != {_KEY} or not isinstance(properties[_KEY], dict):
        return None
    if schema.get("type") != "object" or schema.get("required") != [_KEY] or not schema.keys() <= _AROUND:
        return None
    inner = _lift_definitions(properties[_KEY])
    if "$defs" in schema:
        if "$defs" in inner:
            return None
        inner["$defs"] = schema["$defs"]
    check_budget(inner)  # before anybody follows what it refers to
    return None if not inner or is_object(inner) else inner


def _lift_definitions(schema: Schema) -> Schema:
    out = rebuild(schema, _lift_definitions)
    ref = out.get("$ref")
    if isinstance(ref, str) and (ref == _INSIDE or ref.startswith(f"{_INSIDE}/")):
        out["$ref"] = f"#{ref.removeprefix(_INSIDE)}"
    return out


def is_wrapped(output_schema: Schema) -> bool:
    """Whether values of a tool with that output schema come in the wrapper."""
    return bool(output_schema) and not is_object(output_schema)


def plain_value(structured: Any, content: Any, output_schema: Schema, *, wrapped: bool) -> Any:
    """Structured content as the tool means it; without a schema the text beside it tells whether it was wrapped."""
    if not isinstance(structured, dict) or structured.keys() != {_KEY}:
        return structured
    if output_schema:
        return structured[_KEY] if wrapped else structured
    return structured[_KEY] if _text_of(content) == structured[_KEY] else structured


def _text_of(content: Any) -> Any:
    return read_content(content) if isinstance(content, list) and all(isinstance(b, dict) for b in content) else None


def text_says(value: Any, content: list[Json]) -> bool:
    """Whether the text beside a structured value is that value again, and nothing else."""
    said = read_content(content)
    return type(said) is type(value) and bool(said == value)
