"""`SwiftPool`: HTTP/1.1 to allowed addresses on one event loop, for many small exchanges and for streams.

The HTTP library spends a millisecond on an exchange; this spends a tenth of it. It guards in the same way: a name is
resolved once and every address checked, TLS goes by the name, and a connection serves one exchange at a time and,
after one that did not come to its end, no other.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpcore2

from toolyard.links.guard import IDLE_SECONDS, Gate, share_of
from toolyard.links.swift_line import SwiftLine, SwiftResponse

if TYPE_CHECKING:
    from toolyard.links.guard import Exchange

Where = tuple[str, str, int, bool]
"""Scheme, host, port, and whether the operator named it."""


class SwiftPool:
    """Connections of one event loop."""

    def __init__(self, gate: Gate, tls: Callable[[], ssl.SSLContext], size: int) -> None:
        self._gate = gate
        self._tls = tls
        self._free = asyncio.Semaphore(size)
        self._idle: dict[Where, list[SwiftLine]] = {}
        self._lines: set[SwiftLine] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    async def exchange(self, where: Where, data: bytes, exchange: Exchange, connect_seconds: float) -> SwiftResponse:
        """Send a request and give the answer's head, and the body to come; to be closed in any case."""
        await self._free.acquire()
        line: SwiftLine | None = None
        try:
            line = self._kept(where)
            if line is None:
                line = await self._connect(where, exchange, connect_seconds)
                exchange.fresh = True
            exchange.sent = True
            return await line.send(data, exchange)
        except BaseException:
            self._drop(line)
            self._free.release()
            raise

    async def aclose(self) -> None:
        """Hang up on everybody."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for line in list(self._lines):
            self._drop(line)
        self._idle.clear()

    def _kept(self, where: Where) -> SwiftLine | None:
        kept = self._idle.get(where)
        while kept:
            line = kept.pop()
            if line.is_usable and time.monotonic() - line.idle_since < IDLE_SECONDS:
                return line
            self._drop(line)
        return None

    async def _connect(self, where: Where, exchange: Exchange, seconds: float) -> SwiftLine:
        end = time.monotonic() + seconds
        scheme, host, port, trusted = where
        context = self._tls() if scheme == "https" else None
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._gate.aaddresses(host, port, trusted)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        failure: Exception = httpcore2.ConnectTimeout()
        for position, address in enumerate(addresses):
            share = share_of(end, len(addresses) - position)
            if share is None or share <= 0:
                break
            try:
                return await self._dialled(address, where, context, share)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _dialled(self, address: str, where: Where, context: ssl.SSLContext | None, seconds: float) -> SwiftLine:
        loop = asyncio.get_running_loop()
        name = where[1] if context is not None else None
        try:
            async with asyncio.timeout(seconds):
                _, line = await loop.create_connection(
                    lambda: SwiftLine(where, self._done), address, where[2], ssl=context, server_hostname=name
                )
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        except OSError as error:
            raise httpcore2.ConnectError from error
        if self._gate.closed:
            line.abort()
            raise httpcore2.ConnectError("closed")
        line.keep_alive()
        self._lines.add(line)
        return line

    def _done(self, line: SwiftLine) -> None:
        """An exchange is over; its line is kept if nothing of it is left there."""
        self._free.release()
        if line.is_usable and not self._gate.closed:
            line.idle_since = time.monotonic()
            self._idle.setdefault(line.where, []).append(line)
            if self._sweeper is None:
                self._sweeper = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)
        else:
            self._drop(line)

    def _drop(self, line: SwiftLine | None) -> None:
        if line is not None:
            self._lines.discard(line)
            line.abort()

    def _sweep(self) -> None:
        """Hang up where nobody has called for a while."""
        now = time.monotonic()
        for where, lines in list(self._idle.items()):
            for line in [line for line in lines if now - line.idle_since >= IDLE_SECONDS or not line.is_usable]:
                lines.remove(line)
                self._drop(line)
            if not lines:
                del self._idle[where]
        left = bool(self._idle)
        self._sweeper = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep) if left else None
