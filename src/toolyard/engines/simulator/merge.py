"""Schemas that must hold together, as one; and those of which one must hold, one by one.

`flat` gives every way to satisfy a schema as a schema without `$ref`, `allOf`, `anyOf`, `oneOf` and `if`. What cannot
be written as one schema is left out of it and marked: whoever makes a value of it has to check the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from math import gcd, lcm
from typing import Any

import msgspec

from toolyard.engines.simulator.draw import encode
from toolyard.schema.refs import resolve_pointer

Node = dict[str, Any] | bool

_MOST = 24
"""Ways that are kept."""
_LOOKS = 2000
"""Parts of a schema that are looked at for one."""
COMPOSED = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "then", "else"})
_CHECKED = frozenset({"not", "dependentSchemas", "dependentRequired", "dependencies", "contains", "$dynamicRef"})
_CHECKED |= {"unevaluatedProperties", "unevaluatedItems", "$recursiveRef", "if"}


class Flat(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a schema."""

    schema: dict[str, Any]
    checked: bool = False
    """True if a value made of it may not satisfy the schema."""


def flat(root: dict[str, Any], node: Node) -> list[Flat]:
    """Every way to satisfy the node; none if there is none. What is left out of very many is marked."""
    return _flat(_Look(root), node, ())


class _Look:
    """How much is still looked at: a few definitions that refer to one another often are very many ways."""

    __slots__ = ("left", "root")

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.left = _LOOKS


def _flat(look: _Look, node: Node, seen: tuple[str, ...]) -> list[Flat]:
    look.left -= 1
    if look.left < 0:
        return [Flat({}, True)]
    if node is False:
        return []
    if not isinstance(node, dict):
        return [Flat({})]
    if COMPOSED.isdisjoint(node):
        return [Flat(node, not _CHECKED.isdisjoint(node))]
    own = {key: value for key, value in node.items() if key not in COMPOSED}
    parts = [[Flat(own, not _CHECKED.isdisjoint(node))]]
    ref = node.get("$ref", node.get("$dynamicRef"))
    if isinstance(ref, str) and ref not in seen:
        target = resolve_pointer(look.root, ref)
        parts.append([Flat({}, True)] if target is None else _flat(look, target, (*seen, ref)))
    parts += [_flat(look, sub, seen) for sub in _list(node, "allOf")]
    if "anyOf" in node:
        parts.append([way for branch in _branches(look, _list(node, "anyOf"), seen) for way in branch])
    if "oneOf" in node:
        ways = _branches(look, _list(node, "oneOf"), seen)
        schemas = [way.schema for branch in ways for way in branch]
        sure = len(ways) == len(_list(node, "oneOf")) and all(len(branch) == 1 for branch in ways)
        sure = sure and (_apart(schemas) or _told_apart(schemas))
        parts.append([way if sure else Flat(way.schema, True) for branch in ways for way in branch])
    if "if" in node:
        met = _together([_flat(look, node["if"], seen), _flat(look, node.get("then", True), seen)])
        parts.append([Flat(way.schema, True) for way in [*_flat(look, node.get("else", True), seen), *met]])
    return _together(parts)


def _branches(look: _Look, nodes: list[Node], seen: tuple[str, ...]) -> list[list[Flat]]:
    """The ways of each; of the first ones only, where there are too many."""
    found: list[list[Flat]] = []
    for node in nodes:
        if look.left <= 0 and any(found):
            break
        found.append(_flat(look, node, seen))
    return found


def _list(node: Mapping[str, Any], key: str) -> list[Node]:
    value = node.get(key)
    return value if isinstance(value, list) else []


def _together(parts: list[list[Flat]]) -> list[Flat]:
    found = parts[0]
    for ways in parts[1:]:
        # From the front of both, so that no branch is left out altogether.
        order = sorted((i + j, i, j) for i in range(len(found)) for j in range(len(ways)))
        pairs = [(found[i], ways[j]) for _, i, j in order]
        joined = [_both(one, other) for one, other in pairs[: _MOST * 4]]
        found = [way for way in joined if way is not None][:_MOST]
    return found


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The types a schema allows, in its order; None for any."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return (kind,)
    return tuple(kind) if isinstance(kind, list) else None


def _apart(schemas: list[dict[str, Any]]) -> bool:
    """True if no value can satisfy two of them, by their types alone."""
    seen: list[str] = []
    for schema in schemas:
        kinds = types_of(schema)
        if kinds is None:
            return False
        seen += ["number" if kind == "integer" else kind for kind in dict.fromkeys(kinds)]
    return len(set(seen)) == len(seen)


def _told_apart(schemas: list[dict[str, Any]]) -> bool:
    """True if all are objects that must say which they are: `kind` is another word in each."""
    if any(types_of(schema) != ("object",) for schema in schemas):
        return False
    for name in schemas[0].get("required") or ():
        words: list[bytes] = []
        for schema in schemas:
            node = _map(schema, "properties").get(name)
            values = _allowed(node) if isinstance(node, dict) and name in (schema.get("required") or ()) else None
            if not values:
                break
            words += [encode(value) for value in values]
        else:
            if len(set(words)) == len(words):
                return True
    return False


