"""`SwiftLine`: one connection of a `SwiftPool`, and the answer that comes in on it."""

from __future__ import annotations

import asyncio
import re
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpcore2
import httptools

from toolyard.links.guard import Exchange

MOST_WAITING = 1024 * 1024
"""Bytes of a body that may wait to be read before the server is made to wait."""
MOST_EMPTY = 256 * 1024
"""Bytes after the head in a row that are none of the body: trailers, and what is said about chunks."""
_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*(?=\r\n)", re.IGNORECASE)
_FIRST = 100
_TWICE = 2
_FIRST_FINAL = 200
_UPGRADE = 101
_BODILESS = frozenset({204, 304})
_DISCONNECTED = "Server disconnected without sending a response."
_INCOMPLETE = "peer closed connection without sending complete message body (incomplete)"


class SwiftResponse:
    """The head of an answer, and its body as it comes."""

    __slots__ = ("_line", "headers", "status")

    def __init__(self, line: SwiftLine, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._line: SwiftLine | None = line
        self.status = status
        self.headers = headers

    async def aiter_stream(self) -> AsyncGenerator[bytes, None]:
        """The pieces of the body, not decoded."""
        line = self._line
        assert line is not None
        while True:
            while line.pieces:
                yield line.take()
            if line.is_whole:
                return
            await line.wait()

    async def aclose(self) -> None:
        """Let go of the connection, which is kept if the answer was read to its end."""
        line, self._line = self._line, None
        if line is not None:
            line.finish()


class SwiftLine(asyncio.Protocol):
    """Reads answers with the parser's callbacks; what is wrong with one is an exception of the HTTP library's."""

    def __init__(self, where: tuple[str, str, int, bool], done: Callable[[SwiftLine], None]) -> None:
        self.where = where
        self.idle_since = 0.0
        self.pieces: deque[bytes] = deque()
        self.is_whole = True
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._exchange: Exchange | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = 0
        self._has_length = False
        self._has_extra = False
        self._keeps = True
        self._waiting = 0
        self._is_paused = False
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_head = False
        self._empty = 0
        """Bytes since the head that brought nothing of the body."""
        self._head = b""
        """What has come of the head."""

    @property
    def is_usable(self) -> bool:
        """Whether another exchange may begin."""
        open_ = self._transport is not None and not self._transport.is_closing()
        clean = self.is_whole and not self._has_extra and self._fault is None
        # Nobody has looked at what comes in while reading is paused.
        return open_ and clean and self._keeps and not self.pieces and not self._is_paused

    async def send(self, data: bytes, exchange: Exchange) -> SwiftResponse:
        """Begin an exchange and wait for the head of its answer."""
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange = exchange
        self._headers, self._status = [], 0
        self.is_whole = self._has_length = self._has_extra = False
        self._is_head = data.startswith(b"HEAD ")
        self._empty = 0
        self._head = b""
        self._transport.write(data)
        while self._status == 0:
            await self.wait()
        return SwiftResponse(self, self._status, self._headers)

    async def wait(self) -> None:
        """Until something has changed; what is wrong already is raised."""
        if self._fault is not None:
            raise self._fault
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def take(self) -> bytes:
        """The next piece of the body."""
        piece = self.pieces.popleft()
        self._waiting -= len(piece)
        return piece

    def finish(self) -> None:
        """The exchange is over; what was not read of an answer that is all there is let go."""
        self._exchange = None
        if self.is_whole:
            self.pieces.clear()
            self._waiting = 0
        self._done(self)

    def abort(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes from the server; outside of an exchange nobody asked for them."""
        exchange = self._exchange
        if exchange is None or self.is_whole:
            self._has_extra = True
            self.abort()
            return
        try:
            exchange.count(data)
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, httpcore2.RemoteProtocolError) as error:
            known = isinstance(error, httpcore2.RemoteProtocolError)
            self._fail(error if known else httpcore2.RemoteProtocolError("not HTTP"))
            return
        if self._waiting > MOST_WAITING and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def _feed(self, data: bytes) -> None:
        if self._status == 0:
            self._head += data
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserError:
                # The parser minds a length that is said twice, which is harmless if it is the same.
                once = _said_once(self._head)
                if once is None or self._status != 0:
                    raise
                self._headers = []
                self._parser = httptools.HttpResponseParser(self)
                self._parser.feed_data(once)
            return
        waiting = self._waiting
        self._parser.feed_data(data)
        self._empty = 0 if self._waiting > waiting else self._empty + len(data)
        if self._empty > MOST_EMPTY:
            raise httpcore2.RemoteProtocolError("too much beside the body")

    def keep_alive(self) -> None:
        """Have the system find out when whoever is at the other end is gone without a word."""
        found = None if self._transport is None else self._transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _PROBES:
                if hasattr(socket, name):
                    found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def connection_lost(self, error: Exception | None) -> None:
        """The server has hung up, or we have."""
        if self.is_whole or self._fault is not None:
            self._wake()
        elif self._status == 0:
            self._fail(httpcore2.ReadError() if error else httpcore2.RemoteProtocolError(_DISCONNECTED))
        elif error is None and not self._has_length:
            self.is_whole, self._keeps = True, False  # the end of the connection is the end of the body
            self._wake()
        else:
            self._fail(httpcore2.RemoteProtocolError(_INCOMPLETE))

    def on_message_begin(self) -> None:
        """The parser's: a second message in one exchange is one too many."""
        self._has_extra = self._status != 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser's: a header, or a trailer, which nobody reads."""
        if self._status == 0 and not self._has_extra:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The parser's: the head is whole."""
        if self._has_extra:
            return
        status = self._parser.get_status_code()
        if status < _FIRST:
            raise httpcore2.RemoteProtocolError("no status")
        if status < _FIRST_FINAL:
            self._headers = []
            self._head = b""
            if status == _UPGRADE:
                raise httpcore2.RemoteProtocolError("an unasked upgrade")
            return
        names = {name.lower() for name, _ in self._headers}
        self._has_length = status in _BODILESS or bool(names & {b"content-length", b"transfer-encoding"})
        self._keeps = self._parser.should_keep_alive()
        self._status = status
        self._head = b""
        if self._is_head:
            # Whatever length it tells is that of a body which does not come.
            self.is_whole = self._has_length = True

    def on_body(self, piece: bytes) -> None:
        """The parser's: some of the body."""
        if self._status != 0 and not self._has_extra:
            self.pieces.append(piece)
            self._waiting += len(piece)

    def on_message_complete(self) -> None:
        """The parser's: the answer is whole, unless it was one that only announces another."""
        if self._status != 0:
            self.is_whole = True

    def _fail(self, fault: Exception) -> None:
        self._fault = fault
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _said_once(head: bytes) -> bytes | None:
    """The same with its length said once, if it says the same more often; None if it does not."""
    fields, end, rest = head.partition(b"\r\n\r\n")
    lengths: list[bytes] = _LENGTH.findall(fields + b"\r\n")
    if not end or len(lengths) < _TWICE or len(set(lengths)) > 1:
        return None
    plain = _LENGTH.sub(b"", fields + b"\r\n").removesuffix(b"\r\n")
    return plain + b"\r\ncontent-length: " + lengths[0] + end + rest
