"""Read a schema as typed paths: `users[].id`, an integer, with its description, inside something called `User`.

`$ref`, `allOf`, `anyOf`, `oneOf`, type lists and null are resolved; a missing type is inferred from other keywords. All
values are read; limits apply only to pathological schemas, and what they cut is counted. Paths are in breadth-first
order, so limits cut the deepest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from toolyard.model.json_schema import json_type
from toolyard.model.tool import Schema
from toolyard.schema.subschemas import resolve_pointer, types_of

STRING, INTEGER, NUMBER, BOOLEAN, OBJECT, ARRAY = (1 << bit for bit in range(6))
SCALAR = STRING | INTEGER | NUMBER | BOOLEAN
KINDS = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN, "object": OBJECT, "array": ARRAY}

MAX_FIELDS = 2000
"""Maximum number of fields of one schema; none of 4,775 real operations returns more."""
MAX_REQUIRED = 1000
_MAX_PARTS = 200
"""Maximum number of schemas merged for one value, which bounds unions of unions."""
_MAX_WORK = 100_000
"""Maximum number of schemas and properties merged for all values of one schema."""


KEYWORD_KINDS = (
    (("properties", "additionalProperties", "required", "patternProperties"), OBJECT),
    (("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), ARRAY),
    (("pattern", "minLength", "maxLength", "contentMediaType"), STRING),
    (("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), INTEGER | NUMBER),
)


class MergedSchema(NamedTuple):
    """What a value may be, with references and unions merged."""

    kinds: int
    """Type bits, without null."""
    keywords: Schema
    """The other keywords."""
    properties: Schema | None
    required: Sequence[Any]
    hint: str | None
    """The name of the schema."""
    inner: MergedSchema | None
    """The items of a list."""
    item_kinds: int


class _SchemaMerger:
    """Merges references and unions of one root schema into a single description of each value."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.work = _MAX_WORK
        self._known: dict[tuple[str, int], MergedSchema] = {}
        self._open: dict[int, list[tuple[str, MergedSchema]]] = {}

    def merge(self, schema: Any, depth: int = 4) -> MergedSchema:
        """Merge the schema of a value; cached by reference."""
        if type(schema) is dict and _STRUCTURE_KEYWORDS.isdisjoint(schema):
            name = schema.get("type")
            if isinstance(name, str) and name in _PLAIN:
                return MergedSchema(_PLAIN[name], schema, None, (), None, None, 0)
        reference = schema.get("$ref") if isinstance(schema, dict) and len(schema) == 1 else None
        if not isinstance(reference, str):
            return self._merge(schema, depth)
        key = reference, depth
        if key not in self._known:
            self._known[key] = self._merge(schema, depth)
        return self._known[key]

    def open(self, properties: Schema) -> list[tuple[str, MergedSchema]]:
        """Merge the schema of each property; cached by the identity of `properties`."""
        found = self._open.get(id(properties))
        if found is None:
            # `MergedSchema.keywords` refers to the properties, so their `id` stays valid as long as the cache.
            found = self._open[id(properties)] = [(str(key), self.merge(part)) for key, part in properties.items()]
        return found

    def _merge(self, schema: Any, depth: int) -> MergedSchema:
        found: dict[str, Any] = {"kinds": 0}
        _merge_schema(found, schema, self, [_MAX_PARTS], ())
        kinds, properties, required = found["kinds"], found.get("properties"), found.get("required", ())
        if properties is not None:
            kinds |= OBJECT
        items: Any = found.get("items")
        hint = found.get("hint")
        places = _list_positions(found.get("prefixItems"), items)
        if places:
            kinds = kinds or ARRAY
            found["items"] = items = {"anyOf": places}
        if items is None or not isinstance(items, dict):
            return MergedSchema(kinds, found, properties, required, hint, None, 0)
        inner = self.merge(items, depth - 1) if depth else _ANY_VALUE
        if places and inner.properties is None:
            # A tuple of unnamed plain values with different meanings: the list itself stands for them.
            return MergedSchema(kinds, found, properties, required, hint, None, inner.kinds)
        return MergedSchema(
            kinds, found, properties, required, inner.hint if hint is None else hint, inner, inner.kinds
        )


