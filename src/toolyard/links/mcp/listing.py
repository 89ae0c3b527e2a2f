"""`Listing`: the tools that a server lists, read page by page."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.links.mcp.connection import Connection
from toolyard.model.errors import ToolFailed


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a server lists."""

    tools: list[dict[str, Any]]
    """The tools as the server describes them."""
    complete: bool
    """False if there are more tools that were not, or could not be, requested."""
    notes: list[str]
    """Problems with the list."""


async def list_tools(connection: Connection, deadline: float | None) -> Listing:
    """Request all pages; an endless list is cut off, keeping what was received."""
    limits = connection.peer.limits
    tools: list[dict[str, Any]] = []
    notes: list[str] = []
    seen: set[str] = set()
    cursor: str | None = None
    size = strange = 0
    complete = False
    for _ in range(limits.max_pages):
        reply = await connection.list_page(cursor, deadline)
        size += reply.size
        page = reply.result.get("tools") if isinstance(reply.result, dict) else None
        if not isinstance(page, list):
            if cursor is None:
                raise ToolFailed(f"{connection.peer.name} answers with no list of tools", effect="none")
            notes.append("a page holds no list of tools; what follows it was not asked for")
            break
        found = [entry for entry in page if isinstance(entry, dict)]
        strange += len(page) - len(found)
        tools += found
        cursor = reply.result.get("nextCursor")
        if cursor is None or cursor == "":
            complete = True
            break
        if not isinstance(cursor, str) or cursor in seen:
            notes.append("the pages lead back to one that was there already; what follows was not asked for")
            break
        seen.add(cursor)
        if len(tools) >= limits.max_tools or size > limits.max_list_bytes:
            break
    else:
        notes.append(f"more than {limits.max_pages:,} pages; what follows was not asked for")
    if len(tools) > limits.max_tools or (not complete and len(tools) >= limits.max_tools):
        notes.append(f"more than {limits.max_tools:,} tools; the others are left out")
        del tools[limits.max_tools :]
        complete = False
    elif size > limits.max_list_bytes:
        notes.append(f"more than {limits.max_list_bytes:,} bytes of tools; what follows was not asked for")
    if strange:
        notes.append(f"{strange} entries are no tools")
    return Listing(tools=tools, complete=complete, notes=notes)
