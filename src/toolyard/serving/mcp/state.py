"""`McpState`: what all clients of one MCP server share, and the names by which they know the tools."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from toolyard.app.blocks import McpBlock, ServerBlock
from toolyard.app.toolyard import Toolyard
from toolyard.dialects.mcp import wraps
from toolyard.dialects.wire_names import WireNames
from toolyard.model.tool import Tool, promises_output
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.admission import Admission
from toolyard.serving.catalog_view import SnapshotCache
from toolyard.serving.identity import NOBODY, KeyRing, KeyScope, Principal
from toolyard.serving.invoke import CurrentNames, Invoker, ServedNames
from toolyard.serving.mcp.event_stream import Replays
from toolyard.serving.mcp.json_rpc import HeaderParam, find_header_params
from toolyard.serving.mcp.sessions import McpSessions, MessageTaker
from toolyard.serving.mcp.subscriptions import Subscribers
from toolyard.serving.session_view import SessionQuota
from toolyard.sessions.records import Records

_ALLOWED = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class McpTool:
    """One wire name: whom it calls, and under which conditions."""

    __slots__ = ("has_schema", "header_params", "name", "overload", "requires", "tool", "wraps")

    def __init__(self, name: str, overload: str | None, tool: Tool) -> None:
        self.name = name
        self.overload = overload
        self.tool = tool
        self.wraps = wraps(tool)
        """True if a result is structured as `{"result": ...}` even when it is an object."""
        self.has_schema = promises_output(tool)
        self.header_params: tuple[HeaderParam, ...] = find_header_params(tool.parameters)
        self.requires = _find_required(tool)


class McpNames:
    """The wire names of one snapshot: bare for tools of domains, as on the other wires, else those of the dialects.

    With `bare`, bare for every tool whose name no other tool has. A bare name that would pass for another tool's name
    is not used.
    """

    def __init__(
        self, snapshot: Snapshot, names: ServedNames, reserved: Iterable[str] = (), *, bare: bool = False
    ) -> None:
        self.snapshot = snapshot
        self._names = names
        self.wire = WireNames(snapshot.tools)
        taken = set(reserved)
        self._bare: dict[str, str] = {}
        """Wire name by qualified name, where it is a bare one."""
        self._qualified: dict[str, str] = {}
        counts = Counter(candidates[0].tool.name for candidates in snapshot.names.values()) if bare else {}
        for qualified, candidates in snapshot.names.items():
            short = names.spell_name(qualified)
            if counts and counts[candidates[0].tool.name] == 1:
                short = candidates[0].tool.name
            usable = short != qualified and short not in taken and _ALLOWED.fullmatch(short)
            if usable and self.wire.known(short) is None:
                self._bare[qualified] = short
                self._qualified[short] = qualified
        self._known: dict[str, McpTool] = {}

    def spell_tool(self, tool: Tool) -> str:
        """The name a list shows; each overload has its own."""
        qualified = tool.qualified_name
        bare = self._bare.get(qualified)
        if bare is not None and self.snapshot.names[qualified][0].tool is tool:
            return bare
        return self.wire.encode(tool)

    def find_listed(self, wire: str) -> McpTool | None:
        """The tool that a list shows under that name; None for whatever else a request may call it by."""
        found = self._known.get(wire)
        if found is None:
            qualified = self._qualified.get(wire)
            decoded = self.wire.known(wire) if qualified is None else (qualified, None)
            tool = None if decoded is None else self.wire.tool(decoded)
            if decoded is None or tool is None:
                return None
            found = self._known[wire] = McpTool(*decoded, tool)
        return found

    def resolve_tool(self, name: str, principal: Principal) -> McpTool | None:
        """The tool that a caller means by any of its names, among those that they see."""
        scope = None if principal is NOBODY else KeyScope(principal)
        known = self.find_listed(name)
        if known is None:
            qualified = self._names.find_name(name, None if scope is None else scope.sees)
            known = (
                None if qualified is None else self.find_listed(self.spell_tool(self.snapshot.names[qualified][0].tool))
            )
        return known if known is None or scope is None or scope.sees(known.tool) else None


def _find_required(tool: Tool) -> dict[str, Any] | None:
    """What a client must be able to do for the tool to be called: `metadata: {mcp: {requires: {sampling: {}}}}`."""
    mcp = tool.metadata.get("mcp")
    required = mcp.get("requires") if isinstance(mcp, dict) else None
    return required if isinstance(required, dict) and required else None


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
    def has_clients(self) -> bool:
        """True if somebody has a session or a stream here."""
        return bool(len(self.sessions) or len(self.subscribers))

    @property
    def cache_scope(self) -> Literal["public", "private"]:
        """Whether all clients are told the same."""
        return "private" if self.keys is not None and self.keys.required else "public"
