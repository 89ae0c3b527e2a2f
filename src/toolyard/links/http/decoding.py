"""A body as it comes in: never more of it than allowed, neither on the wire nor decoded."""

from __future__ import annotations

import zlib

ACCEPTED = "gzip, deflate"
MAX_MEMBERS = 256
"""A gzip body may be several one after another; each costs a copy of what follows it."""
MANY_PIECES = 10_000
SMALL_PIECE = 64
"""Bytes; of many pieces the average must be more."""
MOST_AT_ONCE = 64 * 1024 * 1024
"""Bytes that one piece of a streamed body may become when it is decoded."""
_GZIP = 16 + zlib.MAX_WBITS
_ZLIB_HEADER = 2
_ZLIB_METHOD = 8
_ZLIB_CHECK = 31


class TooLargeError(Exception):
    """More bytes than allowed."""


class UndecodableError(Exception):
    """Not what its content-encoding says."""


class TruncatedError(Exception):
    """Ends before its content-encoding does."""


class CrumbsError(Exception):
    """In pieces so small that putting them together costs more than they are worth."""


class DecodedBody:
    """Collects one body, decoded; `encoding` is the value of its content-encoding header."""

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
        """The next bytes off the wire."""
        self._received += len(chunk)
        self._pieces += 1
        if self._received > self._limit:
            raise TooLargeError
        if self._pieces > MANY_PIECES and self._received < self._pieces * SMALL_PIECE:
            raise CrumbsError
        if self._inflate is None:
            # One buffer, not a list of chunks: a server may send a byte at a time.
            self._data += chunk
            return
        try:
            self._inflate.into(self._data, chunk, self._limit)
        except zlib.error:
            raise UndecodableError from None

    def whole(self) -> bytes:
        """All of it."""
        # A body of no bytes is one without encoding: answers to HEAD, and 204, name one all the same.
        if self._inflate is not None and self._received and not self._inflate.ended():
            raise TruncatedError
        return bytes(self._data)


class StreamedBody(DecodedBody):
    """A body that has no end in sight: each piece is decoded and handed on."""

    def __init__(self, encoding: str) -> None:
        super().__init__(MOST_AT_ONCE, encoding)

    def decode(self, chunk: bytes) -> bytes:
        """What the next bytes off the wire stand for."""
        if self._inflate is None:
            return chunk
        self._received = self._pieces = 0
        self.add(chunk)
        data = bytes(self._data)
        self._data.clear()
        return data


class _Inflate:
    """One compressed stream."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)

    def into(self, data: bytearray, chunk: bytes, limit: int) -> None:
        """Decode the chunk behind what is there already."""
        data += self._stream.decompress(chunk, limit - len(data) + 1)
        if len(data) > limit:
            raise TooLargeError

    def ended(self) -> bool:
        """Whether nothing is missing."""
        return self._stream.eof


class _Gzip(_Inflate):
    def __init__(self) -> None:
        super().__init__(_GZIP)
        self._members = 1

    def into(self, data: bytearray, chunk: bytes, limit: int) -> None:
        while chunk:
            if self._stream.eof:
                chunk = chunk.lstrip(b"\0")  # padding, which the format allows at its end
                if not chunk:
                    return
                self._members += 1
                if self._members > MAX_MEMBERS:
                    raise UndecodableError
                self._stream = zlib.decompressobj(self._window)
            super().into(data, chunk, limit)
            chunk = self._stream.unused_data


class _Deflate(_Inflate):
    """By the standard in zlib's wrapping; some servers leave that out."""

    def __init__(self) -> None:
        super().__init__(zlib.MAX_WBITS)
        self._head: bytes | None = b""

    def into(self, data: bytearray, chunk: bytes, limit: int) -> None:
        if self._head is not None:
            chunk = self._head + chunk
            if len(chunk) < _ZLIB_HEADER:
                self._head = chunk
                return
            self._head = None
            if chunk[0] & 15 != _ZLIB_METHOD or int.from_bytes(chunk[:_ZLIB_HEADER]) % _ZLIB_CHECK:
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        super().into(data, chunk, limit)
        if self._stream.unused_data:
            raise UndecodableError
