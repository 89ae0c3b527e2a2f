"""`tools/list`: pages of the catalog, written once for each catalog and scope."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from toolyard.dialects.mcp import McpDialect
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.identity import Principal, Scopes, scope_of
from toolyard.serving.mcp.json_rpc import INVALID_PARAMS, SERVER_INFO, SERVER_RAW, Json, RpcFault, encode
from toolyard.serving.mcp.state import McpNames, McpState

TTL_MS = 5000
"""How long a list may be believed; whoever listens is told at once when it changes."""
_DIGEST = 12
_SCOPES = 256


class VisibleTools(msgspec.Struct, frozen=True):
    """What one scope sees of a catalog, and a digest of it."""

    tools: Sequence[Tool]
    digest: bytes


class ToolListing:
    """The pages of one server.

    A cursor names a place in just the list it was made for. Once that is another list, the cursor is refused: whoever
    went on with it could miss a tool, or see one twice, and not know.
    """

    def __init__(self, state: McpState, builtin: Sequence[Json]) -> None:
        self._state = state
        self._builtin = builtin
        self._size = state.block.page_size
        self._visible: WeakKeyDictionary[Snapshot, dict[Scopes, VisibleTools]] = WeakKeyDictionary()

    async def page(self, principal: Principal, cursor: object, *, stateless: bool) -> bytes:
        """One page, as the result of `tools/list`."""
        if cursor is not None and type(cursor) is not str:
            raise RpcFault(INVALID_PARAMS, "cursor must be text")
        state = self._state
        await state.catch_up()
        names = state.names
        slot = ("mcp", principal.scopes, cursor, stateless)
        body: bytes | None = state.cache.get(names.snapshot, slot)
        if body is None:
            async with state.reads.hold_place(principal):
                body = await asyncio.to_thread(self._write_page, names, principal, cursor, stateless)
            state.cache.put(names.snapshot, slot, body)
        return body

    @paused_gc()
    def _write_page(self, names: McpNames, principal: Principal, cursor: str | None, stateless: bool) -> bytes:
        # What is written here is there to stay for as long as the catalog is.
        seen = self._find_visible(names, principal)
        start = 0 if cursor is None else _read_cursor(cursor, seen.digest)
        if start is None or (start and start >= len(seen.tools)):
            raise RpcFault(
                INVALID_PARAMS,
                "the cursor is not of this list; the tools may have changed since: list them again from the beginning",
            )
        page = seen.tools[start : start + self._size]
        shown = McpDialect(names=names.wire).format_tools(page) if page else []
        out: dict[str, Any] = {
            "tools": [
                *(self._builtin if not start else ()),
                *({**line, "name": names.spell_tool(tool)} for tool, line in zip(page, shown, strict=True)),
            ]
        }
        if start + self._size < len(seen.tools):
            out["nextCursor"] = _write_cursor(start + self._size, seen.digest)
        if stateless:
            out |= {"resultType": "complete", "ttlMs": TTL_MS, "cacheScope": self._state.cache_scope}
            out["_meta"] = {SERVER_INFO: SERVER_RAW}
        return encode(out)

    def _find_visible(self, names: McpNames, principal: Principal) -> VisibleTools:
        scopes = self._visible.setdefault(names.snapshot, {})
        seen = scopes.get(principal.scopes)
        if seen is None:
            scope, tools = scope_of(principal), names.snapshot.tools
            if self._state.block.expose == "search":
                tools = ()
            elif scope is not None:
                tools = tuple(tool for tool in tools if scope.lists(tool))
            digest = hashlib.blake2b(digest_size=_DIGEST)
            for tool in tools:
                digest.update(f"{names.spell_tool(tool)}\0{tool.definition_hash}\0".encode())
            if len(scopes) >= _SCOPES:
                scopes.clear()
            seen = scopes[principal.scopes] = VisibleTools(tools, digest.digest())
        return seen


def _write_cursor(start: int, digest: bytes) -> str:
    return base64.urlsafe_b64encode(_seal_place(start, digest)).decode().rstrip("=")


def _seal_place(start: int, digest: bytes) -> bytes:
    place = start.to_bytes(4, "big")
    return place + hashlib.blake2b(place, key=digest, digest_size=_DIGEST).digest()


def _read_cursor(cursor: str, digest: bytes) -> int | None:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        return None
    start = int.from_bytes(raw[:4], "big")
    return start if len(raw) == 4 + _DIGEST and raw == _seal_place(start, digest) else None