def _both(one: Flat, other: Flat) -> Flat | None:
    if not one.schema or not other.schema:
        return Flat(one.schema or other.schema, one.checked or other.checked)
    merged = _Merged(one.schema, other.schema, one.checked or other.checked)
    return merged.result()


class _Merged:
    """Two schemas as one."""

    def __init__(self, one: dict[str, Any], other: dict[str, Any], checked: bool) -> None:
        self.one, self.other, self.checked = one, other, checked
        self.empty = False

    def result(self) -> Flat | None:
        one, other = self.one, self.other
        schema = {**other, **one}
        for key in [key for key in one if key in other]:
            if one[key] != other[key] or type(one[key]) is not type(other[key]):
                merge = _KEYWORDS.get(key)
                if merge is not None:
                    schema[key] = merge(one[key], other[key])
                elif key in _UNMERGED:
                    self.checked = True
        self.kinds(schema)
        self.values(schema)
        self.members(schema)
        return None if self.empty else Flat(schema, self.checked)

    def kinds(self, schema: dict[str, Any]) -> None:
        mine, theirs = types_of(self.one), types_of(self.other)
        if mine is None or theirs is None:
            return
        shared = [kind for kind in mine if kind in theirs or (kind == "integer" and "number" in theirs)]
        shared += [kind for kind in theirs if kind == "integer" and "number" in mine and kind not in shared]
        schema["type"] = shared
        self.empty = self.empty or not shared

    def values(self, schema: dict[str, Any]) -> None:
        lists = [_allowed(part) for part in (self.one, self.other)]
        if lists[0] is None or lists[1] is None:
            return
        texts = {encode(value) for value in lists[1]}
        schema.pop("const", None)
        schema["enum"] = [value for value in lists[0] if encode(value) in texts]
        self.empty = self.empty or not schema["enum"]

    def members(self, schema: dict[str, Any]) -> None:
        """Properties of both; where one says nothing about a name, what it says about others holds."""
        mine, theirs = _map(self.one, "properties"), _map(self.other, "properties")
        if not mine and not theirs:
            return
        schema["properties"] = {
            name: _all_of(_declared(self.one, mine, name), _declared(self.other, theirs, name))
            for name in dict.fromkeys((*mine, *theirs))
        }


def _allowed(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _map(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def _declared(schema: Mapping[str, Any], properties: Mapping[str, Any], name: str) -> Node:
    if name in properties:
        node: Node = properties[name]
        return node
    if _map(schema, "patternProperties"):
        return True  # which may or may not be meant; the value is checked
    rest = schema.get("additionalProperties", True)
    return rest if isinstance(rest, (dict, bool)) else True


def _all_of(one: Node, other: Node) -> Node:
    if one is True or one == {}:
        return other
    if other is True or other == {} or one is other:
        return one
    if one is False or other is False:
        return False
    return {"allOf": [one, other]}


def _union(one: Any, other: Any) -> Any:
    return list(dict.fromkeys((*one, *other))) if isinstance(one, list) and isinstance(other, list) else one


def _multiple(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return lcm(one, other)
    mine, theirs = Fraction(str(one)), Fraction(str(other))
    both = Fraction(lcm(mine.numerator, theirs.numerator), gcd(mine.denominator, theirs.denominator))
    return int(both) if both.denominator == 1 else float(both)


def _prefix(one: Any, other: Any) -> Any:
    longest = max(len(one), len(other))
    return [reduce(_all_of, [part[at] for part in (one, other) if at < len(part)]) for at in range(longest)]


def _names(one: Any, other: Any) -> Any:
    return {name: _all_of(one.get(name, True), other.get(name, True)) for name in dict.fromkeys((*one, *other))}


_KEYWORDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "minimum": max,
    "exclusiveMinimum": max,
    "minLength": max,
    "minItems": max,
    "minProperties": max,
    "minContains": max,
    "maximum": min,
    "exclusiveMaximum": min,
    "maxLength": min,
    "maxItems": min,
    "maxProperties": min,
    "multipleOf": _multiple,
    "required": _union,
    "examples": lambda one, other: [*one, *other] if isinstance(one, list) and isinstance(other, list) else one,
    "uniqueItems": lambda one, other: one or other,
    "items": _all_of,
    "additionalProperties": _all_of,
    "propertyNames": _all_of,
    "prefixItems": _prefix,
    "patternProperties": _names,
    "not": lambda one, other: {"anyOf": [one, other]},
}
_UNMERGED = frozenset({"pattern", "contains", "dependentSchemas", "dependentRequired", "dependencies", "maxContains"})
_UNMERGED |= {"unevaluatedProperties", "unevaluatedItems", "additionalItems"}
