"""The catalog for MCP clients: `McpNames` maps their tool names, `ToolListing` makes the pages of `tools/list`.

Pages are cached for each snapshot and scope.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from toolyard.app.blocks import McpBlock
from toolyard.dialects.mcp import CALL_ID, QUALIFIED_NAME, McpDialect, wraps
from toolyard.dialects.mcp_protocol import INVALID_PARAMS, HeaderParam, find_header_params
from toolyard.dialects.payload import error_of, error_value, result_text as text_of, value_text
from toolyard.dialects.wire_names import wire_names_of
from toolyard.model.call import CONTENT, ToolResult, blocks_of
from toolyard.model.errors import DefinitionError
from toolyard.model.tool import Schema, Tool, promises_output
from toolyard.parsing import paused_gc
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.admission import Admission, Place
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.identity import NOBODY, Principal
from toolyard.serving.invoke import ServedNames
from toolyard.serving.mcp.json_rpc import Json, RpcFault, encode, finish_result
from toolyard.serving.query import DIGEST_BYTES, Position, read_cursor, write_cursor

TTL_MS = 5000
"""How long clients may cache a list. Subscribed clients are notified of changes at once."""


_ALLOWED = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class McpTool:
    """The tool behind a wire name, and the conditions for calling it."""

    __slots__ = ("has_schema", "header_params", "name", "overload", "requires", "tool", "wraps")

    def __init__(self, name: str, overload: str | None, tool: Tool) -> None:
        self.name = name
        self.overload = overload
        self.tool = tool
        self.wraps = wraps(tool)
        """True if results are wrapped as `{"result": ...}` even if they are objects."""
        self.has_schema = promises_output(tool)
        self.header_params = read_header_params(tool.parameters)
        mcp = tool.metadata.get("mcp")
        required = mcp.get("requires") if isinstance(mcp, dict) else None
        self.requires: Json | None = required if isinstance(required, dict) and required else None
        """The client capabilities it needs, from `metadata: {mcp: {requires: {sampling: {}}}}`; None if none."""


_MAYBE_JSON = frozenset('{["-0123456789tfn \t\r\n')
"""Characters that JSON text can begin with."""


def make_call_result(result: ToolResult, tool: McpTool | None = None) -> Json:
    """The `CallToolResult` of a call. Content blocks are sent unchanged; non-objects become `{"result": value}`."""
    out: Json
    info = None if result.error is None and result.error_info is None else error_of(result)
    if info is not None:
        text = text_of(result)
        out = {"content": [{"type": "text", "text": text}], "structuredContent": error_value(info), "isError": True}
    else:
        value = result.result
        blocks = blocks_of(result) if result.metadata else None
        bare = type(value) is dict and (tool is None or not tool.wraps)
        structured = value if bare else {"result": value}
        if blocks is None:
            out = {"content": [{"type": "text", "text": _value_as_text(value)}], "structuredContent": structured}
        elif value is blocks and (tool is None or not tool.has_schema):
            out = {"content": blocks}
        else:
            out = {"content": blocks, "structuredContent": structured}
        out["isError"] = False
    if result.call_id is not None or result.metadata:
        meta = {f"toolyard/{key}": value for key, value in result.metadata.items() if key != CONTENT}
        if result.call_id is not None:
            meta[CALL_ID] = result.call_id
        if meta:
            out["_meta"] = meta
    return out


def _value_as_text(value: Any) -> str:
    if type(value) is not str:
        return encode(value).decode()
    return value if value[:1] not in _MAYBE_JSON and value.isascii() else value_text(value)


class McpNames:
    """The wire names of one snapshot: bare names for tools of domains, as in HTTP and ARP, else the dialects' names.

    With `bare`, every tool with a unique name gets its bare name. A bare name that could be mistaken for another
    tool's name is not used.
    """

    def __init__(self, names: ServedNames, reserved: Iterable[str] = (), *, bare: bool = False) -> None:
        snapshot = self.snapshot = names.snapshot
        self._names = names
        self.wire = wire_names_of(snapshot)
        taken = set(reserved)
        self._bare: dict[str, str] = {}
        """Bare wire names, by qualified name."""
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
        """The name of a tool in lists; each overload has a separate one."""
        qualified = tool.qualified_name
        bare = self._bare.get(qualified)
        if bare is not None and self.snapshot.names[qualified][0].tool is tool:
            return bare
        return self.wire.encode(tool)

    def show_tool(self, tool: Tool, line: Json) -> Json:
        """A list item with the tool's name for this server, and its qualified name in `_meta`."""
        meta = line.get("_meta")
        known = meta if isinstance(meta, dict) else {}
        return {**line, "name": self.spell_tool(tool), "_meta": {**known, QUALIFIED_NAME: tool.qualified_name}}

    def find_listed(self, wire: str) -> McpTool | None:
        """The tool with this name in lists; None for other names, even if `resolve_tool` accepts them."""
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
        """The tool for any of its names; None if there is none that the caller sees."""
        known = self.find_listed(name)
        if known is None:
            qualified = self._names.find_name(name, None if principal is NOBODY else principal.can_see)
            if qualified is not None:
                known = self.find_listed(self.spell_tool(self.snapshot.names[qualified][0].tool))
        return known if known is None or principal is NOBODY or principal.can_see(known.tool) else None


