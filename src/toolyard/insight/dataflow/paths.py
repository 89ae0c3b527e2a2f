"""The typed paths of a schema: `users[].id`, an integer, described so, inside something called `User`.

`$ref`, `allOf`, `anyOf`, `oneOf`, lists of types and null are followed; a type that is missing is inferred from what
else is said. Paths are given breadth first, so that a limit cuts what lies deepest.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolyard.model.names import json_type

STRING, INTEGER, NUMBER, BOOLEAN, OBJECT, ARRAY = (1 << bit for bit in range(6))
SCALAR = STRING | INTEGER | NUMBER | BOOLEAN
KINDS = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN, "object": OBJECT, "array": ARRAY}

MAX_FIELDS = 160
"""Of one schema. What is cut lies deepest."""
MAX_REQUIRED = 1000
_MAX_PARTS = 200
"""Schemas that are put together for one value; unions of unions end."""


Schema = Mapping[str, Any]

KEYWORD_KINDS = (
    (("properties", "additionalProperties", "required", "patternProperties"), OBJECT),
    (("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), ARRAY),
    (("pattern", "minLength", "maxLength", "contentMediaType"), STRING),
    (("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), INTEGER | NUMBER),
)


class Settled(NamedTuple):
    """What may be in a value, references and unions put together."""

    kinds: int
    """Bits; null is left out."""
    said: Schema
    """What else is said of it."""
    properties: Schema | None
    required: Sequence[Any]
    hint: str | None
    """What the schema is called."""
    inner: Settled | None
    """What a list holds."""
    item_kinds: int


def fold_schema(schema: Schema, root: Schema, depth: int = 4) -> Settled:
    """A schema without references and unions: what may be in it, all together."""
    found: dict[str, Any] = {"kinds": 0}
    _merge_schema(found, schema, root, [_MAX_PARTS], ())
    kinds, properties, required = found["kinds"], found.get("properties"), found.get("required", ())
    if properties is not None:
        kinds |= OBJECT
    items: Any = found.get("items")
    hint = found.get("hint")
    places = _places_of(found.get("prefixItems"), items)
    if places:
        kinds = kinds or ARRAY
        found["items"] = items = {"anyOf": places}
    if items is None or not is_mapping(items):
        return Settled(kinds, found, properties, required, hint, None, 0)
    inner = fold_schema(items, root, depth - 1) if depth else _UNKNOWN
    if places and inner.properties is None:
        # Plain values without names, each another thing: the list stands for them, and they are no list of one.
        return Settled(kinds, found, properties, required, hint, None, inner.kinds)
    return Settled(kinds, found, properties, required, inner.hint if hint is None else hint, inner, inner.kinds)


_UNKNOWN = Settled(0, {}, None, (), None, None, 0)


def _places_of(places: Any, items: Any) -> list[Schema]:
    """What the places of a tuple take, and what comes after them; nothing for any other value."""
    if places is None and not isinstance(items, list):
        return []
    # Before 2020-12 the places stood under `items`.
    parts = [part for given in (places, items) if isinstance(given, list) for part in given if is_mapping(part)]
    return [*parts, items] if parts and is_mapping(items) else parts


_UNIONS = ("allOf", "anyOf", "oneOf")
_KEPT = frozenset(("items", "enum", "const", "default", "format", "description")).union(
    *(keywords for keywords, _ in KEYWORD_KINDS)
) - {"properties", "required"}


def _merge_schema(found: dict[str, Any], schema: Schema, root: Schema, left: list[int], seen: tuple[str, ...]) -> None:
    left[0] -= 1
    if left[0] < 0 or not is_mapping(schema):
        return
    reference, united = None, False
    for key, value in schema.items():
        if key in _KEPT:
            found.setdefault(key, value)
        elif key == "type":
            found["kinds"] |= _name_kinds(value)
        elif key == "properties":
            if is_mapping(value):
                found[key] = _join_properties(found.get(key, {}), value)
        elif key == "required":
            if isinstance(value, (list, tuple)):
                names = value[:MAX_REQUIRED]
                found[key] = [*found[key], *names][:MAX_REQUIRED] if key in found else names
        elif key == "title":
            if isinstance(value, str):
                found.setdefault("hint", value)
        elif key == "$ref":
            reference = value
        elif key in _UNIONS:
            united = True
    if isinstance(reference, str) and reference not in seen:
        target = _resolve_reference(reference, root)
        if target is not None:
            found.setdefault("hint", _name_reference(reference))
            _merge_schema(found, target, root, left, (*seen, reference))
    if united:
        _merge_unions(found, schema, root, left, seen)


def _join_properties(known: Schema, more: Schema) -> Schema:
    """Both, as far as fields are counted; of the same name, the later one."""
    if not known and len(more) <= MAX_FIELDS:
        return more
    if len(known) + len(more) <= MAX_FIELDS:
        return {**known, **more}
    both = {name: more.get(name, part) for name, part in known.items()}
    fresh = ((name, part) for name, part in more.items() if name not in known)
    both.update(itertools.islice(fresh, MAX_FIELDS - len(both)))
    return both


def _merge_unions(found: dict[str, Any], schema: Schema, root: Schema, left: list[int], seen: tuple[str, ...]) -> None:
    for key in _UNIONS:
        if key not in schema or not isinstance(parts := schema[key], list):
            continue
        before = found.get("required", ())
        for part in parts:
            _merge_schema(found, part, root, left, seen)
        if key != "allOf" and len(parts) > 1:
            # What only one of the branches asks for is not asked for by all.
            found["required"] = before


def _name_kinds(value: Any) -> int:
    """The bits of what stands under `type`."""
    kinds = 0
    for name in value if isinstance(value, (list, tuple)) else (value,):
        kinds |= KINDS.get(name, 0) if isinstance(name, str) else 0
    return kinds


def _name_reference(reference: str) -> str:
    return reference.rpartition("/")[2].lstrip("#")


def _resolve_reference(reference: str, root: Schema) -> Schema | None:
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    here: Any = root
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if not is_mapping(here) or part not in here:
            return None
        here = here[part]
    return here if is_mapping(here) else None


def is_mapping(value: Any) -> bool:
    """Whether a value is an object; most are dicts, which are told at once."""
    return isinstance(value, (dict, Mapping))


MAX_DEPTH = 6
_MAX_VALUES = 1000
"""Listed values that are looked at."""


class Holder(NamedTuple):
    """What the values side by side in an object have in common."""

    parents: tuple[str, ...]
    """The names around them, outermost first."""
    hint: str
    """What the schema that holds them is called (its `title`, or the last part of its `$ref`)."""
    lists: int
    """How many lists are on the way."""


class SchemaField(NamedTuple):
    """One value that a tool takes or gives."""

    path: str
    """Names joined by dots, `[]` behind a list; empty for an answer that is one value itself."""
    name: str
    holder: Holder
    kinds: int
    items: int
    """The kinds of what a list holds; 0 if it is none."""
    description: str
    required: bool

    @property
    def parents(self) -> tuple[str, ...]:
        """The names around it, outermost first."""
        return self.holder.parents

    @property
    def hint(self) -> str:
        """What the schema that holds it is called."""
        return self.holder.hint

    @property
    def lists(self) -> int:
        """How many lists are on the way."""
        return self.holder.lists


_OUTSIDE = Holder((), "", 0)
_WHOLE = frozenset(("", "[]"))
"""Paths of what is no field unless it is one value."""


class _Node(NamedTuple):
    """A value that is met."""

    settled: Settled
    path: str
    name: str
    holder: Holder
    required: bool
    depth: int


def fields_of(schema: Schema, *, limit: int = MAX_FIELDS) -> list[SchemaField]:
    """Every value in a schema: those that hold others as well, unless they are the whole."""
    found: list[SchemaField] = []
    if not is_mapping(schema) or not schema:
        return found
    # A value is met as soon as what holds it is opened: that is breadth first.
    opening: deque[_Node] = deque()
    meeting: Iterable[_Node] = [_Node(fold_schema(schema, schema), "", "", _OUTSIDE, True, 0)]
    while True:
        for node in meeting:
            if len(found) >= limit:
                return found
            field = _build_field(node)
            if node.path not in _WHOLE or not field.kinds & (OBJECT | ARRAY):
                found.append(field)
            if node.depth < MAX_DEPTH and _holds_others(node.settled):
                opening.append(node)
        if not opening:
            return found
        meeting = _open_node(opening.popleft(), schema)


def _holds_others(settled: Settled) -> bool:
    """Whether there is more in it than plain values, which a list itself stands for."""
    return settled.properties is not None or _is_nested(settled.inner)


def _is_nested(inner: Settled | None) -> bool:
    return inner is not None and (inner.properties is not None or inner.inner is not None)


def _open_node(node: _Node, root: Schema) -> Iterator[_Node]:
    """What is in a value."""
    settled, path, name, outer, required, depth = node
    hint, inner = settled.hint or "", settled.inner
    if settled.properties is not None:
        needed = _read_required(settled.required) if required else frozenset()
        holder = Holder((*outer.parents, name) if name else outer.parents, hint, outer.lists)
        for key, part in settled.properties.items():
            folded = fold_schema(part if is_mapping(part) else {}, root)
            yield _Node(folded, f"{path}.{key}" if path else str(key), str(key), holder, key in needed, depth + 1)
    if inner is not None and _is_nested(inner):
        # What it holds is called as it is.
        holder = Holder(outer.parents, hint, outer.lists + 1)
        yield _Node(inner, path + "[]", name, holder, False, depth + 1)


def _read_required(required: Sequence[Any]) -> frozenset[str]:
    return frozenset([name for name in required[:MAX_REQUIRED] if isinstance(name, str)])


def needed_of(required: Iterable[str]) -> frozenset[str]:
    """Of required paths those that a call must have: not what only holds others that are."""
    paths = list(required)
    return frozenset(paths).difference([path.rpartition(".")[0] for path in paths if "." in path], _WHOLE)


def _build_field(node: _Node) -> SchemaField:
    said = node.settled.said
    text = said.get("description")
    text = text if isinstance(text, str) else ""
    kinds = node.settled.kinds or _guess_kinds(said)
    items = 0
    if kinds & ARRAY:
        items = node.settled.item_kinds or (0 if is_mapping(said.get("items")) else SCALAR | OBJECT)
    return SchemaField(node.path, node.name, node.holder, kinds, items, text, node.required)


def _guess_kinds(settled: Schema) -> int:
    """What a value may be whose type is not said."""
    values = settled.get("enum") or [settled[key] for key in ("const", "default") if settled.get(key) is not None]
    if isinstance(values, list) and values:
        return _kinds_of_values(values)
    if settled.get("format"):
        return STRING
    for keywords, kinds in KEYWORD_KINDS:
        if any(keyword in settled for keyword in keywords):
            return kinds
    return SCALAR


def _kinds_of_values(values: list[Any]) -> int:
    kinds = 0
    for value in values[:_MAX_VALUES]:
        kinds |= OBJECT if is_mapping(value) else KINDS.get(json_type(value), 0)
    return kinds or SCALAR
