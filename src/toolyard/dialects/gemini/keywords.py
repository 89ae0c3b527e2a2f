"""What Gemini's schema says about a single string, number, array or object; and what it cannot say.

Every function reads a folded JSON Schema of one type and returns the keywords Gemini knows for it,
logging what it has no word for.
"""

from __future__ import annotations

import json
import math
from typing import TypeGuard

from toolyard.dialects.changes import ChangeLog
from toolyard.model import Schema
from toolyard.model.json_words import json_type
from toolyard.schema.fold import DOCUMENT_KEYWORDS
from toolyard.schema.subschemas import Path, allowed_values

GEMINI_KEYWORDS = frozenset(
    {"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties"}
    | {"required", "propertyOrdering", "minProperties", "maxProperties", "minimum", "maximum", "minLength"}
    | {"maxLength", "pattern", "example", "default", "anyOf"}
)
"""Every keyword of Gemini's Schema object; it refuses a request that uses any other."""

_NUMERIC = ("integer", "number")
_TYPES_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType"), ("string",)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMERIC),
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"), ("array",)),
    **dict.fromkeys(("contains", "minContains", "maxContains", "unevaluatedItems"), ("array",)),
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), ("object",)),
    **dict.fromkeys(("propertyNames", "minProperties", "maxProperties", "dependentRequired"), ("object",)),
    **dict.fromkeys(("dependentSchemas", "unevaluatedProperties"), ("object",)),
}
"""The types a keyword says something about; it is idle beside any other type."""

_FORMATS = {"string": ("date-time", "enum"), "number": ("float", "double"), "integer": ("int32", "int64")}
_IDLE_WHEN_FALSE = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
_TOLD = GEMINI_KEYWORDS | {"const", "examples", "exclusiveMinimum", "exclusiveMaximum", "prefixItems"}


def implied_types(flat: Schema) -> list[str]:
    """The types a schema without `type` is about, judged by its other keywords; none if it says nothing."""
    values = allowed_values(flat)
    if values is not None:
        return list(dict.fromkeys(json_type(value) for value in values if value is not None))
    found = [name for key in flat for name in _TYPES_OF.get(key, ())[-1:]]
    return list(dict.fromkeys(found))


def describe(out: Schema, text: object, *, first: bool = False) -> None:
    """Add a sentence to the description of `out`, unless it is there already."""
    if not isinstance(text, str) or not text:
        return
    old = out.get("description", "")
    if text not in old:
        out["description"] = " ".join(part for part in ((text, old) if first else (old, text)) if part)


def texts(flat: Schema, kind: str, path: Path, log: ChangeLog) -> Schema:
    """What is said about a value: title, description, default, an example, and its format."""
    out: Schema = {}
    for key in ("title", "description"):
        if isinstance(flat.get(key), str):
            out[key] = flat[key]
        elif key in flat:
            log.add((*path, key), f"{key} dropped: it is not text")
    if flat.get("default") is not None:
        out["default"] = flat["default"]
    elif "default" in flat:
        log.add((*path, "default"), "the default null is dropped: Gemini has no such value")
    if "example" in flat:
        out["example"] = flat["example"]
    elif isinstance(flat.get("examples"), list) and flat["examples"]:
        out["example"] = flat["examples"][0]
        if len(flat["examples"]) > 1:
            log.add((*path, "examples"), "only the first of the examples is kept")
    name = flat.get("format")
    if name in _FORMATS.get(kind, ()):
        out["format"] = name
    elif name is not None:
        log.add((*path, "format"), f"format {name!r} dropped: Gemini does not accept it for {kind}")
    return out


def values(flat: Schema, kind: str, path: Path, log: ChangeLog) -> Schema:
    """`enum` for strings; for other types the allowed values go to the description."""
    allowed = allowed_values(flat)
    if allowed is None:
        return {}
    key = "const" if "const" in flat else "enum"
    fitting = [value for value in allowed if kind in _type_names(value)]
    names = list(dict.fromkeys(value for value in fitting if isinstance(value, str) and value))
    if not fitting:
        log.add((*path, key), f"{key} dropped: none of its values is of type {kind}")
        return {}
    if names and "" not in fitting:
        return {"enum": names}
    if names:
        log.add((*path, key), f"{key} without the empty text, which Gemini refuses there")
        return {"enum": names, "description": "May also be empty."}
    log.add((*path, key), f"{key} moved to the description: Gemini has it for text alone")
    return {"description": f"Allowed values: {', '.join(map(json.dumps, fitting))}."}


def _type_names(value: object) -> tuple[str, ...]:
    name = json_type(value)
    return (name, "number") if name == "integer" else (name,)


def counts(flat: Schema, keys: tuple[str, ...], path: Path, log: ChangeLog) -> Schema:
    """Limits that must be whole and not negative."""
    out: Schema = {}
    for key in keys:
        value = flat.get(key)
        if is_number(value) and value >= 0 and value == int(value):
            out[key] = int(value)
        elif value is not None:
            log.add((*path, key), f"{key} dropped: it is not a whole number")
    return out


def bounds(flat: Schema, kind: str, path: Path, log: ChangeLog) -> Schema:
    """`minimum` and `maximum`; an exclusive bound of an integer is the next integer inside it."""
    out: Schema = {key: flat[key] for key in ("minimum", "maximum") if is_number(flat.get(key))}
    for key in flat.keys() & {"minimum", "maximum"} - out.keys():
        log.add((*path, key), f"{key} dropped: it is not a number")
    for key, plain, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        value = flat.get(key)
        if not is_number(value):
            if value is not None:
                log.add((*path, key), f"{key} dropped: it is not a number")
            continue
        if kind == "integer":
            value = (math.floor(value) if step > 0 else math.ceil(value)) + step
        else:
            log.add((*path, key), f"{key} became {plain}: Gemini cannot exclude the bound itself")
        tighter = max if step > 0 else min
        out[plain] = tighter(out.get(plain, value), value)
    return out


def is_number(value: object) -> TypeGuard[int | float]:
    """A finite JSON number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def pattern(flat: Schema, path: Path, log: ChangeLog) -> Schema:
    """`pattern`, where it is text."""
    if isinstance(flat.get("pattern"), str):
        return {"pattern": flat["pattern"]}
    if "pattern" in flat:
        log.add((*path, "pattern"), "pattern dropped: it is not text")
    return {}


def log_unknown(flat: Schema, kind: str, path: Path, log: ChangeLog) -> None:
    """Log the keywords that mean something for this type and that Gemini has no word for."""
    for key, value in flat.items():
        if key in _TOLD or key in DOCUMENT_KEYWORDS or (value is False and key in _IDLE_WHEN_FALSE):
            continue
        if key not in _TYPES_OF:
            log.add((*path, key), f"{key} dropped: Gemini has no such keyword")
        elif kind in _TYPES_OF[key]:
            state = "false " if value is False else ""
            log.add((*path, key), f"{key} {state}dropped: Gemini has no such keyword")
