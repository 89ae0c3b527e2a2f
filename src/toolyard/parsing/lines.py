"""Split a byte stream into lines of limited length."""

from __future__ import annotations

import msgspec

EDGE = 256
"""Bytes kept from each end of a line that is too long, to identify what it was."""


class SkippedLine(msgspec.Struct):
    """Both ends of a line that was skipped because of its length."""

    head: bytes
    tail: bytes


class LineReader:
    """Splits pieces of bytes at line feeds. Carriage returns stay part of the line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipped: SkippedLine | None = None

    def feed(self, data: bytes) -> list[bytes | SkippedLine]:
        """The lines completed by `data`, in order, without empty ones."""
        *pieces, last = data.split(b"\n")
        found: list[bytes | SkippedLine] = []
        for piece in pieces:
            self._keep(piece)
            found += self.finish()
        self._keep(last)
        return found

    def finish(self) -> list[bytes | SkippedLine]:
        """The last line, if it has no line feed; empty if there is none."""
        line = self._skipped or bytes(self._rest)
        self._rest, self._skipped = bytearray(), None
        return [line] if line else []

    def _keep(self, piece: bytes) -> None:
        if self._skipped is not None:
            self._skipped.tail = (self._skipped.tail + piece[-EDGE:])[-EDGE:]
            return
        self._rest += piece
        if len(self._rest) > self._limit:
            self._skipped = SkippedLine(bytes(self._rest[:EDGE]), bytes(self._rest[-EDGE:]))
            self._rest = bytearray()