_PLAIN = {name: kind for name, kind in KINDS.items() if kind & SCALAR}
_STRUCTURE_KEYWORDS = frozenset(("$ref", "allOf", "anyOf", "oneOf", "title", "properties", "items", "prefixItems"))
"""Keywords that make a schema more than a plain value."""


_ANY_VALUE = MergedSchema(0, {}, None, (), None, None, 0)


def _list_positions(places: Any, items: Any) -> list[Schema]:
    """The schemas of a tuple's positions and of further items; empty if it is not a tuple."""
    if places is None and not isinstance(items, list):
        return []
    # Before 2020-12, positions were listed under `items`.
    parts = [part for given in (places, items) if isinstance(given, list) for part in given if isinstance(part, dict)]
    return [*parts, items] if parts and isinstance(items, dict) else parts


_UNIONS = ("allOf", "anyOf", "oneOf")
_COPIED_KEYWORDS = frozenset(("items", "enum", "const", "default", "format", "description")).union(
    *(keywords for keywords, _ in KEYWORD_KINDS)
) - {"properties", "required"}


def _merge_schema(
    found: dict[str, Any], schema: Schema, merger: _SchemaMerger, left: list[int], seen: tuple[str, ...]
) -> None:
    left[0] -= 1
    merger.work -= 1
    if left[0] < 0 or merger.work < 0 or not isinstance(schema, dict):
        return
    reference, united = None, False
    for key, value in schema.items():
        if key in _COPIED_KEYWORDS:
            found.setdefault(key, value)
        elif key == "type":
            for name in types_of(value):
                found["kinds"] |= KINDS.get(name, 0)
            found["null"] = value == "null"
        elif key == "properties":
            if isinstance(value, dict) and key in found:
                # For the same name, the later one wins.
                found[key] = {**found[key], **value}
                merger.work -= len(found[key])
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
        target = resolve_pointer(merger.root, reference)
        if isinstance(target, dict):
            found.setdefault("hint", reference.rpartition("/")[2].lstrip("#"))
            _merge_schema(found, target, merger, left, (*seen, reference))
    if united:
        _merge_unions(found, schema, merger, left, seen)


def _merge_unions(
    found: dict[str, Any], schema: Schema, merger: _SchemaMerger, left: list[int], seen: tuple[str, ...]
) -> None:
    for key in _UNIONS:
        if key not in schema or not isinstance(parts := schema[key], list):
            continue
        before = found.get("required", ())
        for part in parts:
            _merge_schema(found, part, merger, left, seen)
        if key != "allOf" and len(parts) > 1:
            # Required in one branch does not mean required in all.
            found["required"] = before


MAX_DEPTH = 10
_MAX_VALUES = 1000
"""Maximum number of values of an enum from which types are inferred."""


class FieldContainer(NamedTuple):
    """What sibling values of an object have in common."""

    parents: tuple[str, ...]
    """Names of the containers, outermost first."""
    hint: str
    """The name of the containing schema (its `title`, or the last part of its `$ref`)."""
    lists: int
    """Number of enclosing lists."""


class SchemaField(NamedTuple):
    """One input or output value of a tool."""

    path: str
    """Names joined by dots, with `[]` after a list; empty for a result that is a single value."""
    name: str
    holder: FieldContainer
    kinds: int
    items: int
    """Type bits of a list's items; 0 if it is not a list."""
    description: str
    format: str
    """The format of the value or of a list's items."""
    required: bool


class Fields(NamedTuple):
    """The values of a schema."""

    found: list[SchemaField]
    unread: int
    """How many known values, not counting those inside them, were not read."""


_ROOT = FieldContainer((), "", 0)
_ROOT_PATHS = frozenset(("", "[]"))
"""Paths of the root, which counts as a field only if it is a plain value."""


class _Node(NamedTuple):
    settled: MergedSchema
    path: str
    name: str
    holder: FieldContainer
    required: bool
    inside: tuple[int, ...]
    """The `id`s of the enclosing `properties`, by which recursion is detected."""


