"""Keywords of OpenAPI schemas that JSON Schema 2020-12 writes differently, or that documents often get wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from toolyard.model.json_schema import JSON_TYPES
from toolyard.schema.compile import read_pattern, usable_pattern
from toolyard.schema.typenames import join_fragments, read_type
from toolyard.sources.rest.document import Notes

Node = dict[str, Any]

_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_LIMITS = (*_COUNTS, "minContains", "maxContains", "minimum", "maximum", "multipleOf")

_MAX_ENUM = 10_000
_MAX_EXAMPLE = 500
_TEXT_ALONE = {str}
_OUTSIDE = ("description", "title", "readOnly", "writeOnly")
_NUMBERS = ("integer", "number")
_EXCLUSIVE = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class SchemaReader(Protocol):
    """The converter of the schema that contains a keyword."""

    notes: Notes

    def node(self, raw: Any, depth: int) -> Any:
        """Convert a subschema."""


def _read_type(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    if type(value) is str and value in JSON_TYPES:
        out[key] = value
    else:
        read_type_of(reader, raw, out, value)


def read_type_of(reader: SchemaReader, raw: Node, out: Node, value: Any) -> None:
    """Read a `type` that is not the name of a JSON type."""
    if value == "file":
        out.update(type="string", format="binary")
        return
    names = value if type(value) is list else [value]
    if names and all(type(name) is str and name in JSON_TYPES for name in names):
        out["type"] = list(dict.fromkeys(names))
        return
    known = [read_type(name) for name in names if type(name) is str]
    merged = (
        join_fragments([fragment for fragment in known if fragment is not None])
        if known and None not in known
        else None
    )
    if raw:
        shown = repr(value)[:80]
        reader.notes.at(raw, f"type {shown} read as {merged.get('type', 'anything') if merged else 'anything'!r}")
    for name, fragment in (merged or {}).items():
        out.setdefault(name, fragment)


def _read_limit(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    """Read a number, also one written as text, or an integer with a decimal point."""
    number = _read_number(value)
    is_count = key not in ("minimum", "maximum", "multipleOf")
    if number is not None and is_count and (number < 0 or number != int(number)):
        number = None
    if number is None or (key == "multipleOf" and number <= 0):
        if value is not None:
            reader.notes.at(raw, f"{key} is not a usable number; left out")
        return
    out[key] = int(number) if is_count else number


def _read_number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = int(value) if value.lstrip("-").isdecimal() and len(value) < 40 else float(value)
        except ValueError:
            return None
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def read_combined(reader: SchemaReader, raw: Node, out: Node, depth: int) -> None:
    """Convert keywords that depend on others; `out` has their original values."""
    if "dependencies" in out:
        _read_dependencies(reader, out, depth)
    if "additionalItems" in out or type(out.get("items")) is list:
        _tuple_items(reader, out, depth)
    for flag, limit in _EXCLUSIVE:
        if flag in out:
            _read_exclusive(out, flag, limit)
    if "pattern" in out:
        _read_pattern(reader, raw, out)
    discriminator = out.pop("discriminator", None)
    if discriminator is not None:
        _apply_discriminator(out, discriminator)
    if "enum" in out and "type" in out:
        _fit_enum(reader, raw, out, out["enum"])


def _tuple_items(reader: SchemaReader, out: Node, depth: int) -> None:
    items = out.get("items")
    extra = out.pop("additionalItems", None)
    if type(items) is list:
        if items:
            out["prefixItems"] = items
        del out["items"]
        if isinstance(extra, (dict, bool)):
            out["items"] = reader.node(extra, depth + 1)


def _keep(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    out[key] = value


def _keep_text(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    if type(value) is str:
        out[key] = value


def _keep_flag(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    if value is True:
        out[key] = True


def _read_required(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    """The names without repeats, including those of properties with `required: true`."""
    if type(value) is list and set(map(type, value)) <= _TEXT_ALONE:
        if value:
            out[key] = list(dict.fromkeys((*value, *out.get(key, ()))))
    elif not isinstance(value, bool):
        reader.notes.at(raw, "'required' is not a list of names; left out")


def _read_enum(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    if type(value) is list and 0 < len(value) <= _MAX_ENUM:
        out[key] = value
    else:
        reader.notes.at(raw, f"enum is not a list of 1 to {_MAX_ENUM:,} values; left out")


def _read_pattern(reader: SchemaReader, raw: Node, out: Node) -> None:
    written = out["pattern"]
    read = read_pattern(out) if type(written) is str else None
    if read is None:
        reader.notes.at(raw, "pattern is not a usable regular expression; left out")
        del out["pattern"]
    elif len(read) > 1:
        reader.notes.at(raw, "the count of characters in a pattern moved to minLength and maxLength")
    elif read["pattern"] != written:
        reader.notes.at(
            raw, "the slashes around a pattern removed" if written[:1] == "/" else "a pattern read as JavaScript does"
        )
    out |= read or {}


def _pattern_properties(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    if type(value) is not dict:
        return
    usable = {pattern: sub for pattern, sub in value.items() if usable_pattern(pattern) == pattern}
    if len(usable) < len(value):
        reader.notes.at(raw, "patternProperties with an unusable regular expression; left out")
    if usable:
        out[key] = {pattern: reader.node(sub, depth + 1) for pattern, sub in usable.items()}


def _read_examples(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    if key == "example":
        value = None if "examples" in raw else [value]
    small = [item for item in value if _is_small(item)] if type(value) is list else []
    if small:
        out["examples"] = small


def _is_small(value: Any) -> bool:
    """Whether an example is short enough to keep."""
    if isinstance(value, str):
        return len(value) <= _MAX_EXAMPLE
    if isinstance(value, (dict, list)):
        text = msgspec.json.encode(value) if len(value) <= 20 else b""
        # Anything that walks the schema would take this for a reference.
        return 0 < len(text) <= _MAX_EXAMPLE and b'"$ref"' not in text
    return True


def _dependent_required(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    if type(value) is not dict:
        return
    needed = {name: list(dict.fromkeys(map(str, names))) for name, names in value.items() if type(names) is list}
    if needed:
        out[key] = needed


def _read_later(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    """Skip a keyword that applies to the whole schema and is read after the others."""


def _note_dynamic(reader: SchemaReader, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
    reader.notes.at(raw, "$dynamicRef is not followed; anything is allowed there")


COMBINED = frozenset(
    ("enum", "pattern", "discriminator", "additionalItems", "dependencies", "exclusiveMinimum", "exclusiveMaximum")
)
"""Keywords that `read_combined` handles, besides a list in `items`."""
KEYWORDS: dict[str, Callable[[SchemaReader, Node, Node, str, Any, int], None]] = {
    **dict.fromkeys(COMBINED, _keep),
    "type": _read_type,
    **dict.fromkeys(("description", "title", "format", "contentEncoding", "contentMediaType"), _keep_text),
    **dict.fromkeys(_LIMITS, _read_limit),
    **dict.fromkeys(("default", "const"), _keep),
    **dict.fromkeys(("uniqueItems", "deprecated"), _keep_flag),
    **dict.fromkeys(("example", "examples"), _read_examples),
    "required": _read_required,
    "enum": _read_enum,
    "patternProperties": _pattern_properties,
    "dependentRequired": _dependent_required,
    **dict.fromkeys(("nullable", "x-nullable"), _read_later),
    "$dynamicRef": _note_dynamic,
}
"""The handlers of keywords without subschemas of the usual kinds.

