"""A schema's makers as one function of Python, for answers of an ordinary size.

Makers call one another for every part of a value, and keep account of depth and size. Where both are known beforehand
to stay small, all of it can be written down in one piece, without calls and accounts: `{"city": r0[b()], ...}`.
"""

from __future__ import annotations

from typing import Any

from toolyard.engines.simulator.draw import DEEP, LEAVES
from toolyard.engines.simulator.later import built
from toolyard.engines.simulator.leaves import Make
from toolyard.engines.simulator.objects import COMMON, ECHOED, OFTEN, SELDOM, UPPER, known_of, put
from toolyard.engines.simulator.picks import Pick
from toolyard.engines.simulator.shapes import AnyOf, Items, Properties, Shape

_UNKNOWN = 8
"""What is counted for a part that is made by a call."""


def written(make: Make, shapes: dict[Make, Shape]) -> Make:
    """A maker of such values as that one makes; itself if there is nothing to be gained."""
    writer = _Writer(shapes)
    result = writer.part(make, 1, 1)
    if not writer.parts:
        return make
    lines = [
        "def made(draw):",
        " b = draw.byte",
        " echo = draw.echo",
        *writer.before,
        *writer.lines,
        f" return {result}",
    ]
    names = writer.names
    # The only words of the schema in it are names of properties, as Python writes text.
    exec("\n".join(lines), names)  # noqa: S102
    function: Make = names["made"]
    return function


def _quoted(name: str) -> str:
    """Text as Python writes it, whatever a subclass of text has to say about that."""
    return str.__repr__(name)


class _Writer:
    def __init__(self, shapes: dict[Make, Shape]) -> None:
        self._shapes = shapes
        self._indent = 1
        self._weight = 0
        self.parts = 0
        """Objects and arrays that were written down."""
        self.before: list[str] = []
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"known": known_of, "put": put}
        self._given: dict[int, str] = {}

    def part(self, make: Make, depth: int, times: int) -> str:
        """An expression for a value; `depth` is what an object there has, `times` how often it is made."""
        make = built(make)
        self._weight += times
        if isinstance(make, Pick):
            return f"{self._name(make.row)}[b()]"
        shape = self._shapes.get(make)
        if shape is not None and depth <= DEEP and self._weight + times * shape.weight <= LEAVES:
            self.parts += 1
            if isinstance(shape, Properties):
                return self._object(shape, depth, times)
            if isinstance(shape, Items):
                return self._array(shape, depth, times)
            return self._choice(shape, depth, times)
        self._weight += times * _UNKNOWN
        self._line(f"draw.depth = {depth - 1}")
        return self._kept(f"{self._name(make)}(draw)")

    def _object(self, shape: Properties, depth: int, times: int) -> str:
        needed = [(field[0], self.part(field[2], depth + 1, times)) for field in shape.fields if field[3]]
        out = self._kept("{" + ", ".join(f"{_quoted(name)}: {value}" for name, value in needed) + "}")
        limit = SELDOM if depth <= UPPER else OFTEN
        for name, _, make, always, _ in shape.fields:
            if not always:
                self._optional(f"{out}[{_quoted(name)}]", built(make), (depth + 1, times), limit)
        if depth <= ECHOED:
            told = f"t{len(self.before)}"
            fields, keys = self._name(shape.by_key), frozenset(shape.by_key) - (COMMON if depth > 1 else frozenset())
            met = f"echo and not {self._name(keys)}.isdisjoint(echo)"
            self.before.append(f" {told} = known({fields}, echo, {depth}) if {met} else ()")
            self._line(f"if {told}: put({out}, {told})")
        return out

    def _optional(self, place: str, make: Make, at: tuple[int, int], limit: int) -> None:
        """What is there unless a byte is below the limit."""
        if isinstance(make, Pick):
            # The same byte does for both: any part of a row is as good as the whole.
            self._weight += at[1]
            self._line(f"if (n := b()) >= {limit}: {place} = {self._name(make.row)}[n]")
            return
        self._line(f"if b() >= {limit}:")
        self._indent += 1
        self._line(f"{place} = {self.part(make, *at)}")
        self._indent -= 1

    def _array(self, shape: Items, depth: int, times: int) -> str:
        low, high = shape.usual
        count = str(low) if low == high else f"{low} + b() % {high - low + 1}"
        item = built(shape.item)
        if isinstance(item, Pick):
            self._weight += times * high
            row = self._name(item.row)
            return f"[{row}[b()]]" if high == low == 1 else f"[{row}[b()] for _ in range({count})]"
        out = self._kept("[]")
        self._line(f"for _ in range({count}):")
        self._indent += 1
        self._line(f"{out}.append({self.part(item, depth + 1, times * high)})")
        self._indent -= 1
        return out

    def _choice(self, shape: AnyOf, depth: int, times: int) -> str:
        out = self._kept(f"b() % {len(shape.makers)}")
        chosen = f"c{out}"
        for at, make in enumerate(shape.makers):
            self._line(f"{'if' if at == 0 else 'elif'} {out} == {at}:")
            self._indent += 1
            self._line(f"{chosen} = {self.part(make, depth, times)}")
            self._indent -= 1
        return chosen

    def _line(self, text: str) -> None:
        self.lines.append(" " * self._indent + text)

    def _kept(self, expression: str) -> str:
        """A name for the value, so that it is made now and not later."""
        name = f"v{len(self.lines)}"
        self._line(f"{name} = {expression}")
        return name

    def _name(self, thing: Any) -> str:
        """What the function calls something by."""
        found = self._given.get(id(thing))
        if found is None:
            found = self._given[id(thing)] = f"x{len(self._given)}"
            self.names[found] = thing
        return found
