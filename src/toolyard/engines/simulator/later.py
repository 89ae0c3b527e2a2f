"""`Later`: makers and checks that are built when they are first used, since a schema may contain itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.engines.simulator.draw import Draw
from toolyard.engines.simulator.leaves import Check, Make


class Later:
    """A maker to be built by `build`."""

    __slots__ = ("_build", "_make")

    def __init__(self, build: Callable[[], Make]) -> None:
        self._build = build
        self._make: Make | None = None

    def built(self) -> Make:
        """The maker itself, from now on."""
        make = self._make
        if make is None:
            make = self._make = self._build()
        return make

    def __call__(self, draw: Draw) -> Any:
        """A value by it."""
        make = self._make
        return (self.built() if make is None else make)(draw)


def built(make: Make) -> Make:
    """The maker that is behind it, to be called without a detour."""
    while isinstance(make, Later):
        make = make.built()
    return make


class LaterCheck:
    """A check to be compiled by `build`."""

    __slots__ = ("_build", "_check")

    def __init__(self, build: Callable[[], Check]) -> None:
        self._build = build
        self._check: Check | None = None

    def __call__(self, value: Any) -> bool:
        """Whether it allows the value."""
        check = self._check
        if check is None:
            check = self._check = self._build()
        return check(value)