They get the converter, the original schema, the converted one so far, the keyword, its value, and the depth.
"""


def _read_dependencies(reader: SchemaReader, out: Node, depth: int) -> None:
    value = out.pop("dependencies")
    for name, needed in value.items() if type(value) is dict else ():
        if type(needed) is list:
            out.setdefault("dependentRequired", {})[name] = list(dict.fromkeys(map(str, needed)))
        else:
            out.setdefault("dependentSchemas", {})[name] = reader.node(needed, depth + 1)


def _read_exclusive(out: Node, flag: str, limit: str) -> None:
    value = out.pop(flag)
    if value is True and limit in out:
        out[flag] = out.pop(limit)
    elif not isinstance(value, bool) and (number := _read_number(value)) is not None:
        out[flag] = number


def _fit_enum(reader: SchemaReader, raw: Node, out: Node, enum: list[Any]) -> None:
    """Convert enum values that YAML parsed as another type than the schema's, or drop the enum."""
    kind = out["type"]
    if kind == "string" and not all(type(value) is str or value is None for value in enum):
        out["enum"] = [
            value if type(value) is str or value is None else msgspec.json.encode(value).decode() for value in enum
        ]
        reader.notes.at(raw, "values of an enum of text written as text")
    elif kind in _NUMBERS and any(type(value) is str for value in enum):
        numbers = [_read_number(value) if type(value) is str else value for value in enum]
        if None not in numbers:
            out["enum"] = numbers
            reader.notes.at(raw, "values of an enum of numbers written as numbers")
        elif all(type(value) is str for value in enum):
            _drop_enum(reader, raw, out)
    elif kind == "array" and not any(type(value) is list for value in enum):
        del out["enum"]
        items = out.get("items", {})
        if type(items) is dict and "enum" not in items:
            out["items"] = {"allOf": [items], "enum": enum} if "$ref" in items else {**items, "enum": enum}
        reader.notes.at(raw, "an enum of single values beside 'type: array' is about the items")
    elif kind in ("object", "boolean") and not any(
        type(value) is (dict if kind == "object" else bool) for value in enum
    ):
        _drop_enum(reader, raw, out)


