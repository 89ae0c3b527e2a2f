"""Merge schemas that apply together: resolve `allOf` and `$ref` into a single schema.

JSON Schema lets several schemas judge one value; most consumers expect a single one. Folding is exact for types,
properties, limits and enums. What cannot be folded exactly is reported to `lost` as text. `find_ways` is the other
view: every way to satisfy a schema, as a schema without `$ref`, `allOf`, `anyOf`, `oneOf` and `if`, joined by the same
rules. Constraints that cannot be expressed in one schema are left out and the way is marked, so a value generated from
it must be validated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from math import gcd, lcm
from typing import Any

import msgspec

from toolyard.model import Schema
from toolyard.schema.subschemas import (
    REFERENCES,
    References,
    SubSchema,
    allowed_values,
    mapping_of,
    resolve_pointer,
    types_of,
)

ReportLoss = Callable[[str], None]
Join = Callable[[Any, Any], Any]
"""Combines two values of one keyword, or returns `CONFLICT`."""

CONFLICT: Any = object()
"""Two values of a keyword cannot be combined into one."""
DOCUMENT_KEYWORDS = frozenset(
    {"$schema", "$id", "id", "$comment", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$vocabulary"}
)
"""Keywords that concern the document and do not validate values."""

_MAX_PARTS = 500
_MAX_ALTERNATIVES = 16


def join_schemas(one: SubSchema, other: SubSchema) -> SubSchema:
    """A schema that requires both; not folded."""
    if one is False or other is False:
        return False
    if one is True or one == {} or one == other:
        return other
    if other is True or other == {}:
        return one
    return {"allOf": [one, other]}


def join_types(one: Any, other: Any) -> Any:
    """The types that both allow: a name, or a list of several."""
    ours, theirs = types_of(one), types_of(other)
    common = [name for name in ours if name in theirs or (name == "integer" and "number" in theirs)]
    common += [name for name in theirs if name == "integer" and "number" in ours and name not in common]
    if not common:
        return CONFLICT
    return common[0] if len(common) == 1 else common


def join_enums(one: Any, other: Any) -> Any:
    """The values that both allow; 1 and true are different values."""
    if not isinstance(one, list) or not isinstance(other, list):
        return CONFLICT
    known = {json_key(value) for value in other}
    return [value for value in one if json_key(value) in known] or CONFLICT


def json_key(value: Any) -> str:
    """A key that is the same for equal JSON values: 1 and 1.0 are equal, true differs."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True)


def _join_lists(one: Any, other: Any) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return CONFLICT
    return one + [item for item in other if item not in one]


def _join_limits(choose: Callable[[Any, Any], Any]) -> Join:
    return lambda one, other: choose(one, other) if _is_number(one) and _is_number(other) else CONFLICT


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


def _take_either(one: Any, other: Any) -> Any:
    return bool(one) or bool(other)


_JOINS: dict[str, Join] = {
    "required": _join_lists,
    "not": lambda one, other: {"anyOf": [one, other]},
    "patternProperties": _join_maps,
    "uniqueItems": _take_either,
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _join_singles),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _join_limits(max)),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _join_limits(min)),
}
"""Joins that `fold_schema` and `find_ways` share."""
_FOLD_JOINS: dict[str, Join] = {
    **_JOINS,
    "type": join_types,
    "enum": join_enums,
    "allOf": _join_lists,
    "contains": _join_singles,
    "nullable": lambda one, other: bool(one) and bool(other),
    **dict.fromkeys(("anyOf", "oneOf"), _join_alternatives),
    **dict.fromkeys(("properties", "dependentSchemas"), _join_maps),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), _take_either),
    # The referring schema describes this particular use, which is what a model needs.
    **dict.fromkeys(
        ("title", "description", "default", "example", "examples", "$comment", "$schema"), lambda one, _other: one
    ),
}


def fold_schema(schema: Schema, refs: References, lost: ReportLoss) -> tuple[Schema, tuple[str, ...]]:
    """`schema` with its own `$ref` and `allOf` folded in, and the references that were followed."""
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
    node: Schema, refs: References, trail: frozenset[str], lost: ReportLoss
) -> list[tuple[SubSchema, frozenset[str]]]:
    """The schemas that apply to the same value as `node`, each with the references that lead to it."""
    found: list[tuple[SubSchema, frozenset[str]]] = []
    for key in REFERENCES:
        if key not in node:
            continue
        ref = node[key]
        target = refs.resolve(ref)
        if target is None:
            lost(f"{key} {ref!r} leads nowhere in this schema; it is left out")
        elif ref not in trail:
            # Following a self-reference a second time adds nothing.
            found.append((target, trail | {ref}))
    branches = node.get("allOf")
    if isinstance(branches, list):
        found.extend((branch, trail) for branch in branches if isinstance(branch, (dict, bool)))
    return found


