"""`Finder`: connects to a server and performs the handshake, and remembers the way that worked.

`Handshake` agrees on a protocol version: by `server/discover` since 2026, by `initialize` before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

from toolyard.dialects.mcp_protocol import HANDSHAKE, NEWEST_HANDSHAKE, STATELESS, TOOLYARD, UNSUPPORTED_VERSION
from toolyard.links.mcp.connection import Agreement, Connection, make_meta
from toolyard.links.mcp.errors import RequestRefused, SessionLostError, is_refusal, make_connect_timeout, status_of
from toolyard.links.mcp.framing import modern_headers
from toolyard.links.mcp.http_transports import SseWire, StreamableWire
from toolyard.links.mcp.peer import McpReply, Peer
from toolyard.links.mcp.stdio import StdioWire
from toolyard.links.mcp.web import Web
from toolyard.links.mcp.wire import Lost, McpWire, Request
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, Denied, Interrupted, Unavailable

_TIME_SHARE = 0.6
"""The part of the remaining time for one candidate while there are others to try."""

Candidate = tuple[Literal["http", "sse"], str]
"""A transport, and a possible URL of the server."""


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
        transport, url = candidate
        make_wire = StreamableWire if transport == "http" else SseWire
        wire = make_wire(self._open_web(), url, self._make_peer(), self._lost)
        try:
            return await self._agree_over(wire, deadline, old_only=transport == "sse")
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
    http: Candidate = ("http", url)
    sse: Candidate = ("sse", url)
    if server.transport in ("http", "sse"):
        return [http if server.transport == "http" else sse]
    path, mark, query = url.partition("?")
    bare = path.rstrip("/")
    if bare.endswith("/sse"):
        return [sse, http]
    if bare.endswith("/mcp"):
        return [http, sse]
    return [http, ("http", f"{bare}/mcp{mark}{query}"), sse, ("sse", f"{bare}/sse{mark}{query}")]


_KNOWN = ", ".join((*HANDSHAKE, STATELESS))
_PROBE_SHARE, _LONGEST_PROBE = 0.2, 2.0
"""Part of the connect timeout, and maximum seconds, to wait for the probe before `initialize` is sent too."""
_READ_SHARE = 0.6
"""Part of the connect timeout after which a server that has read both requests is assumed to hang."""


class ProbeFailedError(Exception):
    """After a probe the server hung up, hung or refused `initialize`, so it may only support `initialize`."""

    def __init__(self, fault: CallError) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Handshake:
    """One handshake over an open wire."""

    def __init__(self, wire: McpWire, capabilities: dict[str, Any], deadline: float) -> None:
        self._wire = wire
        self._peer = wire.peer
        self._capabilities = capabilities
        self._deadline = deadline

    async def agree(self) -> Agreement:
        """Try the new protocol, and the old one if the server does not understand it."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        left = self._deadline - now
        probe = loop.create_task(self._discover())
        old: asyncio.Task[Agreement] | None = None
        try:
            await asyncio.wait({probe}, timeout=min(left * _PROBE_SHARE, _LONGEST_PROBE))
            if not probe.done():
                # The server may only be starting slowly: send both requests and take the first response.
                old = loop.create_task(self.initialize())
                end, has_read = now + left * _READ_SHARE, False
                while not (probe.done() or old.done() or has_read):
                    # A server that has not read the requests is still starting, so keep waiting.
                    has_read = self._wire.has_read()
                    wait = max(end - loop.time(), left * _PROBE_SHARE)
                    await asyncio.wait({probe, old}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            if probe.done():
                return await self._agree_after_probe(probe, old)
            if old is not None and old.done():
                return await self._initialize_after_probe(old)
        finally:
            # Cancel the task that is no longer needed, and retrieve its exception.
            tasks = [task for task in (probe, old) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise ProbeFailedError(make_connect_timeout(self._peer.name, self._peer.limits.connect_seconds))

    async def _agree_after_probe(
        self, probe: asyncio.Task[Agreement | None], old: asyncio.Task[Agreement] | None
    ) -> Agreement:
        try:
            found = probe.result()
        except RequestRefused as error:
            supported = _supported_versions(error)
            if supported and not any(version in supported for version in (*HANDSHAKE, STATELESS)):
                # Further attempts are useless.
                shown = ", ".join(str(version)[:20] for version in supported[:10])
                text = f"{self._peer.name} speaks only protocol {shown}; known are {_KNOWN}"
                raise Unavailable(text, retryable=False) from None
            found = None
        except SessionLostError:
            found = None
        except CallError as error:
            if isinstance(error, Interrupted | Unavailable) and not status_of(error):
                raise ProbeFailedError(error) from None
            if is_refusal(error) or isinstance(error, Denied):
                raise
            found = None
        if found is not None:
            return found
        return await self._initialize_after_probe(old or self.initialize())

    async def _initialize_after_probe(self, old: Awaitable[Agreement]) -> Agreement:
        """The agreement by `initialize`; `ProbeFailedError` if the server might accept it without the probe."""
        try:
            return await old
        except RequestRefused as error:
            # The server has already chosen the new protocol because of the probe, although that got no usable response.
            if error.number == UNSUPPORTED_VERSION and (again := await self._discover()) is not None:
                return again
            raise ProbeFailedError(error) from None
        except (Interrupted, Unavailable) as error:
            if status_of(error):
                raise
            raise ProbeFailedError(error) from None

    async def _discover(self) -> Agreement | None:
        """Probe for the new protocol; None if the server does not support a known version of it."""
        method = "server/discover"
        params = {"_meta": make_meta(self._capabilities)}
        try:
            reply = await self._send_request(method, params, modern_headers(STATELESS, method))
        except RequestRefused as error:
            if STATELESS not in _supported_versions(error):
                raise
            # The server rejected a version that it lists as supported; the protocol asks for one retry.
            reply = await self._send_request(method, params, modern_headers(STATELESS, method))
        result = reply.result
        versions = result.get("supportedVersions") if isinstance(result, dict) else None
        if not isinstance(versions, list) or STATELESS not in versions:
            return None
        return _make_agreement(STATELESS, True, result)

    async def initialize(self) -> Agreement:
        """Perform the old handshake only."""
        params = {"protocolVersion": NEWEST_HANDSHAKE, "capabilities": self._capabilities, "clientInfo": TOOLYARD}
        reply = await self._send_request("initialize", params, ())
        result = reply.result
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        if version not in HANDSHAKE:
            known = isinstance(version, str) and len(version) < 40
            said = f"speaks protocol {version!r}" if known else "does not say which protocol it speaks"
            raise Unavailable(f"{self._peer.name} {said}; known are {_KNOWN}", retryable=False)
        await self._wire.finish_handshake(version)
        return _make_agreement(version, False, result)

    async def _send_request(
        self, method: str, params: dict[str, Any], headers: tuple[tuple[str, str], ...]
    ) -> McpReply:
        number = self._peer.next_number()
        request = Request(number, method, params, self._deadline, headers=headers, cancellable=False)
        return await self._wire.request(request)


def _make_agreement(version: str, modern: bool, result: dict[str, Any]) -> Agreement:
    capabilities = result.get("capabilities")
    tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
    announces_tools = isinstance(tools, dict) and tools.get("listChanged") is True
    return Agreement(version=version, modern=modern, announces_tools=announces_tools, claims_tools=tools is not None)


def _supported_versions(error: RequestRefused) -> list[Any]:
    """The versions that a server lists when it rejects the requested one."""
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return named if error.number == UNSUPPORTED_VERSION and isinstance(named, list) else []
