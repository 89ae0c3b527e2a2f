"""`EventReader`: a `text/event-stream` to events, however it comes in pieces, never keeping more than allowed."""

from __future__ import annotations

import msgspec

from toolyard.links.mcp.framing import EDGE, TooLong

MAX_FIELD = 8192
"""Bytes of an event's name, id or retry; what is longer is left out."""
MAX_LINES = 100_000
"""Lines of one event's data."""
MAX_RETRY = 3600.0
_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct):
    """One event. `data` is as the stream has it; the id is the last that the stream gave."""

    data: bytes
    name: str = "message"
    too_long: TooLong | None = None
    """What is known of its data if that was over the limit; then `data` is empty."""


class EventReader:
    """Knows, besides the events, where the stream can be taken up again and after which pause."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._after_cr = False
        self._begun = False
        self._data: list[bytes] = []
        self._size = 0
        self._name = "message"
        self._is_cut = False
        self._skipped: TooLong | None = None
        self.last_id = ""
        """Set by the stream, also by events without data; empty if it gave none."""
        self.retry: float | None = None
        """Seconds the server asks to wait before a stream is taken up again."""

    @property
    def is_over(self) -> bool:
        """Whether the event that is coming in is over the limit already."""
        return self._is_cut or self._skipped is not None

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        found: list[Event] = []
        for piece in data.splitlines(keepends=True):
            if piece[-1] not in b"\r\n":
                self._grow(piece)
                break
            text = piece.rstrip(b"\r\n")
            if self._line:
                self._grow(text)
                text = bytes(self._line)
                self._line.clear()
            self._take(text, found)
        self._after_cr = data[-1:] == b"\r"
        return found

    def _grow(self, piece: bytes) -> None:
        """Keep the beginning of a line; of one that is too long only its ends."""
        self._line += piece
        if len(self._line) > self._limit + MAX_FIELD:
            self._is_cut = True
            # The name of the field stays, so that what follows is still taken for the same line.
            del self._line[2 * EDGE : -2 * EDGE]

    def _take(self, line: bytes, found: list[Event]) -> None:
        is_cut, self._is_cut = self._is_cut, False
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(found)
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._add(value, is_cut)
        elif is_cut or len(value) > MAX_FIELD:
            return
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry = min(int(value[:12]) / 1000, MAX_RETRY)

    def _add(self, value: bytes, is_cut: bool) -> None:
        self._size += len(value) + 1
        if self._skipped is not None:
            self._skipped.tail = value[-EDGE:]
        elif is_cut or self._size > self._limit + 1 or len(self._data) > MAX_LINES:
            self._skipped = TooLong((self._data[0] if self._data else value)[:EDGE], value[-EDGE:])
            self._data.clear()
        else:
            self._data.append(value)

    def _dispatch(self, found: list[Event]) -> None:
        """The end of an event; one without data is none, though its id counts."""
        if self._skipped is not None:
            found.append(Event(b"", self._name, self._skipped))
        elif self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            found.append(Event(data, self._name))
        self._data.clear()
        self._size = 0
        self._name = "message"
        self._skipped = None
