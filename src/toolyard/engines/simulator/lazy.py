"""`Lazy`: makers and checks that are built when they are first used, since a schema may contain itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Lazy:
    """Stands for a function of one argument that `build` gives when it is first needed."""

    __slots__ = ("_build", "_function")

    def __init__(self, build: Callable[[], Callable[[Any], Any]]) -> None:
        self._build = build
        self._function: Callable[[Any], Any] | None = None

    def function(self) -> Callable[[Any], Any]:
        """The function itself, built now if it was not before."""
        if self._function is None:
            self._function = self._build()
        return self._function

    def __call__(self, argument: Any) -> Any:
        """What the function gives."""
        return (self._function or self.function())(argument)


def unwrap(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function that is behind it, to be called without a detour."""
    while isinstance(function, Lazy):
        function = function.function()
    return function
