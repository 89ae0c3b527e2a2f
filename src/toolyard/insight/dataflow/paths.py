"""The typed paths of a schema: `users[].id`, an integer, described so, inside something called `User`.

`$ref`, `allOf`, `anyOf`, `oneOf`, lists of types and null are followed; a type that is missing is inferred from what
else is said. Every value is read; the limits are for schemas that would never end, and what they cut is counted.
Paths are given breadth first, so that it lies deepest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from toolyard.model.names import json_type
from toolyard.model.tool import Schema
from toolyard.schema.subschemas import resolve_pointer, types_of

STRING, INTEGER, NUMBER, BOOLEAN, OBJECT, ARRAY = (1 << bit for bit in range(6))
SCALAR = STRING | INTEGER | NUMBER | BOOLEAN
KINDS = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN, "object": OBJECT, "array": ARRAY}

MAX_FIELDS = 2000
"""Of one schema. Of 4,775 real operations none answers with more."""
MAX_REQUIRED = 1000
_MAX_PARTS = 200
"""Schemas that are put together for one value; unions of unions end."""
_MAX_WORK = 100_000
"""Schemas and properties that are put together for all values of one schema."""


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


class _Folder:
    """Puts schemas of one root together: no references and unions, but what may be in a value, all at once."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.work = _MAX_WORK
        self._known: dict[tuple[str, int], Settled] = {}
        self._open: dict[int, list[tuple[str, Settled]]] = {}

    def fold(self, schema: Any, depth: int = 4) -> Settled:
        """What may be in a value; behind the same reference the same, worked out once."""
        if type(schema) is dict and _MORE.isdisjoint(schema):
            name = schema.get("type")
            if isinstance(name, str) and name in _PLAIN:
                return Settled(_PLAIN[name], schema, None, (), None, None, 0)
        reference = schema.get("$ref") if isinstance(schema, dict) and len(schema) == 1 else None
        if not isinstance(reference, str):
            return self._fold(schema, depth)
        key = reference, depth
        if key not in self._known:
            self._known[key] = self._fold(schema, depth)
        return self._known[key]

    def open(self, properties: Schema) -> list[tuple[str, Settled]]:
        """What may be in each property; of the same properties in another place the same."""
        found = self._open.get(id(properties))
        if found is None:
            # `said` of a value has the properties, so that they live as long as their number is kept.
            found = self._open[id(properties)] = [(str(key), self.fold(part)) for key, part in properties.items()]
        return found

    def _fold(self, schema: Any, depth: int) -> Settled:
        found: dict[str, Any] = {"kinds": 0}
        _merge_schema(found, schema, self, [_MAX_PARTS], ())
        kinds, properties, required = found["kinds"], found.get("properties"), found.get("required", ())
        if properties is not None:
            kinds |= OBJECT
        items: Any = found.get("items")
        hint = found.get("hint")
        places = _places_of(found.get("prefixItems"), items)
        if places:
            kinds = kinds or ARRAY
            found["items"] = items = {"anyOf": places}
        if items is None or not isinstance(items, dict):
            return Settled(kinds, found, properties, required, hint, None, 0)
        inner = self.fold(items, depth - 1) if depth else _UNKNOWN
        if places and inner.properties is None:
            # Plain values without names, each another thing: the list stands for them, and they are no list of one.
            return Settled(kinds, found, properties, required, hint, None, inner.kinds)
        return Settled(kinds, found, properties, required, inner.hint if hint is None else hint, inner, inner.kinds)


_PLAIN = {name: kind for name, kind in KINDS.items() if kind & SCALAR}
_MORE = frozenset(("$ref", "allOf", "anyOf", "oneOf", "title", "properties", "items", "prefixItems"))
"""What makes a schema more than one plain value."""


_UNKNOWN = Settled(0, {}, None, (), None, None, 0)


def _places_of(places: Any, items: Any) -> list[Schema]:
    """What the places of a tuple take, and what comes after them; nothing for any other value."""
    if places is None and not isinstance(items, list):
        return []
    # Before 2020-12 the places stood under `items`.
    parts = [part for given in (places, items) if isinstance(given, list) for part in given if isinstance(part, dict)]
    return [*parts, items] if parts and isinstance(items, dict) else parts


_UNIONS = ("allOf", "anyOf", "oneOf")
_KEPT = frozenset(("items", "enum", "const", "default", "format", "description")).union(
    *(keywords for keywords, _ in KEYWORD_KINDS)
) - {"properties", "required"}


def _merge_schema(
    found: dict[str, Any], schema: Schema, folder: _Folder, left: list[int], seen: tuple[str, ...]
) -> None:
    left[0] -= 1
    folder.work -= 1
    if left[0] < 0 or folder.work < 0 or not isinstance(schema, dict):
        return
    reference, united = None, False
    for key, value in schema.items():
        if key in _KEPT:
            found.setdefault(key, value)
        elif key == "type":
            found["kinds"] |= _name_kinds(value)
            found["null"] = value == "null"
        elif key == "properties":
            if isinstance(value, dict) and key in found:
                # Of the same name, the later one.
                found[key] = {**found[key], **value}
                folder.work -= len(found[key])
            elif isinstance(value, dict):
                found[key] = value
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
        target = resolve_pointer(folder.root, reference)
        if isinstance(target, dict):
            found.setdefault("hint", reference.rpartition("/")[2].lstrip("#"))
            _merge_schema(found, target, folder, left, (*seen, reference))
    if united:
        _merge_unions(found, schema, folder, left, seen)


