"""`Finder`: gets to a server and agrees with it, and remembers the way that worked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec

from toolyard.links.mcp.connection import Connection
from toolyard.links.mcp.errors import SessionLostError, status_of, unanswered
from toolyard.links.mcp.handshake import Agreement, ChokedError, Handshake
from toolyard.links.mcp.peer import Lost, McpWire, Peer
from toolyard.links.mcp.transports.sse import SseWire
from toolyard.links.mcp.transports.stdio import StdioWire
from toolyard.links.mcp.transports.streamable import StreamableWire
from toolyard.links.mcp.transports.web import Web
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, Denied, Unavailable

_REFUSALS = frozenset({401, 403})
_SHARE = 0.6
"""Part of the time that is left which one address may take while there are others to try."""

Way = Literal["http", "sse"]


class Candidate(msgspec.Struct, frozen=True):
    """A place where the server may be, and how it may be spoken to there."""

    way: Way
    url: str


class Finder:
    """Knows one server's ways; `make_peer` makes one for each attempt."""

    def __init__(
        self,
        server: McpServer,
        capabilities: dict[str, Any],
        make_peer: Callable[[], Peer],
        web: Callable[[], Web],
        background: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._server = server
        self._capabilities = capabilities
        self._make_peer = make_peer
        self._web = web
        self._background = background
        self._old_only = False
        self._known: Candidate | None = None

    async def find(self, deadline: float, lost: Callable[[McpWire, CallError], None]) -> Connection:
        """A connection that is agreed on; `CallError` if there is none to be had in time."""
        if self._server.transport == "stdio" or self._server.url is None:
            return await self._process(deadline, lost)
        if self._known is not None:
            try:
                return await self._connect_at(self._known, deadline, lost)
            except CallError as error:
                if not status_of(error) or status_of(error) in _REFUSALS or len(candidates(self._server)) == 1:
                    raise
                self._known = None
        return await self._find_address(deadline, lost)

    async def _process(self, deadline: float, lost: Callable[[McpWire, CallError], None]) -> Connection:
        def make() -> tuple[StdioWire, Peer]:
            peer = self._make_peer()
            wire = StdioWire(self._server, peer, lambda fault: lost(wire, fault))
            return wire, peer

        began_old = self._old_only
        if not began_old:
            wire, peer = make()
            try:
                return await self._agree_over(wire, peer, deadline, old_only=False)
            except ChokedError:
                self._old_only = True
        wire, peer = make()
        try:
            return await self._agree_over(wire, peer, deadline, old_only=True)
        except CallError:
            # Time may merely have been short after the probe: then the next attempt begins without.
            self._old_only = not began_old
            raise

    async def _find_address(self, deadline: float, lost: Callable[[McpWire, CallError], None]) -> Connection:
        places = candidates(self._server)
        failures: list[CallError] = []
        loop = asyncio.get_running_loop()
        for position, candidate in enumerate(places):
            left = deadline - loop.time()
            end = deadline if position == len(places) - 1 else loop.time() + left * _SHARE
            try:
                found = await self._connect_at(candidate, end, lost)
            except CallError as error:
                if _is_final(error):
                    raise
                failures.append(error)
                continue
            self._known = candidate
            return found
        # The first is the address as it was given; what it says is the most telling.
        raise failures[0]

    async def _connect_at(
        self, candidate: Candidate, deadline: float, lost: Callable[[McpWire, CallError], None]
    ) -> Connection:
        peer = self._make_peer()
        wire: McpWire
        report: Lost = lambda fault: lost(wire, fault)  # noqa: E731 - it needs the wire that needs it
        if candidate.way == "http":
            wire = StreamableWire(self._web(), candidate.url, peer, report)
        else:
            wire = SseWire(self._web(), candidate.url, peer, report)
        try:
            return await self._agree_over(wire, peer, deadline, old_only=candidate.way == "sse")
        except ChokedError as error:
            raise error.fault from None
        except SessionLostError:
            raise Unavailable(f"{peer.name} forgets our session at once") from None

    async def _agree_over(self, wire: McpWire, peer: Peer, deadline: float, *, old_only: bool) -> Connection:
        done = False
        try:
            async with asyncio.timeout_at(deadline):
                await wire.open()
                handshake = Handshake(wire, peer, self._capabilities, deadline)
                agreement: Agreement = await (handshake.agree_old_way() if old_only else handshake.agree())
            done = True
        except TimeoutError:
            raise unanswered(peer.name, peer.limits.connect_seconds) from None
        finally:
            if not done:
                self._background(_close_quietly(peer, wire))
        return Connection(wire, peer, agreement, self._capabilities)


def candidates(server: McpServer) -> list[Candidate]:
    """Where to look, in this order."""
    url = server.url or ""
    if server.transport == "http":
        return [Candidate("http", url)]
    if server.transport == "sse":
        return [Candidate("sse", url)]
    path, mark, query = url.partition("?")
    bare = path.rstrip("/")

    def below(part: str) -> str:
        return f"{bare}{part}{mark}{query}"

    if bare.endswith("/sse"):
        return [Candidate("sse", url), Candidate("http", url)]
    found = [Candidate("http", url)]
    if not bare.endswith("/mcp"):
        found.append(Candidate("http", below("/mcp")))
    found.append(Candidate("sse", url))
    if not bare.endswith("/mcp"):
        found.append(Candidate("sse", below("/sse")))
    return found


async def _close_quietly(peer: Peer, wire: McpWire) -> None:
    await peer.aclose()
    await wire.aclose()


def _is_final(error: CallError) -> bool:
    """Whether looking elsewhere on the same server is of no use."""
    status = status_of(error)
    if status in _REFUSALS or isinstance(error, Denied):
        return True
    return isinstance(error, Unavailable) and not status
