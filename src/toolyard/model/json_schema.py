"""The vocabulary of JSON Schema, and values: their type names, pointers, copies and size as JSON; lists of arguments.

Every reference to a shared object counts again for the size.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from itertools import chain, islice
from typing import Any, TypeVar, cast

T = TypeVar("T")

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps arbitrary names to subschemas."""

SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of subschemas."""

SCHEMA_SINGLES = frozenset(
    {
        "additionalProperties",
        "additionalItems",
        "unevaluatedProperties",
        "unevaluatedItems",
        "propertyNames",
        "contains",
        "contentSchema",
        "items",
        "not",
        "if",
        "then",
        "else",
    }
)
"""Keywords whose value is one subschema (`items` may also be a list in older drafts)."""

IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
    | {"$ref", "$dynamicRef", "$recursiveRef"}
)
"""Keywords whose subschemas validate the same value again, which can multiply the work."""

JSON_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})

LEAVES = frozenset({str, int, float, bool, type(None)})
"""Types that hold no other values."""
BYTES_OF_VALUE = 32
"""Bytes of `max_result_bytes` per JSON value of a result."""
_FEW = 64
"""Most dicts and lists in a small value; also bounds its depth."""
_PLAIN = LEAVES | {dict, list}
_PLAIN_VALUES = 1_000_000
"""Most values that the plain check visits, where shared ones are visited once per reference."""
_MANY = 4_000
"""Length from which a dict or list makes a value large."""


def pointer_of(path: Iterable[str | int]) -> str:
    """The RFC 6901 JSON pointer of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def split_pointer(pointer: str) -> list[str]:
    """The parts of an RFC 6901 JSON pointer, unescaped."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


_TYPES_IN_PYTHON: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


def json_type(value: object) -> str:
    """The JSON Schema name of a value's type, or its Python name if it has none."""
    for kind in type(value).__mro__:
        if kind in _TYPES_IN_PYTHON:
            return _TYPES_IN_PYTHON[kind]
    return type(value).__name__


def file_type(value: object) -> str:
    """The name of a value's type in a file that people write, where an object is a mapping and an array is a list."""
    kind = json_type(value)
    return {"object": "mapping", "array": "list", "string": "text"}.get(kind, kind)


def list_given(given: Iterable[T], what: str) -> list[T]:
    """The items of an argument; `TypeError` for a single one, and for a text or mapping, whose items are not meant."""
    if isinstance(given, (str, bytes, Mapping)):
        raise TypeError(f"expected a list of {what}, not {type(given).__name__}")
    if not isinstance(given, Iterable):
        raise TypeError(f"expected a list of {what}, got one {type(given).__name__}; put it into a list")
    return list(given)


def types_of_value(value: object) -> set[str]:
    """Every type that a JSON value has in JSON Schema, where an integer is a number, too."""
    kind = json_type(value)
    return {kind, "number"} if kind == "integer" else {kind}


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


def is_small(value: Any) -> bool:
    """True if the value is made of few dicts and lists, counted once per reference, each of moderate length.

    Such a value is safe and quick to serialise.
    """
    found = [value]
    for item in found:
        kind = type(item)
        if kind is dict:
            inside = item.values()
        elif kind is list:
            inside = item
        else:
            return kind in LEAVES
        if len(inside) >= _MANY:
            return False
        if not LEAVES.issuperset(map(type, inside)):
            found += [child for child in inside if type(child) not in LEAVES]
            if len(found) > _FEW:
                return False
    return True


class TooManyValues(Exception):
    """The value has more than `max_values` values."""


def iter_levels(value: Any, max_values: int) -> Iterator[list[Any]]:
    """Yield the values of a tree level by level, starting with the value itself, in a few C calls a level.

    Descends into dicts and lists only. A shared value appears once per reference; raises `TooManyValues` before a
    level would bring the total above `max_values`.
    """
    level, seen = [value], 0
    while level:
        yield level
        kinds = set(map(type, level))
        objects = [item.values() for item in level if type(item) is dict] if dict in kinds else []
        lists = [item for item in level if type(item) is list] if list in kinds else []
        seen += len(level)
        if seen + sum(map(len, objects)) + sum(map(len, lists)) > max_values:
            raise TooManyValues
        level = list(chain(chain.from_iterable(objects), chain.from_iterable(lists)))


