"""`Values`: how many values a JSON text holds, counted while it comes in and long before it is parsed."""

from __future__ import annotations

from toolyard.serving.faults import HttpFault

_SLICE = 64 * 1024
"""Bytes that are looked at in one go, during which nobody else can run."""
_SPACE = b" \t\r\n"


class Values:
    """Counts the values of one body, piece by piece.

    A value costs two bytes to send, and a hundred once it is parsed. Each but the first has a comma before it, or the
    bracket of what it is the first in, unless that is empty; what stands inside texts does not count. Of what is no
    JSON the count means nothing, and it will be refused in any case.
    """

    __slots__ = ("_before", "_inside", "_rest", "count", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 1
        self._inside = False
        """Whether the next byte stands in a text."""
        self._rest = b""
        """A backslash whose other half has not come yet."""
        self._before = b""
        """The last byte outside of texts, if the next one follows it directly."""

    def feed(self, piece: bytes) -> None:
        """Count what came; an `HttpFault` 413 as soon as there is more than there may be."""
        for start in range(0, len(piece), _SLICE):
            self._count(piece[start : start + _SLICE])
            if self.count > self.most:
                raise too_many(self.most)

    def _count(self, piece: bytes) -> None:
        if self._rest or b"\\" in piece:
            # Pairs first: what then still stands before a quote makes it a part of its text.
            piece = (self._rest + piece).replace(b"\\\\", b"")
            self._rest = b"\\" if piece.endswith(b"\\") else b""
            piece = piece.removesuffix(b"\\").replace(b'\\"', b"")
        parts = piece.split(b'"')
        # A quote stays for each text, or a list that holds only a text would look empty.
        outside = b'"'.join(parts[self._inside :: 2]).translate(None, _SPACE)
        if len(parts) % 2 == 0:
            self._inside = not self._inside
        if outside:
            self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
            outside = self._before + outside
            self.count -= outside.count(b"[]") + outside.count(b"{}")
        if len(parts) > 1 or outside:
            self._before = b"" if self._inside else outside[-1:]


def too_many(most: int) -> HttpFault:
    """The body holds more values than are taken; the rest of it may still be to come."""
    return HttpFault(
        413,
        "request.too_large",
        f"the body has more than {most:,} values",
        details={"max_values": most},
        headers=((b"connection", b"close"),),
    )
