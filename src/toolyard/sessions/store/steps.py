"""`Step`: one statement of a write, and what both drivers can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from toolyard.model.errors import SessionError


class Cursor(Protocol):
    """What both drivers' cursors can do."""

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""

    def fetchone(self) -> Any:
        """The next row or None."""

    def fetchall(self) -> list[Any]:
        """The rows that are left."""


Run = Callable[[str, tuple[object, ...]], Cursor]


class Step(NamedTuple):
    """One statement; where `refusal` is given, it must change exactly one row. `tell` hears how many it changed."""

    sql: str
    values: tuple[object, ...]
    refusal: Callable[[], SessionError] | None = None
    tell: Callable[[int], None] | None = None

    def check(self, rowcount: int) -> None:
        """Raise the refusal unless the statement did its work."""
        if self.tell is not None:
            self.tell(rowcount)
        if self.refusal is not None and rowcount != 1:
            raise self.refusal()
