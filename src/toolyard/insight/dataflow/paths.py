"""The typed paths of a schema: `users[].id`, an integer, described so, inside something called `User`.

`$ref`, `allOf`, `anyOf`, `oneOf`, lists of types and null are followed; a type that is missing is inferred from what
else is said. Paths are given breadth first, so that a limit cuts what lies deepest.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolyard.insight.dataflow.settle import (
    ARRAY,
    BOOLEAN,
    COMPOUND,
    INTEGER,
    KEYWORD_KINDS,
    KINDS,
    MAX_FIELDS,
    NUMBER,
    OBJECT,
    SCALAR,
    STRING,
    Schema,
    is_mapping,
    named_kinds,
    settle,
)
from toolyard.insight.dataflow.words import words_of

MAX_DEPTH = 6
_UNCOUNTED = 2
"""Nodes that are no field: the whole, and what it holds if it is a list."""
_MAX_ENUM = 1000
"""Listed values that are compared."""
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
_LIST_TEXT = re.compile(r"^(an? |the )?(optional |comma.separated )?(list|array|set|collection)s? of\b", re.I)
_FLAG_TEXT = re.compile(r"^(whether|if true|true if|set to true|indicates (if|whether)|flag)\b", re.I)
_COUNT_TEXT = re.compile(r"^(the )?(total |maximum |minimum |max |min )?(number|count|amount) of\b", re.I)
_FLAG_WORDS = frozenset(("is", "has", "enable", "enabled", "can", "should", "include", "allow"))
_COUNT_WORDS = frozenset(("count", "total", "limit", "offset", "page", "quantity", "size", "year", "age", "duration"))


class Holder(NamedTuple):
    """What the values side by side in an object have in common."""

    parents: tuple[str, ...]
    """The names around them, outermost first."""
    hint: str
    """What the schema that holds them is called (its `title`, or the last part of its `$ref`)."""
    lists: int
    """How many lists are on the way."""


class Field(NamedTuple):
    """One value that a tool takes or gives."""

    path: str
    """Names joined by dots, `[]` behind a list; empty for an answer that is one value itself."""
    name: str
    holder: Holder
    kinds: int
    items: int
    """The kinds of what a list holds; 0 if it is none."""
    format: str
    enum: frozenset[str] | None
    description: str
    required: bool
    inferred: bool
    """Whether the type was not said but guessed."""

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


FieldRow = tuple[str, str, Holder, int, int, str, frozenset[str] | None, str, bool, bool]
"""What a `Field` is made of: a plain tuple is made in half the time."""
_Node = tuple[dict[str, Any], FieldRow, int, int]
"""A value that others are in: settled, as a field, its depth, and how many of those up to here are no fields."""
_OUTSIDE = Holder((), "", 0)


class _Walk:
    """One schema, read breadth first. A value is a field as soon as what holds it is opened: that is the same order."""

    __slots__ = ("found", "limit", "passed", "queue", "root")

    def __init__(self, root: Schema, limit: int) -> None:
        self.root = root
        self.limit = limit
        self.found: list[FieldRow] = []
        self.queue: deque[_Node] = deque()
        self.passed = 0

    def run(self) -> list[FieldRow]:
        """Every field up to the limit."""
        self.meet(settle(self.root, self.root), "", "", _OUTSIDE, True, 0)
        while self.queue and len(self.found) < self.limit:
            settled, field, depth, passed = self.queue.popleft()
            # Those that wait come first: when they are enough, what lies deeper is not asked for.
            if len(self.found) + self.passed - passed < self.limit + _UNCOUNTED:
                self.open(settled, field, depth + 1)
        return self.found[: self.limit]

    def meet(self, settled: dict[str, Any], path: str, name: str, holder: Holder, required: bool, depth: int) -> None:
        """Take a value that may hold others."""
        field = _row(settled, settled["kinds"], path, name, holder, required)
        if path in _WHOLE and field[3] & (OBJECT | ARRAY):
            self.passed += 1
        else:
            self.found.append(field)
        if depth < MAX_DEPTH and ("properties" in settled or _holds(settled.get("inner"))):
            self.queue.append((settled, field, depth, self.passed))

    def open(self, settled: dict[str, Any], field: FieldRow, depth: int) -> None:
        """Take what is in a value."""
        path, name, outer, *_, required, _ = field
        hint = settled.get("hint", "")
        properties = settled.get("properties")
        if properties is not None:
            parents = (*outer.parents, name) if name else outer.parents
            needed = frozenset(settled["required"]) if required and "required" in settled else frozenset()
            # As tuples are made: the way over `Holder` itself takes twice as long.
            self.open_object(properties, needed, path, tuple.__new__(Holder, (parents, hint, outer.lists)), depth)
        inner = settled.get("inner")
        if inner is not None and _holds(inner):
            # More than plain values, which the list itself stands for. What it holds is called as it is.
            self.meet(inner, path + "[]", name, Holder(outer.parents, hint, outer.lists + 1), False, depth)

    def open_object(self, properties: Schema, needed: frozenset[str], prefix: str, holder: Holder, depth: int) -> None:
        """Take the properties of an object."""
        found, limit = self.found, self.limit
        for name, part in properties.items():
            if len(found) >= limit:
                return
            called = name if type(name) is str else str(name)
            path = f"{prefix}.{called}" if prefix else called
            if type(part) is dict and COMPOUND.isdisjoint(part) and (prefix or path not in _WHOLE):
                # Most are plain values: what they say is what there is.
                named, text = part.get("type"), part.get("description", "")
                said = KINDS.get(named, 0) if type(named) is str else named_kinds(named)
                if said and not said & ARRAY and type(text) is str and "enum" not in part and "format" not in part:
                    found.append((path, called, holder, said, 0, "", None, text, name in needed, False))
                else:
                    found.append(_row(part, said, path, called, holder, name in needed))
            else:
                settled = settle(_mapping(part), self.root)
                self.meet(settled, path, called, holder, name in needed, depth)


def _holds(inner: Schema | None) -> bool:
    """Whether what a list holds are values that hold others."""
    return inner is not None and ("properties" in inner or "inner" in inner)


_WHOLE = frozenset(("", "[]"))
"""Paths of what is no field unless it is one value."""


def fields_of(schema: Schema, *, limit: int = MAX_FIELDS) -> list[Field]:
    """Every value in a schema: those that hold others as well, unless they are the whole."""
    return list(map(Field._make, rows_of(schema, limit=limit)))


def rows_of(schema: Schema, *, limit: int = MAX_FIELDS) -> list[FieldRow]:
    """`fields_of` for whoever reads thousands."""
    return _Walk(schema, limit).run() if is_mapping(schema) and schema else []


def _row(settled: Schema, said: int, path: str, name: str, holder: Holder, required: bool) -> FieldRow:
    text = settled.get("description")
    if not isinstance(text, str):
        text = ""
    enum = None
    if "enum" in settled and isinstance(values := settled["enum"], list):
        enum = frozenset([str(value) for value in values[:_MAX_ENUM] if value is not None]) or None
    kinds = said or _guessed(settled, name, text)
    items = 0
    if kinds & ARRAY:
        items = settled.get("item_kinds", 0) or (0 if is_mapping(settled.get("items")) else SCALAR | OBJECT)
    form = ""
    if "format" in settled and isinstance(named := settled["format"], str):
        form = _FORMATS.get(named.lower(), "")
    return path, name, holder, kinds, items, form, enum, text, required, not said


def _guessed(settled: Schema, name: str, text: str) -> int:
    """What a value may be whose type is not said."""
    values = settled.get("enum") or [settled[key] for key in ("const", "default") if settled.get(key) is not None]
    if isinstance(values, list) and values:
        return _kinds_of_values(values)
    if settled.get("format"):
        return STRING
    for keywords, kinds in KEYWORD_KINDS:
        if any(keyword in settled for keyword in keywords):
            return kinds
    return _kinds_of_words(name, text)


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


def _mapping(value: Any) -> Schema:
    return value if is_mapping(value) else {}
