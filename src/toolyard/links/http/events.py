"""`EventReader`: parses `text/event-stream` responses."""

from __future__ import annotations

import msgspec

from toolyard.parsing.lines import EDGE, SkippedLine

MAX_FIELD = 8192
"""Maximum bytes of an event's name, id or retry; longer ones are ignored."""
MAX_LINES = 100_000
"""Maximum lines of one event's data."""
MAX_RETRY = 3600.0
_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(msgspec.Struct):
    """One event, with its raw data."""

    data: bytes
    name: str
    id: str
    """The last id in the stream up to this event; empty if there was none."""
    too_long: SkippedLine | None = None
    """What is known of the data if it exceeds the limit; `data` is then empty."""


class EventReader:
    """Parses events, and keeps the id and the delay for resuming the stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.restart()
        self.last_id = ""
        """The last id in the stream, also of events without data; empty if there was none."""
        self.retry: float | None = None
        """Seconds that the server asks to wait before the stream is resumed."""

    def restart(self) -> None:
        """Prepare for another stream: discard the unfinished event of the last one."""
        self._line = bytearray()
        self._after_cr = False
        self._begun = False
        self._data: list[bytes] = []
        self._size = 0
        self._name = "message"
        self._is_cut = False
        self._skipped: SkippedLine | None = None

    @property
    def is_over(self) -> bool:
        """Whether the event that is being received already exceeds the limit."""
        return self._is_cut or self._skipped is not None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that these bytes complete."""
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        found: list[ServerSentEvent] = []
        for piece in data.splitlines(keepends=True):
            if piece[-1] not in b"\r\n":
                self._grow_line(piece)
                break
            text = piece.rstrip(b"\r\n")
            if self._line:
                self._grow_line(text)
                text = bytes(self._line)
                self._line.clear()
            self._take_line(text, found)
        self._after_cr = data[-1:] == b"\r"
        return found

    def _grow_line(self, piece: bytes) -> None:
        """Buffer the beginning of a line; of an oversized one, keep only both ends."""
        self._line += piece
        if len(self._line) > self._limit + MAX_FIELD:
            self._is_cut = True
            # The name of the field remains, so that what follows is still read as the same line.
            del self._line[2 * EDGE : -2 * EDGE]

    def _take_line(self, line: bytes, found: list[ServerSentEvent]) -> None:
        is_cut, self._is_cut = self._is_cut, False
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch_event(found)
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._add_data(value, is_cut)
        elif is_cut or len(value) > MAX_FIELD:
            return
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry = min(int(value[:12]) / 1000, MAX_RETRY)

    def _add_data(self, value: bytes, is_cut: bool) -> None:
        self._size += len(value) + 1
        if self._skipped is not None:
            self._skipped.tail = value[-EDGE:]
        elif is_cut or self._size > self._limit + 1 or len(self._data) > MAX_LINES:
            self._skipped = SkippedLine((self._data[0] if self._data else value)[:EDGE], value[-EDGE:])
            self._data.clear()
        else:
            self._data.append(value)

    def _dispatch_event(self, found: list[ServerSentEvent]) -> None:
        """Finish an event; without data there is none, although its id counts."""
        if self._skipped is not None:
            found.append(ServerSentEvent(b"", self._name, self.last_id, self._skipped))
        elif self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            found.append(ServerSentEvent(data, self._name, self.last_id))
        self._data.clear()
        self._size = 0
        self._name = "message"
        self._skipped = None
