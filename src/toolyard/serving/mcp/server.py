"""`McpEndpoint`: the MCP methods of a yard, used by all MCP transports, and the polling for changes and mail.

`McpNames` maps the names of tools for MCP clients.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from toolyard.app.blocks import McpBlock, ServerBlock
from toolyard.app.toolyard import Toolyard
from toolyard.dialects.mcp import CALL_ID, QUALIFIED_NAME, McpDialect, wraps
from toolyard.dialects.mcp_protocol import (
    CLIENT_CAPABILITIES,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SERVER_INFO,
    STATELESS,
    TOOLYARD,
)
from toolyard.dialects.payload import error_of, error_value, result_text as text_of, value_text
from toolyard.dialects.telemetry import describe_result, describe_tool, follow_trace, measure_request
from toolyard.dialects.wire_names import wire_names_of
from toolyard.model.call import CONTENT, ToolCall, ToolResult, blocks_of
from toolyard.model.errors import ErrorInfo, UnknownToolError
from toolyard.model.tool import Tool, promises_output
from toolyard.parsing import paused_gc
from toolyard.parsing.json_text import json_decoder
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.admission import Admission, Place
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import NOBODY, Principal
from toolyard.serving.invoke import Invoker, ServedNames, add_approval_url
from toolyard.serving.keys import KeyRing
from toolyard.serving.mcp.approving import (
    apply_input,
    can_elicit,
    decide_by_asking,
    find_own_approval,
    make_input_request,
)
from toolyard.serving.mcp.json_rpc import (
    CAPABILITIES,
    Headers,
    Json,
    RequestContext,
    RpcFault,
    check_capabilities,
    check_header_params,
    encode,
    finish_result,
    fit_content,
    read_header_params,
    read_level,
    refuse_request,
)
from toolyard.serving.mcp.sessions import McpSession, McpSessions, MessageReceiver, collect_mail
from toolyard.serving.query import DIGEST_BYTES, Position, read_cursor, write_cursor
from toolyard.serving.routing import JsonResponse
from toolyard.serving.session_view import SessionQuota
from toolyard.serving.streams import Subscribers
from toolyard.sessions.records import Records

IDEMPOTENCY_KEY = "toolyard/idempotency_key"
"""Key in a request's `_meta`; a repeated request with the same value gets the first response again."""
_decode = json_decoder()
_CONTEXT, _TRACE = "toolyard/context", "toolyard/trace"
_LONGEST_ID = 512
_IDLE_POLL = 0.25
"""Seconds between polls while no client is connected."""
_SWEEP = 30.0
_TTL_MS = 5000
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
        out = {"content": [{"type": "text", "text": text_of(result)}], "isError": True}
        if tool is None or not tool.has_schema:
            # Some clients check it against the output schema, and would report the mismatch in place of the error.
            out["structuredContent"] = error_value(info)
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
        counts = Counter(candidates[0].tool.name for candidates in snapshot.names.values() if bare)
        for qualified, candidates in snapshot.names.items():
            name = candidates[0].tool.name
            short = name if counts[name] == 1 else names.spell_name(qualified)
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

    def show_tools(self, tools: Sequence[Tool]) -> list[Json]:
        """Entries of a list, each with the tool's name for this server, and its qualified name in `_meta`."""
        shown = McpDialect(names=self.wire).format_tools(tools) if tools else []
        return [
            {**line, "name": self.spell_tool(tool), "_meta": {QUALIFIED_NAME: tool.qualified_name}}
            for tool, line in zip(tools, shown, strict=True)
        ]

    def find_listed(self, wire: str) -> McpTool | None:
        """The tool with this name in lists; None for other names, even if `resolve_tool` accepts them."""
        found = self._known.get(wire)
        if found is None:
            decoded = (self._qualified[wire], None) if wire in self._qualified else self.wire.known(wire)
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


class BuiltinTool(msgspec.Struct, frozen=True):
    """One built-in tool of the server."""

    name: str
    definition: Json
    """As it is listed."""
    answer: Callable[[McpEndpoint, RequestContext, Json], Awaitable[Json]]
    """Returns a complete `CallToolResult`."""


