"""Read response bodies piece by piece: decoded, with limits on bytes received and decoded, and as events.

`EventReader` parses `text/event-stream`.
"""

from __future__ import annotations

import zlib

import msgspec

from toolyard.parsing.lines import EDGE, SkippedLine

ACCEPTED = "gzip, deflate"
MAX_MEMBERS = 256
"""Maximum number of members of a gzip body; each costs a copy of the data that follows it."""
MANY_CHUNKS = 10_000
SMALL_CHUNK = 64
"""Minimum average size, in bytes, of a body's chunks once there are `MANY_CHUNKS`."""
MAX_DECODED_CHUNK = 64 * 1024 * 1024
"""Maximum number of bytes that one chunk of a streamed body may decode to."""
_GZIP = 16 + zlib.MAX_WBITS
_ZLIB_HEADER = 2
_ZLIB_METHOD = 8
_ZLIB_CHECK = 31


class BodyError(Exception):
    """The body cannot be read."""

    problem: str
    """What the response is or does, for a message that begins with its name."""
    hint: str | None = None
    retryable: bool | None = None


class TooLargeError(BodyError):
    """The body has more bytes than allowed."""

    hint = "ask for less, or let the operator allow more"

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.problem = f"is larger than {limit:,} bytes"


class UndecodableError(BodyError):
    """The body does not match its content-encoding."""

    problem = "is not encoded as it says"


class TruncatedError(BodyError):
    """The body is incomplete."""

    problem = "ends before it is whole"
    retryable = True


class FragmentedBodyError(BodyError):
    """The body arrives in chunks so small that assembling them is too expensive."""

    problem = "comes in too many small pieces"


class DecodedBody:
    """Collects and decodes one body; `encoding` is the value of its content-encoding header."""

    def __init__(self, limit: int, encoding: str = "") -> None:
        self._limit = limit
        self._received = 0
        self._pieces = 0
        self._data = bytearray()
        self._inflate: _Inflate | None = None
        name = encoding.strip().lower()
        if name in ("gzip", "x-gzip"):
            self._inflate = _Gzip()
        elif name == "deflate":
            self._inflate = _Deflate()
        elif name not in ("", "identity"):
            raise UndecodableError

    def add(self, chunk: bytes) -> None:
        """Add the next bytes received."""
        self._received += len(chunk)
        self._pieces += 1
        if self._received > self._limit:
            raise TooLargeError(self._limit)
        if self._pieces > MANY_CHUNKS and self._received < self._pieces * SMALL_CHUNK:
            raise FragmentedBodyError
        if self._inflate is None:
            # One buffer, not a list of chunks, since a server may send one byte at a time.
            self._data += chunk
            return
        try:
            self._inflate.append_to(self._data, chunk, self._limit)
        except zlib.error:
            raise UndecodableError from None

    def finish(self) -> bytes:
        """Return the whole decoded body."""
        # An empty body needs no decoding: responses to HEAD, and 204, may have a content-encoding too.
        if self._inflate is not None and self._received and not self._inflate.stream.eof:
            raise TruncatedError
        return bytes(self._data)


class StreamedBody(DecodedBody):
    """Decodes an endless body chunk by chunk."""

    def __init__(self, encoding: str) -> None:
        super().__init__(MAX_DECODED_CHUNK, encoding)

    def decode(self, chunk: bytes) -> bytes:
        """Decode the next bytes received."""
        if self._inflate is None:
            return chunk
        self._received = self._pieces = 0
        self.add(chunk)
        data = bytes(self._data)
        self._data.clear()
        return data


class _Inflate:
    """Decompresses one zlib stream."""

    def __init__(self, window: int) -> None:
        self._window = window
        self.stream = zlib.decompressobj(window)

    def append_to(self, data: bytearray, chunk: bytes, limit: int) -> None:
        """Append the decoded chunk to `data`, which must not exceed `limit` bytes."""
        data += self.stream.decompress(chunk, limit - len(data) + 1)
        if len(data) > limit:
            raise TooLargeError(limit)


class _Gzip(_Inflate):
    def __init__(self) -> None:
        super().__init__(_GZIP)
        self._members = 1

    def append_to(self, data: bytearray, chunk: bytes, limit: int) -> None:
        while chunk:
            if self.stream.eof:
                chunk = chunk.lstrip(b"\0")  # padding, which the format allows at its end
                if not chunk:
                    return
                self._members += 1
                if self._members > MAX_MEMBERS:
                    raise UndecodableError
                self.stream = zlib.decompressobj(self._window)
            super().append_to(data, chunk, limit)
            chunk = self.stream.unused_data


class _Deflate(_Inflate):
    """`deflate`, which by the standard has a zlib header; some servers omit it."""

    def __init__(self) -> None:
        super().__init__(zlib.MAX_WBITS)
        self._head: bytes | None = b""

    def append_to(self, data: bytearray, chunk: bytes, limit: int) -> None:
        if self._head is not None:
            chunk = self._head + chunk
            if len(chunk) < _ZLIB_HEADER:
                self._head = chunk
                return
            self._head = None
            if chunk[0] & 15 != _ZLIB_METHOD or int.from_bytes(chunk[:_ZLIB_HEADER]) % _ZLIB_CHECK:
                self.stream = zlib.decompressobj(-zlib.MAX_WBITS)
        super().append_to(data, chunk, limit)
        if self.stream.unused_data:
            raise UndecodableError


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