def _drop_enum(reader: SchemaReader, raw: Node, out: Node) -> None:
    del out["enum"]
    reader.notes.at(raw, f"enum left out: it has no value of the type {out['type']!r}")


def _apply_discriminator(out: Node, discriminator: Any) -> None:
    """Replace `oneOf` by `anyOf`: OpenAPI chooses the branch by a property, so other branches may match as well."""
    if "oneOf" in out and "anyOf" not in out:
        out["anyOf"] = out.pop("oneOf")
    if type(discriminator) is str:
        discriminator = {"propertyName": discriminator}
    elif type(discriminator) is not dict:
        return
    name, mapping = discriminator.get("propertyName"), discriminator.get("mapping")
    if type(name) is not str:
        return
    # The branch cannot be chosen without the property, so it is required.
    out["required"] = list(dict.fromkeys([*out.get("required", ()), name]))
    if type(mapping) is not dict or not mapping:
        return
    properties = out.get("properties", {})
    known = properties.get(name, {})
    if type(known) is dict and known.keys().isdisjoint(("enum", "const", "examples", "$ref")):
        # Not an enum, since names of schemas are valid values too.
        out["properties"] = {**properties, name: {**known, "examples": list(mapping)[:50]}}


def allow_null(out: Node) -> Node:
    """The schema, extended to allow null."""
    kind = out.get("type")
    if type(kind) is str:
        out["type"] = [kind, "null"] if kind != "null" else kind
    elif type(kind) is list:
        out["type"] = [*kind, "null"] if "null" not in kind else kind
    if "enum" in out and None not in out["enum"]:
        out["enum"] = [*out["enum"], None]
    if "const" in out:
        out["enum"] = [out.pop("const"), None]
    if not out.keys().isdisjoint(("allOf", "anyOf", "oneOf", "not")):
        outer: Node = {key: out.pop(key) for key in _OUTSIDE if key in out}
        if type(kind) is str:
            out["type"] = kind
        return {**outer, "anyOf": [out, {"type": "null"}]}
    return out