_CONTAINERS = frozenset({dict, list})


def nests_deeper(value: Any, limit: int) -> bool:
    """Whether a document has more than `limit` levels of dicts and lists; a scalar has none.

    Descends level by level through `gc.get_referents`: two C calls a level instead of one Python step a value.
    CPython may leave a dict without containers untracked; that loses no container with further levels below it, so
    only the last step has to look at types.
    """
    if limit < 1:
        return type(value) in _CONTAINERS
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit - 1):
        level = [*filter(gc.is_tracked, gc.get_referents(*level))]
        if not level:
            return False
    return any(type(child) in _CONTAINERS for child in gc.get_referents(*level))


def is_within_limits(value: Any, *, max_values: int, max_depth: int) -> bool:
    """True if the serialised value has at most `max_values` values and `max_depth` levels.

    Safe for heavily shared values such as `x = [x, x]` repeated forty times, which no serialiser would finish: each
    object is visited once a level, and counted once per reference. Structs, dataclasses and models count with the
    fields that would be serialised. A value that contains itself does not fit.
    """
    verdict = _is_plain_within_limits(value, min(max_values, _PLAIN_VALUES), max_depth)
    if verdict is not None:
        return verdict
    # Kept, since a container may make its items as they are asked for, and an id is then used again.
    level, values, seen = {id(value): [value, 1]}, 1, dict[int, Any]()
    for depth in range(max_depth + 1):
        below: dict[int, list[Any]] = {}
        for item, times in level.values():
            inside = _contents_of(item)
            if inside is None:
                continue
            seen[id(item)] = item
            # A value nested deeper than it has containers contains itself.
            if depth == max_depth or depth == len(seen):
                return False
            values += len(inside) * times
            if values > max_values:
                return False
            # Iterate over a copy: the tool may change the container concurrently.
            for child in [child for child in tuple(islice(inside, len(inside))) if type(child) not in LEAVES]:
                below.setdefault(id(child), [child, 0])[1] += times
        level = below
        if not level:
            break
    return True


def _is_plain_within_limits(value: Any, max_values: int, max_depth: int) -> bool | None:
    """`is_within_limits` for plain JSON values without heavy sharing, the common case; None if it cannot tell."""
    try:
        for depth, level in enumerate(iter_levels(value, max_values)):
            kinds = set(map(type, level))
            if not _PLAIN.issuperset(kinds):
                return None
            if depth >= max_depth and not LEAVES.issuperset(kinds):
                return False
    except TooManyValues:
        return None
    return True


def written_size(value: Any, *, most: int) -> int:
    """Approximate serialised size in bytes; stops counting, and returns more than `most`, once that is exceeded."""
    size, stack = 0, [value]
    while stack and size <= most:
        item = stack.pop()
        size += 2 + (len(item) if isinstance(item, str) else 0)
        if isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return size


def _contents_of(item: Any) -> Collection[Any] | None:
    """The values that are serialised inside the item; None for a leaf."""
    kind = type(item)
    if issubclass(kind, dict):
        return cast("Collection[Any]", item.values())
    if issubclass(kind, list | tuple | set | frozenset | deque):
        return cast("Collection[Any]", item)
    fields = getattr(kind, "__pydantic_fields__", None)
    names: Any = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    if fields is not None:
        names = [name for name, field in fields.items() if not field.exclude]
    return [getattr(item, name, None) for name in names] or _contents_of_foreign(item, kind)


def _contents_of_foreign(item: Any, kind: type) -> Collection[Any] | None:
    """`_contents_of` for what is no container of Python's own, but is written as one: a range, a mapping, an array."""
    if issubclass(kind, bytes | bytearray):
        return range(len(item) // BYTES_OF_VALUE)
    if issubclass(kind, memoryview):
        return range(item.nbytes // item.itemsize)  # one of several dimensions, or of none, cannot be read by index
    if issubclass(kind, Mapping):
        return cast("Collection[Any]", item.values())
    if issubclass(kind, Sequence | Set | ValuesView) and not issubclass(kind, str):
        return cast("Collection[Any]", item)
    size = item.size if hasattr(kind, "tolist") and hasattr(kind, "size") else None
    return range(size) if type(size) is int else None
