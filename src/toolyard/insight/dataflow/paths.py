"""The typed paths of a schema: `users[].id`, an integer, described so, inside something called `User`.

`$ref`, `allOf`, `anyOf`, `oneOf`, lists of types and null are followed; a type that is missing is inferred from what
else is said. Paths are given breadth first, so that a limit cuts what lies deepest.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from toolyard.insight.dataflow.names import words_of
from toolyard.insight.dataflow.schema_fold import (
    ARRAY,
    BOOLEAN,
    COMPOUND,
    INTEGER,
    KEYWORD_KINDS,
    KINDS,
    MAX_FIELDS,
    MAX_REQUIRED,
    NUMBER,
    OBJECT,
    SCALAR,
    STRING,
    Schema,
    Settled,
    fold_schema,
    is_mapping,
    named_kinds,
)

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


class SchemaField(NamedTuple):
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


Leaf = tuple[str, Any, int, int, str, frozenset[str] | None, str, bool]
"""Of a `Field` what is its own: its name and what `look` knows of that, kinds, items, format, enum, description, and
whether it is required."""
Take = Callable[[Holder, str, str | None, list[Leaf]], object]
"""Takes values side by side: what they have in common, what stands before each name in its path (or, of one that has no
name of its own, the path), and the values."""
Look = Callable[[str], Any]
"""What is known of values called so; None if they are not wanted."""

_Node = tuple[Settled, str, str, Holder, bool, int, int]
"""A value that others are in: settled, its path, name, holder, whether it is required, its depth, and how many of those
up to here are no fields."""
_OUTSIDE = Holder((), "", 0)


class Walk:
    """One schema, read breadth first. A value is met as soon as what holds it is opened: that is the same order."""

    __slots__ = ("_count", "_limit", "_look", "_passed", "_queue", "_root", "_take", "required")

    def __init__(self, root: Schema, look: Look, take: Take, *, limit: int = MAX_FIELDS) -> None:
        self._root = root
        self._look = look
        self._take = take
        self._limit = limit
        self._count = 0
        self._passed = 0
        self._queue: deque[_Node] = deque()
        self.required: list[str] = []
        """The paths of all that is required, wanted or not."""

    def run(self, *, required: bool = True) -> None:
        """Give every value up to the limit to whom they are for. Without `required`, none is."""
        if not is_mapping(self._root) or not self._root:
            return
        settled = fold_schema(self._root, self._root)
        if settled.properties is not None:
            # As most are: an object is no field itself.
            self._passed = 1
            self._visit_inside(settled, "", "", _OUTSIDE, required, 1)
        else:
            self._visit_item(settled, "", "", _OUTSIDE, required, 0)
        queue, limit = self._queue, self._limit + _UNCOUNTED
        while queue and self._count < self._limit:
            settled, path, name, holder, needed, depth, passed = queue.popleft()
            # Those that wait come first: when they are enough, what lies deeper is not asked for.
            if self._count + self._passed - passed < limit:
                self._visit_inside(settled, path, name, holder, needed, depth + 1)

    def _visit_inside(self, settled: Settled, path: str, name: str, outer: Holder, required: bool, depth: int) -> None:
        """Meet what is in a value."""
        _, _, properties, must, hint, inner, _ = settled
        hint = hint or ""
        if properties is not None:
            parents = (*outer.parents, name) if name else outer.parents
            needed = _read_required(must) if required and must else _NOTHING
            # As tuples are made: the way over `Holder` itself takes twice as long.
            self._visit_object(properties, needed, path, tuple.__new__(Holder, (parents, hint, outer.lists)), depth)
        if inner is not None and (inner[2] is not None or inner[5] is not None):
            # What it holds is called as it is.
            holder = tuple.__new__(Holder, (outer.parents, hint, outer.lists + 1))
            self._visit_item(inner, path + "[]", name, holder, False, depth)

    def _visit_object(self, properties: Schema, needed: frozenset[str], path: str, holder: Holder, depth: int) -> None:
        """Meet the properties of an object."""
        look, crowded = self._look, len(properties) > self._limit - self._count
        prefix = f"{path}." if path else ""
        leaves: list[Leaf] = []
        plain = 0
        for name, part in properties.items():
            if crowded and self._count + plain >= self._limit:
                break
            called = name if type(name) is str else str(name)
            must = name in needed
            if type(part) is not dict or not COMPOUND.isdisjoint(part) or (not prefix and called in _WHOLE):
                settled = fold_schema(part if type(part) is dict else _as_mapping(part), self._root)
                self._visit_value(leaves, settled, prefix + called, called, holder, must, depth)
                continue
            # Most are plain values: what they say is what there is.
            plain += 1
            if must:
                self.required.append(prefix + called)
            known = look(called) if called else ""
            if known is None:
                continue
            named, text = part.get("type"), part.get("description", "")
            said = KINDS.get(named, 0) if type(named) is str else named_kinds(named)
            if said and not said & ARRAY and type(text) is str and "enum" not in part and "format" not in part:
                leaves.append((called, known, said, 0, "", None, text, must))
            else:
                leaves.append(_build_leaf(part, said, 0, called, known, must))
        self._count += plain
        if leaves:
            self._take(holder, prefix, None, leaves)

    def _visit_item(self, settled: Settled, path: str, name: str, holder: Holder, required: bool, depth: int) -> None:
        """Meet a value that is no property: the whole, or what a list holds."""
        leaves: list[Leaf] = []
        self._visit_value(leaves, settled, path, name, holder, required, depth)
        if leaves:
            self._take(holder, "", path, leaves)

    def _visit_value(
        self,
        leaves: list[Leaf],
        settled: Settled,
        path: str,
        name: str,
        holder: Holder,
        required: bool,
        depth: int,
    ) -> None:
        """Meet a value that may hold others."""
        kinds, said, properties, _, _, inner, item_kinds = settled
        known = self._look(name) if name else ""
        if path in _WHOLE and (kinds or _build_leaf(said, 0, item_kinds, name, known, required)[2]) & (OBJECT | ARRAY):
            self._passed += 1
        elif self._count < self._limit:
            self._count += 1
            if required:
                self.required.append(path)
            if known is not None:
                leaves.append(_build_leaf(said, kinds, item_kinds, name, known, required))
        # More than plain values, which a list itself stands for.
        if depth < MAX_DEPTH and (
            properties is not None or (inner is not None and (inner[2] is not None or inner[5] is not None))
        ):
            self._queue.append((settled, path, name, holder, required, depth, self._passed))


_NOTHING: frozenset[str] = frozenset()


def _read_required(required: Sequence[Any]) -> frozenset[str]:
    return frozenset([name for name in required[:MAX_REQUIRED] if isinstance(name, str)])


_WHOLE = frozenset(("", "[]"))
"""Paths of what is no field unless it is one value."""


def fields_of(schema: Schema, *, limit: int = MAX_FIELDS) -> list[SchemaField]:
    """Every value in a schema: those that hold others as well, unless they are the whole."""
    found: list[SchemaField] = []

    def take(holder: Holder, prefix: str, path: str | None, leaves: list[Leaf]) -> None:
        for leaf in leaves:
            name = leaf[0]
            found.append(SchemaField(prefix + name if path is None else path, name, holder, *leaf[2:]))

    Walk(schema, str, take, limit=limit).run()
    return found


def needed_of(required: Iterable[str]) -> frozenset[str]:
    """Of required paths those that a call must have: not what only holds others that are."""
    paths = list(required)
    return frozenset(paths).difference([path.rpartition(".")[0] for path in paths if "." in path], _WHOLE)


def _build_leaf(settled: Schema, said: int, item_kinds: int, name: str, known: Any, required: bool) -> Leaf:
    text = settled.get("description")
    if not isinstance(text, str):
        text = ""
    enum = None
    if "enum" in settled and isinstance(values := settled["enum"], list):
        enum = frozenset([str(value) for value in values[:_MAX_ENUM] if value is not None]) or None
    kinds = said or _guess_kinds(settled, name, text)
    items = 0
    if kinds & ARRAY:
        items = item_kinds or (0 if is_mapping(settled.get("items")) else SCALAR | OBJECT)
    form = ""
    if "format" in settled and isinstance(named := settled["format"], str):
        form = _FORMATS.get(named.lower(), "")
    return name, known, kinds, items, form, enum, text, required


def _guess_kinds(settled: Schema, name: str, text: str) -> int:
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


def _as_mapping(value: Any) -> Schema:
    return value if is_mapping(value) else {}
