"""`Finder`: connects to a server and performs the handshake, and remembers the way that worked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec

from toolyard.links.mcp.connection import Connection
from toolyard.links.mcp.errors import SessionLostError, is_refusal, make_connect_timeout, status_of
from toolyard.links.mcp.handshake import Agreement, Handshake, ProbeFailedError
from toolyard.links.mcp.peer import Peer
from toolyard.links.mcp.sse import SseWire
from toolyard.links.mcp.stdio import StdioWire
from toolyard.links.mcp.streamable import StreamableWire
from toolyard.links.mcp.web import Web
from toolyard.links.mcp.wire import Lost, McpWire
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, Denied, Unavailable

_TIME_SHARE = 0.6
"""The part of the remaining time for one candidate while there are others to try."""

Way = Literal["http", "sse"]


class Candidate(msgspec.Struct, frozen=True):
    """A possible URL of the server, with its transport."""

    way: Way
    url: str


class Finder:
    """Connects to one server; `make_peer` creates a peer for each attempt."""

    def __init__(
        self,
        server: McpServer,
        capabilities: dict[str, Any],
        make_peer: Callable[[], Peer],
        open_web: Callable[[], Web],
        lost: Lost,
        start_task: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._server = server
        self._capabilities = capabilities
        self._make_peer = make_peer
        self._open_web = open_web
        self._lost = lost
        self._start_task = start_task
        self._old_only = False
        self._known: Candidate | None = None

    async def find(self, deadline: float) -> Connection:
        """A connection after the handshake; `CallError` if none can be made in time."""
        if self._server.transport == "stdio" or self._server.url is None:
            return await self._start_process(deadline)
        if self._known is not None:
            try:
                return await self._connect_at(self._known, deadline)
            except CallError as error:
                if not status_of(error) or is_refusal(error) or len(candidates(self._server)) == 1:
                    raise
                self._known = None
        return await self._find_address(deadline)

    async def _start_process(self, deadline: float) -> Connection:
        began_old = self._old_only
        if not began_old:
            try:
                return await self._agree_over(self._make_process_wire(), deadline, old_only=False)
            except ProbeFailedError:
                self._old_only = True
        try:
            return await self._agree_over(self._make_process_wire(), deadline, old_only=True)
        except CallError:
            # The probe may have used up the time, so the next attempt starts without it.
            self._old_only = not began_old
            raise

    def _make_process_wire(self) -> McpWire:
        return StdioWire(self._server, self._make_peer(), self._lost)

    async def _find_address(self, deadline: float) -> Connection:
        places = candidates(self._server)
        failures: list[CallError] = []
        loop = asyncio.get_running_loop()
        for position, candidate in enumerate(places):
            left = deadline - loop.time()
            end = deadline if position == len(places) - 1 else loop.time() + left * _TIME_SHARE
            try:
                found = await self._connect_at(candidate, end)
            except CallError as error:
                status = status_of(error)
                if is_refusal(error) or isinstance(error, Denied) or (isinstance(error, Unavailable) and not status):
                    raise  # the other candidates on the same server would fail too
                failures.append(error)
                continue
            self._known = candidate
            return found
        # The first candidate is the URL as given, whose error is the most informative.
        raise failures[0]

    async def _connect_at(self, candidate: Candidate, deadline: float) -> Connection:
        make_wire = StreamableWire if candidate.way == "http" else SseWire
        wire = make_wire(self._open_web(), candidate.url, self._make_peer(), self._lost)
        try:
            return await self._agree_over(wire, deadline, old_only=candidate.way == "sse")
        except ProbeFailedError as error:
            raise error.fault from None
        except SessionLostError:
            raise Unavailable(f"{wire.peer.name} forgets our session at once") from None

    async def _agree_over(self, wire: McpWire, deadline: float, *, old_only: bool) -> Connection:
        done = False
        try:
            async with asyncio.timeout_at(deadline):
                await wire.open()
                handshake = Handshake(wire, self._capabilities, deadline)
                agreement: Agreement = await (handshake.initialize() if old_only else handshake.agree())
            done = True
        except TimeoutError:
            raise make_connect_timeout(wire.peer.name, wire.peer.limits.connect_seconds) from None
        finally:
            if not done:
                self._start_task(wire.aclose())
        return Connection(wire, agreement, self._capabilities)


def candidates(server: McpServer) -> list[Candidate]:
    """The URLs and transports to try, in order."""
    url = server.url or ""
    http, sse = Candidate("http", url), Candidate("sse", url)
    if server.transport in ("http", "sse"):
        return [http if server.transport == "http" else sse]
    path, mark, query = url.partition("?")
    bare = path.rstrip("/")
    if bare.endswith("/sse"):
        return [sse, http]
    if bare.endswith("/mcp"):
        return [http, sse]
    return [http, Candidate("http", f"{bare}/mcp{mark}{query}"), sse, Candidate("sse", f"{bare}/sse{mark}{query}")]
