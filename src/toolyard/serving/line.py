"""`Line`: a connection's transport as answers write to it; and where trailers go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_JOINED_BYTES = 64 * 1024
"""Beyond this, copying costs more than sending twice."""


class _Trailers(list[Any]):
    """Where trailers go. Beside the headers they would pass for headers."""

    def append(self, item: Any) -> None:
        """Forget it."""


NO_TRAILERS: list[tuple[bytes, bytes]] = _Trailers()


class Line(asyncio.Transport):
    """Sends the head of an answer with its body, and closes as its connection wants to be closed.

    Head and body come in two writes, which would be two system calls and often two packets. A head that does not say
    how long its body is belongs to a stream, and goes out at once.
    """

    __slots__ = ("_close", "_head", "_is_closing", "_write")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._write = transport.write
        self._is_closing = transport.is_closing
        self._close = close
        self._head: bytes | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, or keep a head until its body is there."""
        head = self._head
        if head is not None:
            self._head = None
            if len(data) > _JOINED_BYTES:
                self._write(head)
                self._write(data)
            else:
                self._write(head + data)
        elif isinstance(data, bytes) and data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data:
            self._head = data
        else:
            self._write(data)

    def flush(self) -> None:
        """Send a head that has no body."""
        if self._head is not None:
            head, self._head = self._head, None
            self._write(head)

    def is_closing(self) -> bool:
        """Whether the connection ends."""
        return self._is_closing()

    def close(self) -> None:
        """End the connection, after what was written."""
        self.flush()
        self._close()
