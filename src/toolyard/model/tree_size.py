"""How large a value is once written out: what refers to one thing many times over is not small."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any, cast

LEAVES = frozenset({str, int, float, bool, type(None)})
"""What holds nothing else."""
_FEW = 64
"""Dicts and lists that are surely few, and cannot nest too deep."""
_SHORT = 16
_PLAIN = LEAVES | {dict, list}
_PLAIN_VALUES = 1_000_000
"""Values that may be looked at as often as they are referred to."""
_MANY = 4_000
"""Values in one of them that make it large."""


def is_small(value: Any) -> bool:
    """True if it is made of few dicts and lists, counted as often as they are referred to, of not too many values.

    Then writing it is safe, and quick.
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
        # Of a few, those that hold others are found as quickly as it is found that there are none.
        if len(inside) < _SHORT or not LEAVES.issuperset(map(type, inside)):
            found += [child for child in inside if type(child) not in LEAVES]
        if len(found) > _FEW:
            return False
    return True


class TooManyValues(Exception):
    """There are more values than were asked for."""


def iter_levels(value: Any, max_values: int) -> Iterator[list[Any]]:
    """A value, what it holds, what that holds, each level in a few calls at C speed.

    What is referred to more than once is there as often; raises `TooManyValues` before it makes more than that. Only
    what dicts and lists hold is seen.
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


def fits(value: Any, *, max_values: int, max_depth: int) -> bool:
    """True if the value, written out, has no more values and levels than that.

    A writer that follows every reference would not come back from `x = [x, x]`, forty times over. On each level a
    thing is looked at once, and counted as often as it is there. Objects count with the fields a writer would write.
    """
    verdict = _fits_plain(value, min(max_values, _PLAIN_VALUES), max_depth)
    if verdict is not None:
        return verdict
    level, values, seen = {id(value): [value, 1]}, 1, set[int]()
    for depth in range(max_depth + 1):
        below: dict[int, list[Any]] = {}
        for item, times in level.values():
            inside = _inside(item)
            if inside is None:
                continue
            seen.add(id(item))
            # What is deeper than there are things in it holds itself.
            if depth == max_depth or depth == len(seen):
                return False
            values += len(inside) * times
            if values > max_values:
                return False
            # A copy, since the tool may go on changing it.
            for child in [child for child in tuple(inside) if type(child) not in LEAVES]:
                below.setdefault(id(child), [child, 0])[1] += times
        level = below
        if not level:
            break
    return True


def _fits_plain(value: Any, max_values: int, max_depth: int) -> bool | None:
    """The verdict on what is plain and refers to nothing many times over, as most is; None for anything else."""
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
    """About how many bytes the value has when it is written; just above `most` if it has more than that."""
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


def _inside(item: Any) -> Collection[Any] | None:
    """What is written with the item; None if it holds nothing."""
    kind = type(item)
    if issubclass(kind, dict):
        return cast("Collection[Any]", item.values())
    if issubclass(kind, list | tuple | set | frozenset | deque):
        return cast("Collection[Any]", item)
    fields = getattr(kind, "__pydantic_fields__", None)
    names: Any = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    if fields is not None:
        names = [name for name, field in fields.items() if not field.exclude]
    return [getattr(item, name, None) for name in names] or None