def _merge_unions(
    found: dict[str, Any], schema: Schema, folder: _Folder, left: list[int], seen: tuple[str, ...]
) -> None:
    for key in _UNIONS:
        if key not in schema or not isinstance(parts := schema[key], list):
            continue
        before = found.get("required", ())
        for part in parts:
            _merge_schema(found, part, folder, left, seen)
        if key != "allOf" and len(parts) > 1:
            # What only one of the branches asks for is not asked for by all.
            found["required"] = before


def _name_kinds(value: Any) -> int:
    """The bits of what stands under `type`."""
    kinds = 0
    for name in types_of(value):
        kinds |= KINDS.get(name, 0)
    return kinds


MAX_DEPTH = 10
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
    format: str
    """Of the value, or of what a list holds."""
    required: bool


class Fields(NamedTuple):
    """The values in a schema."""

    found: list[SchemaField]
    unread: int
    """How many are known to be there and were not looked at, nor what is in them."""


_OUTSIDE = Holder((), "", 0)
_WHOLE = frozenset(("", "[]"))
"""Paths of what is no field unless it is one value."""


class _Node(NamedTuple):
    """A value, and where it is."""

    settled: Settled
    path: str
    name: str
    holder: Holder
    required: bool
    inside: tuple[int, ...]
    """The properties that it is inside of, which tell one schema from another."""


def fields_of(schema: Schema) -> Fields:
    """Every value in a schema: those that hold others as well, unless they are the whole."""
    if not isinstance(schema, dict) or not schema:
        return Fields([], 0)
    folder = _Folder(schema)
    found: list[SchemaField] = []
    unread = 0
    # What is inside a value is opened when its turn comes: a schema of 100 KB may have millions of values.
    waiting: deque[Iterator[_Node]] = deque([iter((_Node(folder.fold(schema), "", "", _OUTSIDE, True, ()),))])
    for node in chain.from_iterable(_take_all(waiting)):
        field = _build_field(node)
        if field is None:
            continue
        if len(found) >= MAX_FIELDS:
            unread += 1
            continue
        if node.path not in _WHOLE or not field.kinds & (OBJECT | ARRAY):
            found.append(field)
        if _has_more(node):
            if len(node.inside) < MAX_DEPTH:
                waiting.append(_open_node(folder, node))
            else:
                unread += 1
    return Fields(found, unread + (folder.work < 0))


def _take_all(waiting: deque[Iterator[_Node]]) -> Iterator[Iterator[_Node]]:
    while waiting:
        yield waiting.popleft()


def _has_more(node: _Node) -> bool:
    """Whether there are others in a value; what is inside itself over again has nothing new."""
    properties = node.settled.properties
    return _is_nested(node.settled.inner) if properties is None else node.inside.count(id(properties)) < 2


def _open_node(folder: _Folder, node: _Node) -> Iterator[_Node]:
    """What is in a value."""
    settled, path, name, outer, required, inside = node
    hint, inner, properties = settled.hint or "", settled.inner, settled.properties
    if properties is not None:
        needed = _read_required(settled.required) if required else frozenset()
        holder = Holder((*outer.parents, name) if name else outer.parents, hint, outer.lists)
        within = (*inside, id(properties))
        prefix = f"{path}." if path else ""
        for key, part in folder.open(properties):
            yield _Node(part, prefix + key, key, holder, key in needed, within)
    if inner is not None and _is_nested(inner):
        # What it holds is called as it is.
        yield _Node(inner, path + "[]", name, Holder(outer.parents, hint, outer.lists + 1), False, inside)


def _is_nested(inner: Settled | None) -> bool:
    """Whether there is more in it than plain values, which a list itself stands for."""
    return inner is not None and (inner.properties is not None or inner.inner is not None)


def _read_required(required: Sequence[Any]) -> frozenset[str]:
    return frozenset([name for name in required[:MAX_REQUIRED] if isinstance(name, str)])


def needed_of(required: Iterable[str]) -> frozenset[str]:
    """Of required paths those that a call must have: not what only holds others that are."""
    paths = list(required)
    return frozenset(paths).difference([path.rpartition(".")[0] for path in paths if "." in path], _WHOLE)


def _build_field(node: _Node) -> SchemaField | None:
    """None for what is never anything but null, and for an answer of which nothing is said."""
    settled, path, name, holder, required, _ = node
    kinds, said = settled.kinds, settled.said
    if not kinds:
        kinds = 0 if said.get("null") else _guess_kinds(said)
        if not kinds or (kinds == SCALAR and not path):
            return None
    items = 0
    if kinds & ARRAY:
        items = settled.item_kinds or (0 if isinstance(said.get("items"), dict) else SCALAR | OBJECT)
    text, form = said.get("description"), said.get("format")
    if settled.inner is not None:
        text, form = text or settled.inner.said.get("description"), form or settled.inner.said.get("format")
    text, form = (text if isinstance(text, str) else ""), (form if isinstance(form, str) else "")
    return SchemaField(path, name, holder, kinds, items, text, form, required)


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
        kinds |= OBJECT if isinstance(value, dict) else KINDS.get(json_type(value), 0)
    return kinds or SCALAR
