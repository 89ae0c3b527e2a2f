"""A schema's makers without their accounts, for whole answers of an ordinary size.

Makers keep account of depth and size as they go. Where both are known beforehand to stay small, the accounts can be
left out: what is made of how many bytes, and in which order, is laid down once for the whole schema. That order is
part of the promise that the same call gives the same answer: single values of an object come after all of its parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from toolyard.engines.simulator.containers import (
    COMMON,
    ECHOED,
    OFTEN,
    SELDOM,
    UPPER,
    ArrayMaker,
    ObjectMaker,
    known_values,
    put_known,
)
from toolyard.engines.simulator.draw import DEEP, LEAVES, ByteTable, Choice, Draw, Make, unwrap

_UNKNOWN = 8
"""What is counted for a part that keeps its own account."""


class _Part(NamedTuple):
    make: Make
    single: bool
    """True for a value, or a list of values, that are taken from a table."""


def unroll_maker(make: Make) -> Make:
    """A maker of such values as that one makes; itself if there is nothing to be gained."""
    unrolling = _Unrolling()
    part = unrolling.part(make, 1, 1)
    return part.make if unrolling.parts else make


class _Unrolling:
    """One walk over the makers of a schema; what was met before counts for what comes after."""

    def __init__(self) -> None:
        self._weight = 0
        self.parts = 0
        """Objects, arrays and choices that keep no account."""

    def part(self, make: Make, depth: int, times: int) -> _Part:
        """A part of a value; `depth` is what an object there has, `times` how often it is made."""
        make = unwrap(make)
        self._weight += times
        if isinstance(make, ByteTable):
            return _Part(make, True)
        if isinstance(make, ObjectMaker) and self._has_room(depth, times * len(make.fields)):
            return _Part(self._unroll_object(make, depth, times), False)
        if isinstance(make, ArrayMaker) and make.is_short and self._has_room(depth, times * make.usual[1]):
            return self._unroll_array(make, depth, times)
        if isinstance(make, Choice) and make.plain and self._has_room(depth, times):
            return _Part(self._unroll_choice(make, depth, times), False)
        self._weight += times * _UNKNOWN
        accounted = make

        def make_part(draw: Draw) -> Any:
            draw.depth = depth - 1
            return accounted(draw)

        return _Part(make_part, False)

    def _has_room(self, depth: int, weight: int) -> bool:
        room = depth <= DEEP and self._weight + weight <= LEAVES
        self.parts += room
        return room

    def _unroll_object(self, maker: ObjectMaker, depth: int, times: int) -> Make:
        needed = [(field.name, self.part(field.make, depth + 1, times)) for field in maker.fields if field.always]
        names = [name for name, _ in needed]
        ordered = [(name, part.make) for single in (False, True) for name, part in needed if part.single is single]
        optional = [
            self._unroll_optional(field.name, field.make, depth + 1, times)
            for field in maker.fields
            if not field.always
        ]
        limit = SELDOM if depth <= UPPER else OFTEN
        by_key, echoed = maker.by_key, depth <= ECHOED
        keys = frozenset(by_key) - (COMMON if depth > 1 else frozenset())

        def make_object(draw: Draw) -> dict[str, Any]:
            made: dict[str, Any] = dict.fromkeys(names)
            for name, make in ordered:
                made[name] = make(draw)
            for name, row, make in optional:
                byte = draw.byte()
                if byte >= limit:
                    # The same byte does for both: any part of a row is as good as the whole.
                    made[name] = make(draw) if row is None else row[byte]
            echo = draw.echo
            if echoed and echo and not keys.isdisjoint(echo):
                put_known(made, known_values(by_key, echo, depth))
            return made

        return make_object

    def _unroll_optional(
        self, name: str, make: Make, depth: int, times: int
    ) -> tuple[str, tuple[Any, ...] | None, Make]:
        part = self.part(make, depth, times)
        return name, part.make.row if isinstance(part.make, ByteTable) else None, part.make

    def _unroll_array(self, maker: ArrayMaker, depth: int, times: int) -> _Part:
        low, high = maker.usual
        span = high - low + 1
        item = unwrap(maker.item)
        if isinstance(item, ByteTable):
            self._weight += times * high
            part = _Part(item, True)
        else:
            part = self.part(item, depth + 1, times * high)
        make = part.make

        def make_array(draw: Draw) -> list[Any]:
            return [make(draw) for _ in range(low if span == 1 else low + draw.byte() % span)]

        return _Part(make_array, isinstance(item, ByteTable))

    def _unroll_choice(self, choice: Choice, depth: int, times: int) -> Make:
        makers = [self.part(make, depth, times).make for make in choice.makers]

        def make_one(draw: Draw) -> Any:
            return makers[draw.byte() % len(makers)](draw)

        return make_one