def read_fields(schema: Schema) -> Fields:
    """Read every value of a schema, containers included except for the root."""
    if not isinstance(schema, dict) or not schema:
        return Fields([], 0)
    merger = _SchemaMerger(schema)
    found: list[SchemaField] = []
    unread = 0
    # Containers are expanded lazily: a schema of 100 KB may have millions of values.
    waiting: deque[Iterator[_Node]] = deque([iter((_Node(merger.merge(schema), "", "", _ROOT, True, ()),))])
    while waiting:
        for node in waiting.popleft():
            field = _build_field(node)
            if field is None:
                continue
            if len(found) >= MAX_FIELDS:
                unread += 1
                continue
            if node.path not in _ROOT_PATHS or not field.kinds & (OBJECT | ARRAY):
                found.append(field)
            if _is_expandable(node):
                if len(node.inside) < MAX_DEPTH:
                    waiting.append(_expand_node(merger, node))
                else:
                    unread += 1
    return Fields(found, unread + (merger.work < 0))


def _is_expandable(node: _Node) -> bool:
    """Whether a value contains others that are new, not another level of a recursion."""
    properties = node.settled.properties
    return _is_nested(node.settled.inner) if properties is None else node.inside.count(id(properties)) < 2


def _expand_node(merger: _SchemaMerger, node: _Node) -> Iterator[_Node]:
    settled, path, name, outer, required, inside = node
    hint, inner, properties = settled.hint or "", settled.inner, settled.properties
    if properties is not None:
        names = settled.required[:MAX_REQUIRED] if required else ()
        needed = frozenset([name for name in names if isinstance(name, str)])
        holder = FieldContainer((*outer.parents, name) if name else outer.parents, hint, outer.lists)
        within = (*inside, id(properties))
        prefix = f"{path}." if path else ""
        for key, part in merger.open(properties):
            yield _Node(part, prefix + key, key, holder, key in needed, within)
    if inner is not None and _is_nested(inner):
        # List items inherit the name of the list.
        yield _Node(inner, path + "[]", name, FieldContainer(outer.parents, hint, outer.lists + 1), False, inside)


def _is_nested(inner: MergedSchema | None) -> bool:
    """Whether list items are more than plain values, which the list itself represents."""
    return inner is not None and (inner.properties is not None or inner.inner is not None)


def find_required_leaves(required: Iterable[str]) -> frozenset[str]:
    """The required leaf paths, without containers of other required paths."""
    paths = list(required)
    return frozenset(paths).difference([path.rpartition(".")[0] for path in paths if "." in path], _ROOT_PATHS)


def _build_field(node: _Node) -> SchemaField | None:
    """Build the field of a node; None for a value that is always null, or a result without any description."""
    settled, path, name, holder, required, _ = node
    kinds, keywords = settled.kinds, settled.keywords
    if not kinds:
        kinds = 0 if keywords.get("null") else _guess_kinds(keywords)
        if not kinds or (kinds == SCALAR and not path):
            return None
    items = 0
    if kinds & ARRAY:
        items = settled.item_kinds or (0 if isinstance(keywords.get("items"), dict) else SCALAR | OBJECT)
    text, form = keywords.get("description"), keywords.get("format")
    if settled.inner is not None:
        text, form = text or settled.inner.keywords.get("description"), form or settled.inner.keywords.get("format")
    text, form = (text if isinstance(text, str) else ""), (form if isinstance(form, str) else "")
    return SchemaField(path, name, holder, kinds, items, text, form, required)


def _guess_kinds(settled: Schema) -> int:
    """Infer the type bits of a value without `type`."""
    values = settled.get("enum") or [settled[key] for key in ("const", "default") if settled.get(key) is not None]
    if isinstance(values, list) and values:
        kinds = 0
        for value in values[:_MAX_VALUES]:
            kinds |= KINDS.get(json_type(value), 0)
        return kinds or SCALAR
    if settled.get("format"):
        return STRING
    for keywords, kinds in KEYWORD_KINDS:
        if any(keyword in settled for keyword in keywords):
            return kinds
    return SCALAR
