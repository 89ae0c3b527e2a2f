"""Sends one request repeatedly on many connections: `python -m benchmarks.load URL CONNECTIONS SECONDS FILE`.

FILE has the complete request; `@ID@` in it is replaced by a unique number. Prints the number of responses, of error
responses, and of broken connections. Only the server's CPU time is measured, so this client need not be fast.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

_ID = b"@ID@"


class Sender(asyncio.Protocol):
    """One connection, which sends the next request after each response."""

    answered = refused = broken = 0
    numbers = itertools.count()

    def __init__(self, request: bytes, until: float) -> None:
        self._request = request
        self._until = until
        self._rest = b""
        self._run = b"%d-" % os.getpid()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Read part of a response."""
        self._rest += data
        head, found, body = self._rest.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        self._rest = b""
        Sender.answered += 1
        Sender.refused += not head.startswith(b"HTTP/1.1 2")
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection as broken, unless the time is over."""
        Sender.broken += asyncio.get_running_loop().time() < self._until

    def _send(self) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        if asyncio.get_running_loop().time() >= self._until:
            self._transport.close()
            return
        request = self._request
        if _ID in request:
            # As long as its placeholder, so that the content length stays the same.
            request = request.replace(_ID, b"%s%012d" % (self._run.rjust(12, b"0"), next(Sender.numbers)))
        self._transport.write(request)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def make_request(method: str, url: str, body: bytes | None, headers: dict[str, str]) -> bytes:
    """The bytes of a request; the content length counts `@ID@` in the body as the 24 characters that replace it."""
    parts = urlsplit(url)
    size = 0 if body is None else len(body) + 20 * body.count(_ID)
    lines = [f"{method} {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {size}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


async def _run(url: str, connections: int, seconds: float, request: bytes) -> None:
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    until = loop.time() + seconds
    for _ in range(connections):
        await loop.create_connection(lambda: Sender(request, until), parts.hostname, parts.port)
    await asyncio.sleep(max(0.0, until - loop.time()) + 0.2)
    print("COUNTED", Sender.answered, Sender.refused, Sender.broken)


if __name__ == "__main__":
    _, _url, _connections, _seconds, _file = sys.argv
    asyncio.run(_run(_url, int(_connections), float(_seconds), Path(_file).read_bytes()))
