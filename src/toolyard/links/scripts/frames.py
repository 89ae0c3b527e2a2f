"""Frames as the server reads and writes them: four bytes of length, big end first, then JSON."""

from __future__ import annotations

HEAD = 4


class BadFrame(ValueError):
    """What arrived is no frame, or one that is too large."""


def framed(body: bytes) -> bytes:
    """A frame of a body."""
    return len(body).to_bytes(HEAD, "big") + body


class FrameReader:
    """Takes bytes as they come and gives one whole body; more than that is an error, since one was asked for."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """The body, once it is complete."""
        if self._data or len(data) < HEAD:
            self._data += data
            return self._take(bytes(self._data)) if len(self._data) >= HEAD and self._is_whole() else None
        size = int.from_bytes(data[:HEAD], "big")
        self._check(size, len(data))
        if len(data) == size + HEAD:
            return data[HEAD:]
        self._data += data
        return None

    def _is_whole(self) -> bool:
        size = int.from_bytes(self._data[:HEAD], "big")
        self._check(size, len(self._data))
        return len(self._data) == size + HEAD

    def _take(self, data: bytes) -> bytes:
        self._data.clear()
        return data[HEAD:]

    def _check(self, size: int, arrived: int) -> None:
        if size > self._limit:
            raise BadFrame(f"a frame of {size} bytes, where {self._limit} are allowed")
        if arrived > size + HEAD:
            raise BadFrame("more than the one frame that was asked for")
