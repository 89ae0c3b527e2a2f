"""`McpState`: what all clients of one MCP server share."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, Protocol

from toolyard.app.blocks import McpBlock, ServerBlock
from toolyard.app.toolyard import Toolyard
from toolyard.serving.admission import Admission
from toolyard.serving.catalog_view import SnapshotCache
from toolyard.serving.identity import Principal
from toolyard.serving.invoke import Invoker
from toolyard.serving.keys import KeyRing
from toolyard.serving.mcp.replays import Replays
from toolyard.serving.mcp.sessions import McpSessions
from toolyard.serving.mcp.subscribers import Subscribers
from toolyard.serving.mcp.tool_names import McpNames
from toolyard.serving.served_names import CurrentNames
from toolyard.serving.session_quota import SessionQuota
from toolyard.sessions.records import Records


class MessageTaker(Protocol):
    """A client that messages for it can be handed to."""

    def take(self, document: Any, principal: Principal | None = None) -> None:
        """One message, which is answered now or later."""


class McpState:
    """The parts of the service that MCP uses, and what is known of clients, sessions and streams."""

    def __init__(
        self,
        yard: Toolyard,
        block: ServerBlock,
        *,
        records: Records,
        keys: KeyRing | None,
        admission: Admission,
        reads: Admission,
        quota: SessionQuota,
        invoker: Invoker,
        served_names: CurrentNames,
        cache: SnapshotCache,
    ) -> None:
        self.yard = yard
        self.server_block = block
        self.block: McpBlock = block.mcp
        self.records = records
        self.keys = keys
        self.admission = admission
        self.reads = reads
        self.quota = quota
        self.invoker = invoker
        self.cache = cache
        self.subscribers = Subscribers(self.block.max_streams)
        self.replays = Replays()
        self.sessions = McpSessions(
            records,
            idle=self.block.session_idle_seconds,
            most=self.block.max_sessions,
            forget=self.replays.forget,
        )
        self.sse_clients: dict[tuple[str, str], MessageTaker] = {}
        """Clients of the older transport whose stream is here, by owner and session."""
        self.reserved_names: frozenset[str] = frozenset()
        """Names of the server's own tools, which no other tool can have."""
        self._served_names = served_names
        self._names: McpNames | None = None
        self._catching_up = asyncio.Lock()

    @property
    def is_stale(self) -> bool:
        """True if `names` would have to be made, which takes a while where there are many tools."""
        return self._names is None or self._names.snapshot is not self.yard.tool_registry.snapshot

    async def catch_up(self) -> None:
        """Make `names` beside the event loop, if they have to be made."""
        if self.is_stale:
            async with self._catching_up:
                if self.is_stale:
                    await asyncio.to_thread(lambda: self.names)

    @property
    def names(self) -> McpNames:
        """The wire names of the registry as it now is."""
        names = self._names
        if names is None or self.is_stale:
            served = self._served_names.now
            bare = self.block.names == "bare"
            names = self._names = McpNames(served.snapshot, served, self.reserved_names, bare=bare)
        return names

    @property
    def cache_scope(self) -> Literal["public", "private"]:
        """Whether all clients are told the same."""
        return "private" if self.keys is not None and self.keys.required else "public"
