"""One schema that means what several mean together: `allOf` and `$ref` folded away.

JSON Schema lets a value be judged by many schemas at once; most readers want one. Folding is exact for types,
properties, limits and enums. What has no exact fold is handed to `lost`, in words. `schema/ways.py` is the other view:
every way to satisfy a schema, joined by the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from toolyard.model import Schema
from toolyard.schema.subschemas import REFERENCES, References, SubSchema, types_of

Lost = Callable[[str], None]
Join = Callable[[Any, Any], Any]
"""What two values of one keyword say together, or `CONFLICT`."""

CONFLICT: Any = object()
"""Two values of a keyword cannot be said as one."""
DOCUMENT_KEYWORDS = frozenset(
    {"$schema", "$id", "id", "$comment", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$vocabulary"}
)
"""Keywords about the document a schema stands in; no value is judged by them."""

_MAX_PARTS = 500
_MAX_ALTERNATIVES = 16


def join_schemas(one: SubSchema, other: SubSchema) -> SubSchema:
    """A schema that holds when both do, left unfolded."""
    if one is False or other is False:
        return False
    if one is True or one == {} or one == other:
        return other
    if other is True or other == {}:
        return one
    return {"allOf": [one, other]}


def join_types(one: Any, other: Any) -> Any:
    """The types that both allow: a name, or several in a list."""
    ours, theirs = types_of(one), types_of(other)
    common = [name for name in ours if name in theirs or (name == "integer" and "number" in theirs)]
    common += [name for name in theirs if name == "integer" and "number" in ours and name not in common]
    if not common:
        return CONFLICT
    return common[0] if len(common) == 1 else common


def join_enums(one: Any, other: Any) -> Any:
    """The values that both allow; 1 and true are two values."""
    if not isinstance(one, list) or not isinstance(other, list):
        return CONFLICT
    known = {json_key(value) for value in other}
    return [value for value in one if json_key(value) in known] or CONFLICT


def json_key(value: Any) -> str:
    """The same for equal JSON values: 1 and 1.0 are one, true is another."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True)


def _join_lists(one: Any, other: Any) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return CONFLICT
    return one + [item for item in other if item not in one]


def _take_larger(one: Any, other: Any) -> Any:
    return max(one, other) if _is_number(one) and _is_number(other) else CONFLICT


def _take_smaller(one: Any, other: Any) -> Any:
    return min(one, other) if _is_number(one) and _is_number(other) else CONFLICT


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _join_maps(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return CONFLICT
    return {**one, **{name: join_schemas(one[name], sub) if name in one else sub for name, sub in other.items()}}


def _join_singles(one: Any, other: Any) -> Any:
    both = isinstance(one, (dict, bool)) and isinstance(other, (dict, bool))
    return join_schemas(one, other) if both else CONFLICT


def _join_alternatives(one: Any, other: Any) -> Any:
    pairs = isinstance(one, list) and isinstance(other, list) and len(one) * len(other) <= _MAX_ALTERNATIVES
    return [join_schemas(a, b) for a in one for b in other] if pairs else CONFLICT


def _either(one: Any, other: Any) -> Any:
    return bool(one) or bool(other)


def _take_first(one: Any, _other: Any) -> Any:
    # The schema that refers to another describes this use of it; that is the text a model needs.
    return one


JOINS: dict[str, Join] = {
    "required": _join_lists,
    "not": lambda one, other: {"anyOf": [one, other]},
    "patternProperties": _join_maps,
    "uniqueItems": _either,
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _join_singles),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _take_larger),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _take_smaller),
}
"""What both views join alike."""
_FOLD_JOINS: dict[str, Join] = {
    **JOINS,
    "type": join_types,
    "enum": join_enums,
    "allOf": _join_lists,
    "contains": _join_singles,
    "nullable": lambda one, other: bool(one) and bool(other),
    **dict.fromkeys(("anyOf", "oneOf"), _join_alternatives),
    **dict.fromkeys(("properties", "dependentSchemas"), _join_maps),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), _either),
    **dict.fromkeys(("title", "description", "default", "example", "examples", "$comment", "$schema"), _take_first),
}


def fold_schema(schema: Schema, refs: References, lost: Lost) -> tuple[Schema, tuple[str, ...]]:
    """`schema` without `$ref` and `allOf` of its own, and the references that were followed for it."""
    followed: list[str] = []
    parts = 0

    def absorb(node: Schema, trail: frozenset[str]) -> Schema:
        nonlocal parts
        out = {key: value for key, value in node.items() if key != "allOf" and key not in REFERENCES}
        for part, path in _list_parts(node, refs, trail, lost):
            parts += 1
            if parts > _MAX_PARTS:
                lost(f"more than {_MAX_PARTS} schemas judge one value; the rest are left out")
                break
            followed.extend(path - trail)
            if part is False:
                lost("allOf holds a schema that accepts nothing; it is left out")
            elif part is not True:
                inner = absorb(part, path)
                out = intersect_schemas(out, {k: v for k, v in inner.items() if k not in DOCUMENT_KEYWORDS}, lost)
        return out

    return absorb(schema, frozenset()), tuple(followed)


def _list_parts(
    node: Schema, refs: References, trail: frozenset[str], lost: Lost
) -> list[tuple[SubSchema, frozenset[str]]]:
    """The schemas that judge the same value as `node`, each with the references that lead to it."""
    found: list[tuple[SubSchema, frozenset[str]]] = []
    for key in REFERENCES:
        if key not in node:
            continue
        ref = node[key]
        target = refs.resolve(ref)
        if target is None:
            lost(f"{key} {ref!r} leads nowhere in this schema; it is left out")
        elif ref not in trail:
            # A schema that only refers to itself says nothing more the second time.
            found.append((target, trail | {ref}))
    branches = node.get("allOf")
    if isinstance(branches, list):
        found.extend((branch, trail) for branch in branches if isinstance(branch, (dict, bool)))
    return found


def intersect_schemas(left: Schema, right: Schema, lost: Lost) -> Schema:
    """What both schemas say together; where they cannot be joined, `left` stands."""
    out = dict(left)
    for key, value in right.items():
        if key not in out:
            out[key] = value
        elif out[key] != value:
            join = _FOLD_JOINS.get(key)
            joined = CONFLICT if join is None else join(out[key], value)
            if joined is CONFLICT:
                lost(f"schemas with different {key} were joined; the first one is kept")
            else:
                out[key] = joined
    for closed, other in ((left, right), (right, left)):
        if closed.get("additionalProperties") is False and _property_names(other) - _property_names(closed):
            lost("schemas that forbid each other's properties were joined; all their properties are allowed")
            break
    return out


def _property_names(schema: Schema) -> set[str]:
    properties = schema.get("properties")
    return set(properties) if isinstance(properties, dict) else set()
