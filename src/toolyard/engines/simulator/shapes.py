"""What makers of objects, arrays and choices are made of, for whoever wants to write them down in one piece."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.engines.simulator.leaves import Check, Make

Field = tuple[str, str, Make, bool, Check]
"""A property: its name, its name in plain letters, who makes it, whether it is always there, and what it may be."""


class Properties(msgspec.Struct, frozen=True, eq=False):
    """An object."""

    fields: list[Field]
    by_key: dict[str, tuple[str, Check]]

    @property
    def weight(self) -> int:
        """How many values there are in it at least."""
        return len(self.fields)


class Items(msgspec.Struct, frozen=True, eq=False):
    """An array of equal items, as many as usual."""

    item: Make
    usual: tuple[int, int]

    @property
    def weight(self) -> int:
        """How many values there are in it."""
        return self.usual[1]


class AnyOf(msgspec.Struct, frozen=True, eq=False):
    """One of several."""

    makers: list[Any]
    weight: int = 1


Shape = Properties | Items | AnyOf
