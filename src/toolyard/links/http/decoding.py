"""Incremental decoding of response bodies, with limits on bytes received and decoded."""

from __future__ import annotations

import zlib

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
