"""`Face`: what all clients of one MCP server share, and the one table of methods that every wire uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from toolyard.model.errors import SessionError
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.mcp.calling import call_tool
from toolyard.serving.mcp.elsewhere import collect_mail, forget_lost, heed_cancelled
from toolyard.serving.mcp.hub import Hub
from toolyard.serving.mcp.listing import TTL_MS, Listing
from toolyard.serving.mcp.names import McpNames
from toolyard.serving.mcp.own import OwnTools
from toolyard.serving.mcp.replays import Replays
from toolyard.serving.mcp.results import finished
from toolyard.serving.mcp.sessions import McpSession, McpSessions
from toolyard.serving.mcp.turn import Turn
from toolyard.serving.mcp.wire import (
    CAPABILITIES,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RANK,
    SERVER,
    STATELESS,
    Json,
    RpcFault,
    encode,
)

if TYPE_CHECKING:
    from toolyard.serving.mcp.client import Client
    from toolyard.serving.service import Service

Method = Callable[["Face", Turn], Awaitable[bytes]]

_LOOK = 0.05
"""Seconds between two looks at the registry, and at what other workers were told."""
_SWEEP = 30.0
_log = logging.getLogger(__name__)


class Face:
    """One MCP server: the yard of a service, as MCP clients see it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.block = service.block.mcp
        self.own = OwnTools(self)
        self.listing = Listing(self, self.block.page_size)
        self.hub = Hub(self.block.max_streams)
        self.replays = Replays()
        self.sessions = McpSessions(
            service.records,
            idle=self.block.session_idle_seconds,
            most=self.block.max_sessions,
            forget=self.replays.forget,
        )
        self.sse: dict[tuple[str, str], Client] = {}
        """Clients of the older transport whose stream is here, by owner and session."""
        self._names: McpNames | None = None
        self._catching_up = asyncio.Lock()
        self._cancelled = self._mail = -1
        self._sweep = 0.0
        self._shown: Snapshot | None = None

    @property
    def is_stale(self) -> bool:
        """True if `names` would have to be made, which takes a while where there are many tools."""
        return self._names is None or self._names.snapshot is not self.service.yard.tool_registry.snapshot

    async def catch_up(self) -> None:
        """Make `names` beside the event loop."""
        async with self._catching_up:
            if self.is_stale:
                await asyncio.to_thread(lambda: self.names)

    @property
    def names(self) -> McpNames:
        """The wire names of the registry as it now is."""
        names = self._names
        if names is None or self.is_stale:
            service_names = self.service.names
            bare = self.block.names == "bare"
            names = self._names = McpNames(service_names.snapshot, service_names, self.own.names, bare=bare)
        return names

    @property
    def cache_scope(self) -> Literal["public", "private"]:
        """Whether all clients are told the same."""
        keys = self.service.keys
        return "private" if keys is not None and keys.required else "public"

    def greeting(self, version: str) -> Json:
        """The result of `initialize`."""
        out: Json = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER}
        if self.block.instructions:
            out["instructions"] = self.block.instructions
        return out

    async def answer(self, turn: Turn) -> bytes:
        """The result of a request, encoded; raises `RpcFault`."""
        method = (STATELESS_METHODS if turn.stateless else HANDSHAKE_METHODS).get(turn.message.method)
        if method is None:
            raise RpcFault(METHOD_NOT_FOUND, f"there is no method {turn.message.method[:100]!r} here")
        return await method(self, turn)

    async def tend(self) -> None:
        """Tell clients when the catalog changes, and do what the store says is to be done."""
        self.look()
        while True:
            await asyncio.sleep(_LOOK)
            self.look()
            keys = self.service.keys
            if keys is not None and keys.required:
                self.hub.keep_only(keys.lets_in)
            try:
                await self._look_around()
                self.service.failing.pop("mcp", None)
            except SessionError as error:
                if "mcp" not in self.service.failing:
                    _log.warning("mcp: the store does not answer: %s", error)
                self.service.failing["mcp"] = type(error).__name__

    async def _look_around(self) -> None:
        """Do what other workers were told to have done here; and now and then, forget what nobody uses."""
        records, loop = self.service.records, asyncio.get_running_loop()
        if records.shared and self.sessions.is_busy:
            self._cancelled = await heed_cancelled(self, self._cancelled)
        if records.shared and self.sse:
            self._mail = await collect_mail(self, self._mail)
        if loop.time() >= self._sweep:
            self._sweep = loop.time() + min(_SWEEP, self.block.session_idle_seconds / 2)
            await self.sessions.sweep()
            await forget_lost(records)

    def look(self) -> None:
        """Tell clients if the catalog has changed since the last look."""
        snapshot = self.service.yard.tool_registry.snapshot
        before, self._shown = self._shown, snapshot
        # The first look only sees what there is: nobody was told of anything else.
        if before is not None and snapshot is not before:
            self.hub.tell()
            self.sessions.tell()


async def _ping(face: Face, turn: Turn) -> bytes:
    return b"{}"


async def _list(face: Face, turn: Turn) -> bytes:
    cursor = turn.message.params.get("cursor")
    return await face.listing.page(turn.caller.principal, cursor, stateless=turn.stateless)


async def _set_level(face: Face, turn: Turn) -> bytes:
    level: Any = turn.message.params.get("level")
    if type(level) is not str or level not in RANK:
        raise RpcFault(INVALID_PARAMS, f"level is one of {', '.join(RANK)}")
    if isinstance(turn.client, McpSession):
        if not await face.sessions.keep(turn.client, RANK[level]):
            raise RpcFault(INVALID_REQUEST, "the session is over; begin again with initialize", status=404)
    elif turn.client is not None:
        turn.client.level = RANK[level]
    return b"{}"


async def _discover(face: Face, turn: Turn) -> bytes:
    out: Json = {"supportedVersions": [STATELESS], "capabilities": CAPABILITIES}
    out |= {"ttlMs": TTL_MS, "cacheScope": face.cache_scope}
    if face.block.instructions:
        out["instructions"] = face.block.instructions
    return finished(out, stateless=True)


async def _initialize(face: Face, turn: Turn) -> bytes:
    raise RpcFault(METHOD_NOT_FOUND, "this session was begun before")


HANDSHAKE_METHODS: dict[str, Method] = {
    "initialize": _initialize,
    "ping": _ping,
    "tools/list": _list,
    "tools/call": call_tool,
    "logging/setLevel": _set_level,
}
STATELESS_METHODS: dict[str, Method] = {"server/discover": _discover, "tools/list": _list, "tools/call": call_tool}


def greet(face: Face, version: str) -> bytes:
    """The result of `initialize`, encoded."""
    return encode(face.greeting(version))