class McpEndpoint:
    """The MCP server: its methods, and its clients, sessions and streams."""

    def __init__(
        self,
        yard: Toolyard,
        block: ServerBlock,
        builtin: Sequence[BuiltinTool],
        *,
        records: Records,
        keys: KeyRing,
        admission: Admission,
        reads: Admission,
        quota: SessionQuota,
        invoker: Invoker,
        catalog: CatalogView,
    ) -> None:
        self.catalog = catalog
        self.yard = yard
        self.server_block = block
        self.block: McpBlock = block.mcp
        self.records = records
        self.reads = reads
        self.quota = quota
        self.subscribers = Subscribers(self.block.max_streams)
        self.sessions = McpSessions(records, idle=self.block.session_idle_seconds, most=self.block.max_sessions)
        self.sse_clients: Mapping[tuple[str, str], MessageReceiver] = {}
        """Clients of the SSE transport whose stream is in this process, by owner and session id."""
        self._keys = keys
        self._admission = admission
        self._invoker = invoker
        self._approvals = yard.tool_engine.approvals
        self._builtin = {tool.name: tool for tool in builtin}
        self._names: McpNames | None = None
        self._refreshing = asyncio.Lock()
        self._mail_version = -1
        self._next_sweep = 0.0
        self._last_snapshot: Snapshot | None = None
        stateless: dict[str, Callable[[RequestContext], Awaitable[bytes]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }
        handshake = {"initialize": self._refuse_initialize, "ping": self._ping, "logging/setLevel": self._set_level}
        self._methods = {False: {**stateless, **handshake}, True: {**stateless, "server/discover": self._discover}}

    async def answer(self, context: RequestContext) -> bytes:
        """The result of a request, encoded; raises `RpcFault`."""
        method = self._methods[context.stateless].get(context.message.method)
        if method is None:
            raise RpcFault(METHOD_NOT_FOUND, f"there is no method {context.message.method[:100]!r} here")
        with follow_trace(context.message.meta), measure_request("server", context.message.method) as context.measured:
            try:
                return await method(context)
            except HttpFault as fault:
                raise refuse_request(fault) from None

    def greet(self, version: str) -> bytes:
        """The result of `initialize`, encoded."""
        return encode({"protocolVersion": version, **self._describe_server(), "serverInfo": TOOLYARD})

    @property
    def _cache_fields(self) -> Json:
        # If keys are required, lists differ by key and must not be cached publicly. The first key may be made any time.
        return {"ttlMs": _TTL_MS, "cacheScope": "private" if self._keys.required else "public"}

    def _describe_server(self) -> Json:
        instructions = self.block.instructions
        return {"capabilities": CAPABILITIES, **({"instructions": instructions} if instructions else {})}

    @property
    def is_stale(self) -> bool:
        """True if the wire names must be rebuilt, which takes long if there are many tools."""
        return self._names is None or self._names.snapshot is not self.yard.tool_registry.snapshot

    async def current_names(self) -> McpNames:
        """The wire names of the current registry; rebuilt in a thread if they are stale."""
        names = self._names
        if names is None or self.is_stale:
            async with self._refreshing:
                names = self._names
                if names is None or self.is_stale:
                    bare = self.block.names == "bare"
                    make = lambda: McpNames(self.catalog.names.now, self._builtin, bare=bare)  # noqa: E731
                    names = self._names = await asyncio.to_thread(make)
        return names

    async def poll(self) -> float | None:
        """Notify clients of a changed catalog, deliver mail from other workers, and regularly drop unused sessions.

        Returns the seconds until the next poll, or None for the default.
        """
        snapshot = self.yard.tool_registry.snapshot
        before, self._last_snapshot = self._last_snapshot, snapshot
        # The first look only records the current catalog: no client has seen another.
        if before is not None and snapshot is not before:
            self.subscribers.notify_all()
            self.sessions.notify_all()
        if self._keys.required:
            self.subscribers.end_unless(self._keys.is_usable)
        records, now = self.records, asyncio.get_running_loop().time()
        # Before delivering mail, so that a message whose delivery fails is still removed when it expires.
        if now >= self._next_sweep:
            self._next_sweep = now + min(_SWEEP, self.block.session_idle_seconds / 2)
            await self.sessions.sweep()
        if records.shared:
            receivers = {session_id: client for (_, session_id), client in self.sse_clients.items()}
            receivers |= self.sessions.busy
            if receivers:
                self._mail_version = await collect_mail(receivers, records, self._mail_version)
        return None if len(self.sessions) or len(self.subscribers) else _IDLE_POLL

    async def _call_tool(self, context: RequestContext) -> bytes:
        """The `CallToolResult` of one call, encoded."""
        params = context.message.params
        name, arguments = params.get("name"), params.get("arguments")
        if type(name) is not str or not name:
            raise RpcFault(INVALID_PARAMS, "params.name must be the name of a tool")
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            raise RpcFault(INVALID_PARAMS, "params.arguments must be an object")
        work: Callable[[], Awaitable[Json]] = partial(self.call_yard_tool, context, name, arguments, context.headers)
        if name in self._builtin:
            work = partial(self._builtin[name].answer, self, context, arguments)
        key = context.message.meta.get(IDEMPOTENCY_KEY)
        if key is not None:
            work = partial(self._call_idempotently, context, name, arguments, key, work)
        if "inputResponses" in params and context.stateless:
            await apply_input(self._approvals, context.caller, params)
        result = await work()
        return await self._ask_about(context, work, result) if context.caller.unfinished else _finish(context, result)

    async def _ask_about(self, context: RequestContext, work: Callable[[], Awaitable[Json]], result: Json) -> bytes:
        """The result of a held call, or its final result if the client was asked and has decided."""
        while context.caller.unfinished:
            approval = await find_own_approval(self._approvals, context.caller)
            if approval is None:
                break
            if context.stateless:
                params = context.message.params
                if not can_elicit(context.message.meta.get(CLIENT_CAPABILITIES)) or "inputResponses" in params:
                    break
                return encode({**make_input_request(approval), "_meta": {SERVER_INFO: TOOLYARD}})
            ask = context.ask
            if ask is None or not await decide_by_asking(self._approvals, context.caller, approval, ask):
                break
            self._keys.check_usable(context.caller.principal)
            result = await work()
        return _finish(context, result)

    async def _call_idempotently(
        self, context: RequestContext, name: str, arguments: Json, key: object, work: Callable[[], Awaitable[Json]]
    ) -> Json:
        if type(key) is not str or not key.isascii() or not key.isprintable() or not 0 < len(key) <= _LONGEST_ID:
            fault = f"params._meta: {IDEMPOTENCY_KEY!r} must be 1 to {_LONGEST_ID} ASCII characters"
            raise RpcFault(INVALID_PARAMS, fault)

        async def make() -> Response:
            return JsonResponse(await work())

        def interrupted(info: ErrorInfo) -> Response:
            return JsonResponse(make_call_result(ToolResult.failed(ToolCall(name, arguments), info), known))

        # A built-in tool may call another tool, which its arguments name.
        wanted = arguments.get("name") if name in self._builtin else name
        names = await self.current_names()
        known = names.resolve_tool(wanted, context.caller.principal) if type(wanted) is str else None
        tool_name = known.name if known is not None else wanted if type(wanted) is str else None
        answer = await self._invoker.run_idempotent(
            *(context.caller, f"mcp:{key}", ("tools/call", name, arguments), make, interrupted),
            tool_name=tool_name,
        )
        found: Json = _decode(bytes(answer.body))
        return found

    async def call_yard_tool(
        self, context: RequestContext, name: str, arguments: Json, headers: Headers | None = None
    ) -> Json:
        """The `CallToolResult` of a call of a tool of the yard; `headers`, if any, must match its arguments."""
        known = (await self.current_names()).resolve_tool(name, context.caller.principal)
        if headers is not None and known is not None and known.header_params:
            check_header_params(known.header_params, arguments, headers)
        call_id = context.message.meta.get(CALL_ID)
        if call_id is not None and (type(call_id) is not str or not 0 < len(call_id) <= _LONGEST_ID):
            raise RpcFault(INVALID_PARAMS, f"params._meta: {CALL_ID!r} must be text of 1 to {_LONGEST_ID} characters")
        # An unresolved name is passed on unchanged, so that the error does not reveal a hidden tool.
        call = ToolCall(name, arguments, call_id)
        if known is not None:
            context.measured |= describe_tool(known.name)
            if known.requires is not None:
                check_capabilities(context, known.requires)
            call = ToolCall(known.name, arguments, call_id, known.overload)
        (result,) = await self.run_calls(
            *(context, (call,)),
            notify=context.make_listener(),
            context=context.read_object(_CONTEXT),
            trace=context.read_object(_TRACE),
        )
        if result.error_info is not None and result.error_info.code == UnknownToolError.code:
            raise RpcFault(INVALID_PARAMS, result.error_info.message, {"error": result.error_info.to_dict()})
        return make_call_result(result, known)

    async def run_calls(
        self, context: RequestContext, calls: Sequence[ToolCall], /, **options: Any
    ) -> list[ToolResult]:
        """Run calls in a place of the admission, which is returned only when abandoned work has ended, too."""
        caller, find_address = context.caller, context.find_address
        async with Place(self._admission, caller.principal, caller.abandoned):
            results = await self._invoker.run_calls(caller, calls, **options)
        if caller.unfinished and find_address is not None:
            results = [add_approval_url(result, find_address) for result in results]
        return results

    async def _ping(self, context: RequestContext) -> bytes:
        return b"{}"

    async def _list_tools(self, context: RequestContext) -> bytes:
        """One page of `tools/list`. Pages are cached for each snapshot and scope.

        A cursor is valid only for the list it was made for. It is refused once the list has changed, since a client
        that continued with it could miss a tool or see one twice without noticing.
        """
        cursor, principal, stateless = context.message.params.get("cursor"), context.caller.principal, context.stateless
        if cursor is not None and type(cursor) is not str:
            raise RpcFault(INVALID_PARAMS, "cursor must be text")
        names, cache = await self.current_names(), self.catalog.cache
        slot = ("mcp", self.catalog.cache_key(principal), cursor, stateless, self._keys.required)
        body: bytes | None = cache.get(names.snapshot, slot)
        if body is None:
            async with Place(self.reads, principal):
                body = await asyncio.to_thread(self._write_page, names, principal, cursor, stateless)
            cache.put(names.snapshot, slot, body)
        return body

    @paused_gc()
    def _write_page(self, names: McpNames, principal: Principal, cursor: str | None, stateless: bool) -> bytes:
        # Collecting garbage meanwhile would be useless: what is created here lives as long as the catalog.
        def find(snapshot: Snapshot) -> tuple[Sequence[Tool], bytes]:
            tools = self.catalog.list_visible(principal, snapshot) if self.block.expose != "search" else ()
            digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
            for tool in tools:
                digest.update(f"{names.spell_tool(tool)}\0{tool.definition_hash}\0".encode())
            return tools, digest.digest()

        tools, digest = self.catalog.compute_cached(principal, "mcp tools", find, names.snapshot)
        (start,) = (0,) if cursor is None else read_cursor(digest, cursor, tuple[Position]) or (len(tools) or 1,)
        if start and start >= len(tools):
            raise RpcFault(
                INVALID_PARAMS,
                "the cursor is not of this list; the tools may have changed since: list them again from the beginning",
            )
        end = start + self.block.page_size
        builtin = [] if start else [tool.definition for tool in self._builtin.values()]
        out: Json = {"tools": builtin + names.show_tools(tools[start:end])}
        if end < len(tools):
            out["nextCursor"] = write_cursor(digest, end)
        return finish_result(out | self._cache_fields, stateless=True) if stateless else encode(out)

    async def _set_level(self, context: RequestContext) -> bytes:
        level = read_level(context.message.params.get("level"), "level")
        if isinstance(context.client, McpSession):
            if not await self.sessions.keep(context.client, level):
                raise RpcFault(INVALID_REQUEST, "the session is over; begin again with initialize", status=404)
        elif context.client is not None:
            context.client.level = level
        return b"{}"

    async def _discover(self, context: RequestContext) -> bytes:
        described = {"supportedVersions": [STATELESS], **self._describe_server(), **self._cache_fields}
        return finish_result(described, stateless=True)

    async def _refuse_initialize(self, context: RequestContext) -> bytes:
        raise RpcFault(METHOD_NOT_FOUND, "the session is initialized already")


def _finish(context: RequestContext, result: Json) -> bytes:
    context.measured |= describe_result(result)
    if context.client is not None:
        result = fit_content(result, context.client.version)
    return finish_result(result, stateless=context.stateless)
