"""`tools/list`: pages of the catalog, written once for each catalog and scope."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from toolyard.dialects.mcp import McpDialect
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.mcp.names import McpNames
from toolyard.serving.mcp.wire import INVALID_PARAMS, SERVER_INFO, SERVER_RAW, RpcFault, encode
from toolyard.serving.principal import Principal
from toolyard.serving.response import Response
from toolyard.serving.running import scope_of

if TYPE_CHECKING:
    from toolyard.serving.mcp.face import Face
    from toolyard.serving.principal import Scopes

TTL_MS = 5000
"""How long a list may be believed; whoever listens is told at once when it changes."""
_DIGEST = 12
_SCOPES = 256


class Visible(msgspec.Struct, frozen=True):
    """What one scope sees of a catalog, and a digest of it."""

    tools: Sequence[Tool]
    digest: bytes


class Listing:
    """The pages of one face.

    A cursor names a place in just the list it was made for. Once that is another list, the cursor is refused: whoever
    went on with it could miss a tool, or see one twice, and not know.
    """

    def __init__(self, face: Face, page_size: int) -> None:
        self._face = face
        self._size = page_size
        self._visible: WeakKeyDictionary[Snapshot, dict[Scopes, Visible]] = WeakKeyDictionary()

    async def page(self, principal: Principal, cursor: object, *, stateless: bool) -> bytes:
        """One page, as the result of `tools/list`."""
        if cursor is not None and type(cursor) is not str:
            raise RpcFault(INVALID_PARAMS, "cursor must be text")
        service = self._face.service
        if self._face.is_stale:
            await self._face.catch_up()
        names = self._face.names
        slot = ("mcp", principal.scopes, cursor, stateless)
        kept = service.kept.get(names.snapshot, slot)
        if kept is not None:
            return kept.body
        async with service.reads.enter(principal):
            body = await asyncio.to_thread(self._page, names, principal, cursor, stateless)
        service.kept.put(names.snapshot, slot, Response(200, body))
        return body

    def _page(self, names: McpNames, principal: Principal, cursor: str | None, stateless: bool) -> bytes:
        # What is written here is there to stay for as long as the catalog is.
        with paused_gc():
            return self._written(names, principal, cursor, stateless)

    def _written(self, names: McpNames, principal: Principal, cursor: str | None, stateless: bool) -> bytes:
        seen = self._seen(names, principal)
        start = 0 if cursor is None else _place(cursor, seen.digest)
        if start is None or (start and start >= len(seen.tools)):
            raise RpcFault(
                INVALID_PARAMS,
                "the cursor is not of this list; the tools may have changed since: list them again from the beginning",
            )
        page = seen.tools[start : start + self._size]
        shown = McpDialect(names=names.wire).format_tools(page) if page else []
        out: dict[str, Any] = {
            "tools": [
                *(self._face.own.shown() if not start else ()),
                *({**line, "name": names.spelt(tool)} for tool, line in zip(page, shown, strict=True)),
            ]
        }
        if start + self._size < len(seen.tools):
            out["nextCursor"] = _cursor(start + self._size, seen.digest)
        if stateless:
            out |= {"resultType": "complete", "ttlMs": TTL_MS, "cacheScope": self._face.cache_scope}
            out["_meta"] = {SERVER_INFO: SERVER_RAW}
        return encode(out)

    def _seen(self, names: McpNames, principal: Principal) -> Visible:
        scopes = self._visible.setdefault(names.snapshot, {})
        seen = scopes.get(principal.scopes)
        if seen is None:
            scope, tools = scope_of(principal), names.snapshot.tools
            if self._face.block.expose == "search":
                tools = ()
            elif scope is not None:
                tools = tuple(tool for tool in tools if scope.lists(tool))
            digest = hashlib.blake2b(digest_size=_DIGEST)
            for tool in tools:
                digest.update(f"{names.spelt(tool)}\0{tool.definition_hash}\0".encode())
            if len(scopes) >= _SCOPES:
                scopes.clear()
            seen = scopes[principal.scopes] = Visible(tools, digest.digest())
        return seen


def _cursor(start: int, digest: bytes) -> str:
    return base64.urlsafe_b64encode(_sealed(start, digest)).decode().rstrip("=")


def _sealed(start: int, digest: bytes) -> bytes:
    place = start.to_bytes(4, "big")
    return place + hashlib.blake2b(place, key=digest, digest_size=_DIGEST).digest()


def _place(cursor: str, digest: bytes) -> int | None:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        return None
    start = int.from_bytes(raw[:4], "big")
    return start if len(raw) == 4 + _DIGEST and raw == _sealed(start, digest) else None
