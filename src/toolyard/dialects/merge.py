"""One schema that means what several mean together: `allOf` and `$ref` folded away.

JSON Schema lets a value be judged by many schemas at once; most providers want one. Folding is exact
for types, properties, limits and enums. What has no exact fold is handed to `lost`, in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.dialects.schema_types import types_of
from toolyard.dialects.subschemas import REFERENCES, References, SubSchema
from toolyard.model import Schema

Lost = Callable[[str], None]

DOCUMENT_KEYWORDS = frozenset(
    {"$schema", "$id", "id", "$comment", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$vocabulary"}
)
"""Keywords about the document a schema stands in; no value is judged by them."""

_MAX_PARTS = 500
_MAX_ALTERNATIVES = 16


def fold(schema: Schema, refs: References, lost: Lost) -> tuple[Schema, tuple[str, ...]]:
    """`schema` without `$ref` and `allOf` of its own, and the references that were followed for it."""
    followed: list[str] = []
    parts = 0

    def absorb(node: Schema, trail: frozenset[str]) -> Schema:
        nonlocal parts
        out = {key: value for key, value in node.items() if key != "allOf" and key not in REFERENCES}
        for part, path in _parts(node, refs, trail, lost):
            parts += 1
            if parts > _MAX_PARTS:
                lost(f"more than {_MAX_PARTS} schemas judge one value; the rest are left out")
                break
            followed.extend(path - trail)
            if part is False:
                lost("allOf holds a schema that accepts nothing; it is left out")
            elif part is not True:
                inner = absorb(part, path)
                out = intersect(out, {k: v for k, v in inner.items() if k not in DOCUMENT_KEYWORDS}, lost)
        return out

    return absorb(schema, frozenset()), tuple(followed)


def _parts(node: Schema, refs: References, trail: frozenset[str], lost: Lost) -> list[tuple[SubSchema, frozenset[str]]]:
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


def intersect(left: Schema, right: Schema, lost: Lost) -> Schema:
    """What both schemas say together; where they cannot be joined, `left` stands."""
    out = dict(left)
    for key, value in right.items():
        if key not in out:
            out[key] = value
        elif out[key] != value:
            out[key] = _RULES.get(key, _first)(key, out[key], value, lost)
    for closed, other in ((left, right), (right, left)):
        if closed.get("additionalProperties") is False and _names(other) - _names(closed):
            lost("schemas that forbid each other's properties were joined; all their properties are allowed")
            break
    return out


def _names(schema: Schema) -> set[str]:
    properties = schema.get("properties")
    return set(properties) if isinstance(properties, dict) else set()


def both(left: SubSchema, right: SubSchema) -> SubSchema:
    """A schema that holds when both do, left unfolded."""
    if left is False or right is False:
        return False
    if left is True or left == {} or left == right:
        return right
    if right is True or right == {}:
        return left
    return {"allOf": [left, right]}


def _first(key: str, left: Any, right: Any, lost: Lost) -> Any:
    lost(f"schemas with different {key} were joined; the first one is kept")
    return left


def _type(key: str, left: Any, right: Any, lost: Lost) -> Any:
    ours, theirs = types_of(left), types_of(right)
    common = [name for name in ours if name in theirs or (name == "integer" and "number" in theirs)]
    common += [name for name in theirs if name == "integer" and "number" in ours and name not in common]
    if not common:
        return _first(key, left, right, lost)
    return common[0] if len(common) == 1 else common


def _enum(key: str, left: Any, right: Any, lost: Lost) -> Any:
    if not isinstance(left, list) or not isinstance(right, list):
        return _first(key, left, right, lost)
    return [item for item in left if item in right] or _first(key, left, right, lost)


def _union(key: str, left: Any, right: Any, lost: Lost) -> Any:
    if not isinstance(left, list) or not isinstance(right, list):
        return _first(key, left, right, lost)
    return left + [item for item in right if item not in left]


def _larger(key: str, left: Any, right: Any, lost: Lost) -> Any:
    return max(left, right) if _is_number(left) and _is_number(right) else _first(key, left, right, lost)


def _smaller(key: str, left: Any, right: Any, lost: Lost) -> Any:
    return min(left, right) if _is_number(left) and _is_number(right) else _first(key, left, right, lost)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _either(_key: str, left: Any, right: Any, _lost: Lost) -> Any:
    return bool(left) or bool(right)


def _map(key: str, left: Any, right: Any, lost: Lost) -> Any:
    if not isinstance(left, dict) or not isinstance(right, dict):
        return _first(key, left, right, lost)
    return {**left, **{name: both(left[name], sub) if name in left else sub for name, sub in right.items()}}


def _single(key: str, left: Any, right: Any, lost: Lost) -> Any:
    if isinstance(left, (dict, bool)) and isinstance(right, (dict, bool)):
        return both(left, right)
    return _first(key, left, right, lost)


def _not(_key: str, left: Any, right: Any, _lost: Lost) -> Any:
    return {"anyOf": [left, right]}


def _alternatives(key: str, left: Any, right: Any, lost: Lost) -> Any:
    pairs = isinstance(left, list) and isinstance(right, list) and len(left) * len(right) <= _MAX_ALTERNATIVES
    return [both(a, b) for a in left for b in right] if pairs else _first(key, left, right, lost)


def _annotation(_key: str, left: Any, _right: Any, _lost: Lost) -> Any:
    # The schema that refers to another describes this use of it; that is the text a model needs.
    return left


_RULES: dict[str, Callable[[str, Any, Any, Lost], Any]] = {
    "type": _type,
    "enum": _enum,
    "required": _union,
    "allOf": _union,
    "not": _not,
    **dict.fromkeys(("anyOf", "oneOf"), _alternatives),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _map),
    **dict.fromkeys(("items", "additionalProperties", "propertyNames", "contains"), _single),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _larger),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _smaller),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _either),
    "nullable": lambda _key, left, right, _lost: bool(left) and bool(right),
    **dict.fromkeys(("title", "description", "default", "example", "examples", "$comment", "$schema"), _annotation),
}
