"""The typed paths of a schema: `users[].id`, an integer, described so, inside something called `User`.

`$ref`, `allOf`, `anyOf`, `oneOf`, lists of types and null are followed; a type that is missing is inferred from what
else is said. Paths are given breadth first, so that a limit cuts what lies deepest.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from toolyard.insight.dataflow.words import words_of

STRING, INTEGER, NUMBER, BOOLEAN, OBJECT, ARRAY = (1 << bit for bit in range(6))
SCALAR = STRING | INTEGER | NUMBER | BOOLEAN
KINDS = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN, "object": OBJECT, "array": ARRAY}

MAX_FIELDS = 160
"""Of one schema. What is cut lies deepest."""
MAX_DEPTH = 6
_UNCOUNTED = 2
"""Nodes that are no field: the whole, and what it holds if it is a list."""
_MAX_REQUIRED = 1000
_MAX_ENUM = 1000
"""Listed values that are compared."""
_MAX_PARTS = 200
"""Schemas that are put together for one value; unions of unions end."""

Schema = Mapping[str, Any]

_FORMATS = {
    "date": "date",
    "date-time": "date-time",
    "datetime": "date-time",
    "time": "time",
    "email": "email",
    "uri": "url",
    "url": "url",
    "uuid": "uuid",
    "ipv4": "ip",
    "ipv6": "ip",
    "binary": "binary",
    "byte": "binary",
    "phone": "phone",
    "e164": "phone",
}
_KEYWORD_KINDS = (
    (("properties", "additionalProperties", "required", "patternProperties"), OBJECT),
    (("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), ARRAY),
    (("pattern", "minLength", "maxLength", "contentMediaType"), STRING),
    (("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), INTEGER | NUMBER),
)
_LIST_TEXT = re.compile(r"^(an? |the )?(optional |comma.separated )?(list|array|set|collection)s? of\b", re.I)
_FLAG_TEXT = re.compile(r"^(whether|if true|true if|set to true|indicates (if|whether)|flag)\b", re.I)
_COUNT_TEXT = re.compile(r"^(the )?(total |maximum |minimum |max |min )?(number|count|amount) of\b", re.I)
_FLAG_WORDS = frozenset(("is", "has", "enable", "enabled", "can", "should", "include", "allow"))
_COUNT_WORDS = frozenset(("count", "total", "limit", "offset", "page", "quantity", "size", "year", "age", "duration"))


class Field(NamedTuple):
    """One value that a tool takes or gives."""

    path: str
    """Names joined by dots, `[]` behind a list; empty for an answer that is one value itself."""
    name: str
    parents: tuple[str, ...]
    """The names around it, outermost first."""
    hint: str
    """What the schema that holds it is called (its `title`, or the last part of its `$ref`)."""
    lists: int
    """How many lists are on the way."""
    kinds: int
    items: int
    """The kinds of what a list holds; 0 if it is none."""
    format: str
    enum: frozenset[str] | None
    description: str
    required: bool
    inferred: bool
    """Whether the type was not said but guessed."""


class _Node(NamedTuple):
    schema: Schema
    settled: dict[str, Any] | None
    """Where it is known already."""
    path: str
    name: str
    parents: tuple[str, ...]
    hint: str
    lists: int
    required: bool
    depth: int


def fields_of(schema: Schema, *, limit: int = MAX_FIELDS) -> list[Field]:
    """Every value in a schema: those that hold others as well, unless they are the whole."""
    if not isinstance(schema, Mapping) or not schema:
        return []
    found: list[Field] = []
    queue = deque([_Node(schema, None, "", "", (), "", 0, True, 0)])
    while queue and len(found) < limit:
        node = queue.popleft()
        settled = node.settled or settle(node.schema, schema)
        field = _field(node, settled)
        if (node.path and node.path != "[]") or not field.kinds & (OBJECT | ARRAY):
            found.append(field)
        # Those that wait come first: when they are enough, what lies deeper is not asked for.
        waiting = len(found) + len(queue) < limit + _UNCOUNTED
        if waiting and node.depth < MAX_DEPTH and ("properties" in settled or "items" in settled):
            queue.extend(_inside(node, settled, schema))
    return found


def _inside(node: _Node, settled: dict[str, Any], root: Schema) -> Iterator[_Node]:
    properties = settled.get("properties")
    if isinstance(properties, Mapping):
        required = settled.get("required")
        needed = frozenset(required) if isinstance(required, list | tuple) else frozenset()
        parents = (*node.parents, node.name) if node.name else node.parents
        hint = settled.get("hint", "")
        for name, part in properties.items():
            path = f"{node.path}.{name}" if node.path else str(name)
            must = node.required and name in needed
            yield _Node(_mapping(part), None, path, str(name), parents, hint, node.lists, must, node.depth + 1)
    inner = settled.get("inner")
    if inner is not None and ("properties" in inner or "inner" in inner):
        # More than plain values, which the list itself stands for. What it holds is called as it is.
        hint = settled.get("hint", "")
        path, lists = node.path + "[]", node.lists + 1
        yield _Node({}, inner, path, node.name, node.parents, hint, lists, False, node.depth + 1)


def _field(node: _Node, settled: dict[str, Any]) -> Field:
    description = settled.get("description")
    text = description if isinstance(description, str) else ""
    values = settled.get("enum")
    enum = None
    if isinstance(values, list):
        enum = frozenset(str(value) for value in values[:_MAX_ENUM] if value is not None)
    kinds, inferred = _kinds(settled, node.name, text)
    items = 0
    if kinds & ARRAY:
        items = settled.get("item_kinds", 0) or (0 if isinstance(settled.get("items"), Mapping) else SCALAR | OBJECT)
    named = settled.get("format")
    form = _FORMATS.get(named.lower(), "") if isinstance(named, str) else ""
    # In order: keywords cost as much as all the rest.
    return Field(
        node.path,
        node.name,
        node.parents,
        node.hint,
        node.lists,
        kinds,
        items,
        form,
        enum or None,
        text,
        node.required,
        inferred,
    )


def _kinds(settled: Schema, name: str, text: str) -> tuple[int, bool]:
    """What a value may be, and whether that had to be guessed."""
    said = settled.get("kinds", 0)
    if said:
        return said, False
    values = settled.get("enum") or [settled[key] for key in ("const", "default") if settled.get(key) is not None]
    if isinstance(values, list) and values:
        return _kinds_of_values(values), True
    if settled.get("format"):
        return STRING, True
    for keywords, kinds in _KEYWORD_KINDS:
        if any(keyword in settled for keyword in keywords):
            return kinds, True
    return _kinds_of_words(name, text), True


def _kinds_of_values(values: list[Any]) -> int:
    kinds = 0
    for value in values[:_MAX_ENUM]:
        if isinstance(value, bool):
            kinds |= BOOLEAN
        elif isinstance(value, int):
            kinds |= INTEGER
        elif isinstance(value, float):
            kinds |= NUMBER
        elif isinstance(value, str):
            kinds |= STRING
        elif isinstance(value, list):
            kinds |= ARRAY
        elif isinstance(value, Mapping):
            kinds |= OBJECT
    return kinds or SCALAR


def _kinds_of_words(name: str, text: str) -> int:
    words = words_of(name)
    if _LIST_TEXT.search(text):
        return ARRAY | STRING
    if _FLAG_TEXT.search(text) or (words and words[0] in _FLAG_WORDS):
        return BOOLEAN
    if _COUNT_TEXT.search(text) or (words and words[-1] in _COUNT_WORDS):
        return INTEGER | NUMBER
    if words and words[-1] in ("id", "number"):
        return STRING | INTEGER
    return SCALAR


def settle(schema: Schema, root: Schema, depth: int = 4) -> dict[str, Any]:
    """A schema without references and unions: what may be in it, all together.

    Adds `kinds` (bits; null is left out), `inner` (what a list holds, settled), `item_kinds` and `hint`.
    """
    if type(schema) is dict and schema.keys().isdisjoint(_COMPOUND):
        # Most are plain values: what they say is what there is.
        plain = {**schema, "kinds": _named_kinds(schema.get("type"))}
        title = schema.get("title")
        if isinstance(title, str):
            plain["hint"] = title
        return plain
    found: dict[str, Any] = {"kinds": 0}
    _merge(found, schema, root, [_MAX_PARTS], ())
    items = found.get("items")
    if isinstance(items, Mapping):
        inner = found["inner"] = settle(items, root, depth - 1) if depth else {"kinds": 0}
        found["item_kinds"] = inner["kinds"]
        for key in ("hint", "enum", "format"):
            if key in inner:
                found.setdefault(key, inner[key])
    return found


_UNIONS = ("allOf", "anyOf", "oneOf")
_COMPOUND = frozenset((*_UNIONS, "$ref", "properties", "required", "items", "kinds", "inner", "item_kinds", "hint"))
"""What takes more than a look, and the names that `settle` gives to what it finds."""
_KEPT = frozenset(("items", "enum", "const", "default", "format", "description")).union(
    *(keywords for keywords, _ in _KEYWORD_KINDS)
) - {"properties", "required"}


def _merge(found: dict[str, Any], schema: Schema, root: Schema, left: list[int], seen: tuple[str, ...]) -> None:
    left[0] -= 1
    if not (type(schema) is dict or isinstance(schema, Mapping)) or left[0] < 0:
        return
    for key, value in schema.items():
        if key in _KEPT:
            found.setdefault(key, value)
        elif key == "type":
            found["kinds"] |= _named_kinds(value)
        elif key == "properties" and isinstance(value, Mapping):
            found[key] = _joined(found.get(key, {}), value)
        elif key == "required" and isinstance(value, list | tuple):
            names = [name for name in value[:_MAX_REQUIRED] if isinstance(name, str)]
            found[key] = [*found.get(key, ()), *names][:_MAX_REQUIRED]
        elif key == "title" and isinstance(value, str):
            found.setdefault("hint", value)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        target = _resolve(reference, root)
        if target is not None:
            found.setdefault("hint", reference.rpartition("/")[2].lstrip("#"))
            _merge(found, target, root, left, (*seen, reference))
    if not schema.keys().isdisjoint(_UNIONS):
        _merge_unions(found, schema, root, left, seen)
    if "properties" in found:
        found["kinds"] |= OBJECT


def _joined(known: Schema, more: Schema) -> Schema:
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
        parts = schema.get(key)
        if not isinstance(parts, list):
            continue
        before = list(found.get("required", ()))
        for part in parts:
            _merge(found, part, root, left, seen)
        if key != "allOf" and len(parts) > 1:
            # What only one of the branches asks for is not asked for by all.
            found["required"] = before


def _named_kinds(value: Any) -> int:
    if isinstance(value, str):
        return KINDS.get(value, 0)
    kinds = 0
    for name in value if isinstance(value, list | tuple) else ():
        kinds |= KINDS.get(name, 0) if isinstance(name, str) else 0
    return kinds


def _resolve(reference: str, root: Schema) -> Schema | None:
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    here: Any = root
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if not (type(here) is dict or isinstance(here, Mapping)) or part not in here:
            return None
        here = here[part]
    return here if isinstance(here, Mapping) else None


def _mapping(value: Any) -> Schema:
    return value if type(value) is dict or isinstance(value, Mapping) else {}