def intersect_schemas(left: Schema, right: Schema, lost: ReportLoss) -> Schema:
    """Merge both schemas; where they cannot be joined, `left` wins."""
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
        if (
            closed.get("additionalProperties") is False
            and mapping_of(other, "properties").keys() - mapping_of(closed, "properties").keys()
        ):
            lost("schemas that forbid each other's properties were joined; all their properties are allowed")
            break
    return out


_MAX_WAYS = 24
"""Maximum number of ways to keep."""
_MAX_VISITS = 2000
"""Maximum number of subschemas to visit for one schema."""
COMPOSED = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "then", "else"})
_INEXACT = frozenset({"not", "dependentSchemas", "dependentRequired", "dependencies", "contains", "$dynamicRef"})
_INEXACT |= {"unevaluatedProperties", "unevaluatedItems", "$recursiveRef", "if"}


class SchemaWay(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a schema."""

    schema: dict[str, Any]
    checked: bool = False
    """True if a value generated from it may not satisfy the original schema."""


def find_ways(root: dict[str, Any], node: SubSchema) -> list[SchemaWay]:
    """Every way to satisfy the node; empty if there is none. Of very many, some are left out and the others marked."""
    return _find_ways(_VisitBudget(root), node, ())


class _VisitBudget:
    """The remaining budget of visits: a few definitions that refer to each other can make very many ways."""

    __slots__ = ("left", "root")

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.left = _MAX_VISITS


def _find_ways(budget: _VisitBudget, node: SubSchema, seen: tuple[str, ...]) -> list[SchemaWay]:
    budget.left -= 1
    if budget.left < 0:
        return [SchemaWay({}, True)]
    if node is False:
        return []
    if not isinstance(node, dict):
        return [SchemaWay({})]
    if COMPOSED.isdisjoint(node):
        return [SchemaWay(node, not _INEXACT.isdisjoint(node))]
    own = {key: value for key, value in node.items() if key not in COMPOSED}
    parts = [[SchemaWay(own, not _INEXACT.isdisjoint(node))]]
    ref = node.get("$ref", node.get("$dynamicRef"))
    if isinstance(ref, str) and ref not in seen:
        target = resolve_pointer(budget.root, ref)
        parts.append([SchemaWay({}, True)] if target is None else _find_ways(budget, target, (*seen, ref)))
    parts += [_find_ways(budget, sub, seen) for sub in _branches_of(node, "allOf")]
    if "anyOf" in node:
        parts.append([way for branch in _ways_of_branches(budget, _branches_of(node, "anyOf"), seen) for way in branch])
    if "oneOf" in node:
        ways = _ways_of_branches(budget, _branches_of(node, "oneOf"), seen)
        schemas = [way.schema for branch in ways for way in branch]
        sure = len(ways) == len(_branches_of(node, "oneOf")) and all(len(branch) == 1 for branch in ways)
        sure = sure and (_differ_in_type(schemas) or _differ_in_constant(schemas))
        parts.append([way if sure else SchemaWay(way.schema, True) for branch in ways for way in branch])
    if "if" in node:
        met = _combine_ways([_find_ways(budget, node["if"], seen), _find_ways(budget, node.get("then", True), seen)])
        parts.append([SchemaWay(way.schema, True) for way in [*_find_ways(budget, node.get("else", True), seen), *met]])
    return _combine_ways(parts)


def _ways_of_branches(budget: _VisitBudget, nodes: list[SubSchema], seen: tuple[str, ...]) -> list[list[SchemaWay]]:
    """The ways of each branch; once the budget is spent, of the first branches only."""
    found: list[list[SchemaWay]] = []
    for node in nodes:
        if budget.left <= 0 and any(found):
            break
        found.append(_find_ways(budget, node, seen))
    return found


def _branches_of(node: Mapping[str, Any], key: str) -> list[SubSchema]:
    value = node.get(key)
    return value if isinstance(value, list) else []


def _combine_ways(parts: list[list[SchemaWay]]) -> list[SchemaWay]:
    found = parts[0]
    for ways in parts[1:]:
        # Take pairs from the front of both lists, so that no branch is left out completely.
        order = sorted((i + j, i, j) for i in range(len(found)) for j in range(len(ways)))
        pairs = [(found[i], ways[j]) for _, i, j in order]
        joined = [_join_ways(one, other) for one, other in pairs[: _MAX_WAYS * 4]]
        found = [way for way in joined if way is not None][:_MAX_WAYS]
    return found


def allowed_types(schema: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The types a schema allows, in its order; None if it allows any."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return (kind,)
    return tuple(kind) if isinstance(kind, list) else None


def is_scalar(root: Schema, node: SubSchema) -> bool:
    """True if a schema allows neither objects nor arrays, in one of its variants."""
    kinds = [allowed_types(way.schema) for way in find_ways(root, node)]
    return any(each is not None and {"object", "array"}.isdisjoint(each) for each in kinds)


def _differ_in_type(schemas: list[dict[str, Any]]) -> bool:
    """True if the types alone ensure that no value satisfies two of them."""
    seen: list[str] = []
    for schema in schemas:
        kinds = allowed_types(schema)
        if kinds is None:
            return False
        seen += ["number" if kind == "integer" else kind for kind in dict.fromkeys(kinds)]
    return len(set(seen)) == len(seen)


def _differ_in_constant(schemas: list[dict[str, Any]]) -> bool:
    """True if all are objects with a required discriminator, whose allowed values differ in each."""
    if any(allowed_types(schema) != ("object",) for schema in schemas):
        return False
    for name in schemas[0].get("required") or ():
        words: list[str] = []
        for schema in schemas:
            node = mapping_of(schema, "properties").get(name)
            values = allowed_values(node) if isinstance(node, dict) and name in (schema.get("required") or ()) else None
            if not values:
                break
            words += [json_key(value) for value in values]
        else:
            if len(set(words)) == len(words):
                return True
    return False


def _join_ways(one: SchemaWay, other: SchemaWay) -> SchemaWay | None:
    """Merge two ways; None if no value satisfies both."""
    mine, theirs, checked = one.schema, other.schema, one.checked or other.checked
    if not mine or not theirs:
        return SchemaWay(mine or theirs, checked)
    schema = {**theirs, **mine}
    for key in [key for key in mine if key in theirs]:
        if mine[key] != theirs[key] or type(mine[key]) is not type(theirs[key]):
            join = _WAY_JOINS.get(key)
            joined = CONFLICT if join is None else join(mine[key], theirs[key])
            if joined is not CONFLICT:
                schema[key] = joined
            elif key in _UNMERGED:
                checked = True
    if allowed_types(mine) is not None and allowed_types(theirs) is not None:
        schema["type"] = join_types(mine["type"], theirs["type"])
    values = allowed_values(mine), allowed_values(theirs)
    if values[0] is not None and values[1] is not None:
        schema.pop("const", None)
        schema["enum"] = join_enums(*values)
    if schema.get("type") is CONFLICT or schema.get("enum") is CONFLICT:
        return None
    properties = mapping_of(mine, "properties"), mapping_of(theirs, "properties")
    if properties[0] or properties[1]:
        # For a name that only one of them declares, the other's additional-properties rule applies.
        schema["properties"] = {
            name: join_schemas(_property_node(mine, properties[0], name), _property_node(theirs, properties[1], name))
            for name in dict.fromkeys((*properties[0], *properties[1]))
        }
    return SchemaWay(schema, checked)


def _property_node(schema: Mapping[str, Any], properties: Mapping[str, Any], name: str) -> SubSchema:
    if name in properties:
        node: SubSchema = properties[name]
        return node
    if mapping_of(schema, "patternProperties"):
        return True  # may or may not apply; the value is checked
    rest = schema.get("additionalProperties", True)
    return rest if isinstance(rest, (dict, bool)) else True


def _join_multiples(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return lcm(one, other)
    mine, theirs = Fraction(str(one)), Fraction(str(other))
    both = Fraction(lcm(mine.numerator, theirs.numerator), gcd(mine.denominator, theirs.denominator))
    return int(both) if both.denominator == 1 else float(both)


def _join_prefixes(one: Any, other: Any) -> Any:
    longest = max(len(one), len(other))
    return [reduce(join_schemas, [part[at] for part in (one, other) if at < len(part)]) for at in range(longest)]


_WAY_JOINS: Mapping[str, Join] = {
    **_JOINS,
    "minContains": max,
    "multipleOf": _join_multiples,
    "examples": lambda one, other: [*one, *other] if isinstance(one, list) and isinstance(other, list) else one,
    "prefixItems": _join_prefixes,
}
_UNMERGED = frozenset({"pattern", "contains", "dependentSchemas", "dependentRequired", "dependencies", "maxContains"})
_UNMERGED |= {"unevaluatedProperties", "unevaluatedItems", "additionalItems"}
