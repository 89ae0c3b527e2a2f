"""`LineReader`: lines out of bytes that come in pieces, none longer than a limit."""

from __future__ import annotations

EDGE = 256
"""Bytes kept of both ends of a line that is too long: one of them may say what it was about."""


class TooLong:
    """What is known of a line that was skipped."""

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail


class LineReader:
    """Lines end with a line feed; what stands before one, carriage returns too, is the line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipped: TooLong | None = None

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that these bytes complete, in order; empty ones are left out."""
        *pieces, last = data.split(b"\n")
        found: list[bytes | TooLong] = []
        for piece in pieces:
            self._keep(piece)
            found += self.finish()
        self._keep(last)
        return found

    def finish(self) -> list[bytes | TooLong]:
        """What there is of a line that nothing ends; empty if that is nothing."""
        line = self._skipped or bytes(self._rest)
        self._rest, self._skipped = bytearray(), None
        return [line] if line else []

    def _keep(self, piece: bytes) -> None:
        if self._skipped is not None:
            self._skipped.tail = (self._skipped.tail + piece[-EDGE:])[-EDGE:]
            return
        self._rest += piece
        if len(self._rest) > self._limit:
            self._skipped = TooLong(bytes(self._rest[:EDGE]), bytes(self._rest[-EDGE:]))
            self._rest = bytearray()
