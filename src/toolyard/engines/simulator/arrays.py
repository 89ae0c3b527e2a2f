"""Makers of arrays."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from toolyard.engines.simulator.byte_tables import ByteTable
from toolyard.engines.simulator.draw import DEEP, LEAVES, TOO_MANY, Draw, GaveUp, encode
from toolyard.engines.simulator.lazy import unwrap
from toolyard.engines.simulator.scalars import Check, Make, MakerSource
from toolyard.schema.subschemas import SubSchema

_MOST = 3
_LARGEST = 5000
_SHORT = 200
_SAME = 40
"""Tries in a row that may give nothing new."""


class _Plan(msgspec.Struct, frozen=True):
    """What the arrays of a schema are made of."""

    first: list[Make]
    """Makers of the items at the front, each its own."""
    rest: Make | None
    least: int
    most: int
    accepts: Check | None
    """What an item may be, if all have to be different."""

    @property
    def weight(self) -> int:
        """What is counted for one."""
        return max(self.least, 1)

    @property
    def usual(self) -> tuple[int, int]:
        """How many items there are, where any number will do."""
        most = min(max(self.least, len(self.first), _MOST), self.most)
        return min(max(self.least, 1), most), most


def array_maker(source: MakerSource, schema: dict[str, Any], name: str) -> Make:
    """Arrays of a few items, as many as they must have, all different where that is asked for."""
    first = [source.maker(part, name) for part in _prefix_nodes(schema)]
    rest = _item_node(schema)
    maker = None if rest is False else source.maker(rest, name)
    least, most = int(schema.get("minItems", 0)), schema.get("maxItems")
    if "contains" in schema and isinstance(schema["contains"], dict):
        wanted = int(schema.get("minContains", 1))
        if wanted > _LARGEST:
            raise GaveUp("no array has that many items")
        first += [source.maker(schema["contains"], name)] * wanted
    if maker is None:
        most = len(first) if most is None else min(most, len(first))
    most = _LARGEST if most is None else int(most)
    if least > most or least > _LARGEST:
        raise GaveUp("no array has that many items")
    accepts = source.checker(rest) if schema.get("uniqueItems") is True else None
    plan = _Plan(first, maker, least, most, accepts)
    careful = _careful_maker(plan)
    return careful if maker is None or first or accepts is not None else ArrayMaker(maker, plan, careful)


class ArrayMaker:
    """Arrays of equal items, where there is room for them."""

    __slots__ = ("_careful", "_item", "_weight", "is_short", "item", "usual")

    def __init__(self, item: Make, plan: _Plan, careful: Make) -> None:
        self.item = item
        self.usual = plan.usual
        """The fewest and the most items, where any number will do."""
        self.is_short = plan.usual[1] <= _SHORT
        self._weight = plan.weight
        self._careful = careful
        self._item: Make | None = None

    def __call__(self, draw: Draw) -> Any:
        """One array."""
        depth, spent = draw.depth, draw.spent
        if depth >= DEEP or spent >= LEAVES or spent < 0:
            return self._careful(draw)
        draw.depth, draw.spent = depth + 1, spent + self._weight
        item = self._item
        if item is None:
            item = self._item = unwrap(self.item)
        low, high = self.usual
        count = low if low == high else draw.between(low, high)
        if isinstance(item, ByteTable):
            row = item.row
            draw.depth = depth
            return [row[byte] for byte in islice(draw.source, count)]
        try:
            made = [item(draw) for _ in range(count)]
        except GaveUp:
            draw.depth, draw.spent = depth, spent
            return self._careful(draw)
        draw.depth = depth
        return made


def _careful_maker(plan: _Plan) -> Make:
    """Arrays that are only as long as they can be."""
    first, least, usual = plan.first, plan.least, plan.usual
    front, weight = min(len(first), plan.most), plan.weight

    def make(draw: Draw) -> list[Any]:
        draw.depth = depth = draw.depth + 1
        draw.spent += weight
        draw.worked(weight)
        if draw.spent > TOO_MANY or depth > 60:
            raise GaveUp("a value needs too many others")
        lean = depth > DEEP or draw.spent > LEAVES
        out: list[Any] = []
        for at in range(max(front, least if lean else draw.between(*usual))):
            item = first[at] if at < len(first) else plan.rest
            if item is None:
                break
            spent = draw.spent
            try:
                out.append(item(draw))
            except GaveUp:
                if at < least or at < len(first):
                    raise
                draw.depth, draw.spent = depth, spent
                break
        if plan.accepts is not None:
            out = _make_distinct(out, draw, plan, plan.accepts)
        draw.depth = depth - 1
        return out

    return make


def _prefix_nodes(schema: dict[str, Any]) -> list[SubSchema]:
    items = schema.get("prefixItems", schema.get("items"))
    return [part for part in items if isinstance(part, (dict, bool))] if isinstance(items, list) else []


def _item_node(schema: dict[str, Any]) -> SubSchema:
    items = schema.get("items", True)
    if isinstance(items, list):
        items = schema.get("additionalItems", True)
    if "items" not in schema and schema.get("unevaluatedItems") is not None:
        items = schema["unevaluatedItems"]
    return items if isinstance(items, (dict, bool)) else True


def _make_distinct(items: list[Any], draw: Draw, plan: _Plan, accepts: Check) -> list[Any]:
    found = {_identity_key(item): item for item in items}
    maker, least = plan.rest, plan.least
    same = 0
    while maker is not None and len(found) < least and same < _SAME:
        draw.worked(1)
        item = maker(draw)
        before = len(found)
        found.setdefault(_identity_key(item), item)
        same = 0 if len(found) > before else same + 1
    if maker is not None and len(found) < least:
        _add_variants(found, draw, least, accepts)
    if len(found) < least:
        raise GaveUp("too few different items were found")
    return list(found.values())


def _add_variants(found: dict[bytes, Any], draw: Draw, least: int, accepts: Check) -> None:
    """Add others that are like those that were found."""
    known = [item for item in found.values() if isinstance(item, (str, int, float)) and not isinstance(item, bool)]
    for item in known[:_SAME]:
        refused = 0
        for at in range(1, least + 1):
            if len(found) >= least or refused == _SAME:
                break
            draw.worked(1)
            other = f"{item}{at}" if isinstance(item, str) else item + at
            if accepts(other):
                found.setdefault(_identity_key(other), other)
            else:
                refused += 1


def _identity_key(item: Any) -> bytes:
    # 1 and 1.0 are the same item, true is another.
    return encode(int(item) if isinstance(item, float) and item.is_integer() else item)
