"""`LineReader`: bytes to lines, however they come in pieces, never keeping more of one than allowed."""

from __future__ import annotations

EDGE = 256
"""Bytes kept of both ends of a line that is too long: one of them says which request it answers."""


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
        pieces = data.split(b"\n")
        last = pieces.pop()
        found: list[bytes | TooLong] = []
        if pieces and (self._rest or self._skipped is not None):
            self._keep(pieces[0])
            found.append(self._take())
            del pieces[0]
        found += [line if len(line) <= self._limit else TooLong(line[:EDGE], line[-EDGE:]) for line in pieces if line]
        if last:
            self._keep(last)
        return found if b"" not in found else [line for line in found if line]

    def _keep(self, piece: bytes) -> None:
        if self._skipped is not None:
            self._skipped.tail = (self._skipped.tail + piece[-EDGE:])[-EDGE:]
            return
        self._rest += piece
        if len(self._rest) > self._limit:
            self._skipped = TooLong(bytes(self._rest[:EDGE]), bytes(self._rest[-EDGE:]))
            self._rest = bytearray()

    def _take(self) -> bytes | TooLong:
        if self._skipped is not None:
            skipped, self._skipped = self._skipped, None
            return skipped
        line, self._rest = bytes(self._rest), bytearray()
        return line
