"""A schema for schemas that need no work: judged by the validator itself, in about a microsecond.

Most tools in real catalogs are plain: typed properties, descriptions, enums, a few limits. For those,
the checks of this folder (dialect rewrites, budget, compile) can be decided by one call into compiled
code instead of a walk in Python. Whatever this refuses is not wrong; it takes the long way.

What it accepts is guaranteed to compile, to stay within the budget and to need no rewrite
(`tests/schema/test_clean.py` holds it to that).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from toolyard.model.guesses import INFERRED, SOURCES
from toolyard.model.keywords import JSON_TYPES

_LEVELS = 12
_MAX_BYTES = 32_768
"""Bounds the subschemas below the budget: each takes at least four bytes."""

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number"}
# Null is left out because the validator also reads NaN as null, and NaN must not pass.
_SCALAR = {"type": ["string", "boolean", "number"]}
_VALUE = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}

_LEAF_KEYWORDS: dict[str, Any] = {
    "title": _TEXT,
    "description": _TEXT,
    "format": _TEXT,
    "default": _VALUE,
    "const": _SCALAR,
    "enum": {"type": "array", "minItems": 1, "maxItems": 1_000, "items": _SCALAR},
    "examples": {"type": "array", "items": _VALUE},
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": {"type": "boolean"},
    "required": {"type": "array", "items": _TEXT, "uniqueItems": True},
}


def is_clean(schema: dict[str, Any]) -> bool:
    """True when the schema needs no rewrite, compiles, and is within the budget; False decides nothing."""
    try:
        return _checker().is_valid(schema) and len(msgspec.json.encode(schema)) <= _MAX_BYTES
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError):
        return False


@cache
def _checker() -> jsonschema_rs.Validator:
    levels = {f"level{depth}": _level(depth) for depth in range(_LEVELS + 1)}
    return jsonschema_rs.validator_for({"$ref": "#/$defs/level0", "$defs": levels}, offline=True)


def _level(depth: int) -> dict[str, Any]:
    # One definition per nesting level, each pointing at the next: this is what bounds the depth.
    keywords = dict(_LEAF_KEYWORDS)
    names = sorted(JSON_TYPES)
    keywords["type"] = {
        "anyOf": [{"enum": names}, {"type": "array", "items": {"enum": names}, "minItems": 1, "uniqueItems": True}]
    }
    if depth < _LEVELS:
        below = {"$ref": f"#/$defs/level{depth + 1}"}
        keywords["items"] = below
        keywords["additionalProperties"] = {"anyOf": [{"type": "boolean"}, below]}
        keywords["properties"] = {"type": "object", "additionalProperties": below}
        keywords["anyOf"] = {"type": "array", "minItems": 1, "maxItems": 16, "items": below}
    if depth == 0:
        keywords[INFERRED] = {"enum": list(SOURCES)}
    return {"type": "object", "properties": keywords, "additionalProperties": False}