def read_header_params(schema: Schema) -> tuple[HeaderParam, ...]:
    """The arguments that headers repeat; empty if an annotation is invalid.

    Clients ignore tools with an invalid annotation, so they cannot be expected to send headers for them.
    """
    try:
        return find_header_params(schema)
    except DefinitionError:
        return ()


class ToolListing:
    """The pages of `tools/list` of one server.

    A cursor is valid only for the list it was made for. It is refused once the list has changed, since a client that
    continued with it could miss a tool or see one twice without noticing.
    """

    def __init__(
        self, block: McpBlock, builtin: Sequence[Json], cached: Json, reads: Admission, catalog: CatalogView
    ) -> None:
        self._catalog = catalog
        self._builtin = builtin
        self._cache_fields = cached
        """Fields of the stateless version that tell how long a page may be cached."""
        self._reads = reads
        self._size = block.page_size
        self._shows_all = block.expose != "search"

    async def page(self, names: McpNames, principal: Principal, cursor: object, *, stateless: bool) -> bytes:
        """One page, as the result of `tools/list`."""
        if cursor is not None and type(cursor) is not str:
            raise RpcFault(INVALID_PARAMS, "cursor must be text")
        cache, slot = self._catalog.cache, ("mcp", self._catalog.visibility.cache_key(principal), cursor, stateless)
        body: bytes | None = cache.get(names.snapshot, slot)
        if body is None:
            async with Place(self._reads, principal):
                body = await asyncio.to_thread(self._write_page, names, principal, cursor, stateless)
            cache.put(names.snapshot, slot, body)
        return body

    @paused_gc()
    def _write_page(self, names: McpNames, principal: Principal, cursor: str | None, stateless: bool) -> bytes:
        # Collecting garbage meanwhile would be useless: what is created here lives as long as the catalog.
        tools, digest = self._find_visible(names, principal)
        (start,) = (0,) if cursor is None else read_cursor(digest, cursor, tuple[Position]) or (len(tools) or 1,)
        if start and start >= len(tools):
            raise RpcFault(
                INVALID_PARAMS,
                "the cursor is not of this list; the tools may have changed since: list them again from the beginning",
            )
        page = tools[start : start + self._size]
        shown = McpDialect(names=names.wire).format_tools(page) if page else []
        out: dict[str, Any] = {
            "tools": [
                *(self._builtin if not start else ()),
                *(names.show_tool(tool, line) for tool, line in zip(page, shown, strict=True)),
            ]
        }
        if start + self._size < len(tools):
            out["nextCursor"] = write_cursor(digest, start + self._size)
        return finish_result(out | self._cache_fields, stateless=True) if stateless else encode(out)

    def _find_visible(self, names: McpNames, principal: Principal) -> tuple[Sequence[Tool], bytes]:
        """The tools that the caller sees, and a digest of them."""

        def find(snapshot: Snapshot) -> tuple[Sequence[Tool], bytes]:
            tools = self._catalog.list_visible(principal, snapshot) if self._shows_all else ()
            digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
            for tool in tools:
                digest.update(f"{names.spell_tool(tool)}\0{tool.definition_hash}\0".encode())
            return tools, digest.digest()

        return self._catalog.compute_cached(principal, "mcp tools", find, names.snapshot)
