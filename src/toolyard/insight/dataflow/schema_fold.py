"""A schema settled: references followed and unions put together, so that one look says what may be in a value."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
    reference = None
    said: Schema | None = schema
    if len(schema) == 1 and "$ref" in schema:
        reference = schema["$ref"]
        said = _resolve_reference(reference, root) if isinstance(reference, str) else None
    if type(said) is not dict or not _MANIFOLD.isdisjoint(said):
        return _put_together(schema, root, depth)
    properties, required, items = said.get("properties", _ABSENT), said.get("required", ()), said.get("items", _ABSENT)
    if type(properties) is not dict or type(required) not in _ROWS or type(items) is not dict:
        return _put_together(schema, root, depth)
    # Most say themselves what there is, or there is one other that says it all.
    named = said.get("type")
    kinds = KINDS.get(named, 0) if type(named) is str else named_kinds(named)
    hint = said.get("title") if reference is None else _name_reference(reference)
    if hint is not None and not isinstance(hint, str):
        hint = None
    if properties is _ABSENT:
        properties = None
    else:
        kinds |= OBJECT
        if len(properties) > MAX_FIELDS:
            properties = _join_properties({}, properties)
    if items is _ABSENT:
        return tuple.__new__(Settled, (kinds, said, properties, required, hint, None, 0))
    inner = fold_schema(items, root, depth - 1) if depth else _UNKNOWN
    return _of_items(kinds, said, properties, required, hint, inner)


_ABSENT: dict[str, Any] = {}
_ROWS = frozenset((list, tuple))


def _put_together(schema: Schema, root: Schema, depth: int) -> Settled:
    """Settle a schema that says in several places what there is, or has something that is left out."""
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
        return tuple.__new__(Settled, (kinds, found, properties, required, hint, None, 0))
    inner = fold_schema(items, root, depth - 1) if depth else _UNKNOWN
    if places and inner.properties is None:
        # Plain values without names, each another thing: the list stands for them, and they are no list of one.
        return Settled(kinds, found, properties, required, hint, None, inner.kinds)
    return _of_items(kinds, found, properties, required, hint, inner)


def _of_items(
    kinds: int, said: Schema, properties: Schema | None, required: Sequence[Any], hint: str | None, inner: Settled
) -> Settled:
    """A list, of which what it holds says something as well."""
    items = inner[1]
    if "enum" in items or "format" in items:
        said = {**{key: items[key] for key in ("enum", "format") if key in items}, **said}
    return tuple.__new__(
        Settled, (kinds, said, properties, required, inner[4] if hint is None else hint, inner, inner[0])
    )


_UNKNOWN = Settled(0, {}, None, (), None, None, 0)


def _places_of(places: Any, items: Any) -> list[Schema]:
    """What the places of a tuple take, and what comes after them; nothing for any other value."""
    if places is None and not isinstance(items, list):
        return []
    # Before 2020-12 the places stood under `items`.
    parts = [part for given in (places, items) if isinstance(given, list) for part in given if is_mapping(part)]
    return [*parts, items] if parts and is_mapping(items) else parts


_UNIONS = ("allOf", "anyOf", "oneOf")
_MANIFOLD = frozenset((*_UNIONS, "$ref", "prefixItems"))
"""What has to be put together."""
COMPOUND = _MANIFOLD | {"properties", "required", "items"}
"""What takes more than a look."""
_KEPT = frozenset(("items", "enum", "const", "default", "format", "description")).union(
    *(keywords for keywords, _ in KEYWORD_KINDS)
) - {"properties", "required"}


def _merge_schema(found: dict[str, Any], schema: Schema, root: Schema, left: list[int], seen: tuple[str, ...]) -> None:
    left[0] -= 1
    if left[0] < 0 or (type(schema) is not dict and not is_mapping(schema)):
        return
    reference, united = None, False
    for key, value in schema.items():
        if key in _KEPT:
            found.setdefault(key, value)
        elif key == "type":
            found["kinds"] |= KINDS.get(value, 0) if type(value) is str else named_kinds(value)
        elif key == "properties":
            if type(value) is dict or is_mapping(value):
                found[key] = _join_properties(found.get(key, _ABSENT), value)
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


def named_kinds(value: Any) -> int:
    """The bits of what stands under `type`."""
    if isinstance(value, str):
        return KINDS.get(value, 0)
    kinds = 0
    for name in value if isinstance(value, (list, tuple)) else ():
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
    parts = reference[2:].split("/")
    if "~" in reference:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in parts]
    for part in parts:
        if (type(here) is not dict and not is_mapping(here)) or part not in here:
            return None
        here = here[part]
    return here if type(here) is dict or is_mapping(here) else None


def is_mapping(value: Any) -> bool:
    """Most are dicts: where many are asked, they are first asked for that."""
    return isinstance(value, (dict, Mapping))
