"""`McpEndpoint`: the one table of methods that every wire uses, and what goes on beside the requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo, SessionError
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.mcp.builtin_tools import CALL_FOUND, SEARCH_TOOLS, SESSION_TOOLS, BuiltinTool, BuiltinTools
from toolyard.serving.mcp.json_rpc import (
    CAPABILITIES,
    HANDSHAKE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NEWEST_HANDSHAKE,
    RANK,
    SERVER,
    STATELESS,
    Json,
    RpcFault,
    RpcMessage,
    encode,
    finish_result,
)
from toolyard.serving.mcp.listing import TTL_MS, ToolListing
from toolyard.serving.mcp.sessions import McpSession, collect_mail, forget_lost, heed_cancelled
from toolyard.serving.mcp.state import McpState
from toolyard.serving.mcp.tool_calls import RequestContext, call_yard_tool, make_call_result
from toolyard.serving.request_body import digest_json
from toolyard.serving.routing import JsonResponse

IDEMPOTENCY_KEY = "toolyard/idempotency_key"
"""Among a request's `_meta`: one that comes again with the same key gets the first answer again."""
_LONGEST_KEY = 512
_LOOK = 0.05
"""Seconds between two looks at the registry, and at what other workers were told."""
_IDLE_LOOK = 0.25
"""The same, while no client is there that would have to be told."""
_SWEEP = 30.0
_log = logging.getLogger(__name__)


class McpEndpoint:
    """The yard of a service, as MCP clients see it."""

    def __init__(self, state: McpState) -> None:
        self.state = state
        chosen: list[BuiltinTool] = []
        if state.block.expose == "search":
            chosen += SEARCH_TOOLS
        if state.block.sessions:
            chosen += SESSION_TOOLS
        self._builtin = BuiltinTools(state, chosen)
        state.reserved_names = self._builtin.names
        self._listing = ToolListing(state, self._builtin.shown)
        self._cancelled = self._mail = -1
        self._sweep = 0.0
        self._shown: Snapshot | None = None
        handshake: dict[str, Callable[[RequestContext], Awaitable[bytes]]] = {
            "initialize": self._refuse_initialize,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "logging/setLevel": self._set_level,
        }
        stateless = {name: handshake[name] for name in ("tools/list", "tools/call")}
        self._methods = {False: handshake, True: {**stateless, "server/discover": self._discover}}

    async def answer(self, turn: RequestContext) -> bytes:
        """The result of a request, encoded; raises `RpcFault`."""
        method = self._methods[turn.stateless].get(turn.message.method)
        if method is None:
            raise RpcFault(METHOD_NOT_FOUND, f"there is no method {turn.message.method[:100]!r} here")
        return await method(turn)

    def greet(self, version: str) -> bytes:
        """The result of `initialize`, encoded."""
        out: Json = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER}
        if self.state.block.instructions:
            out["instructions"] = self.state.block.instructions
        return encode(out)

    async def tend(self, failing: MutableMapping[str, str], name: str) -> None:
        """Tell clients when the catalog changes, and do what the store says is to be done; for ever."""
        self._notice_changes()
        while True:
            await asyncio.sleep(_LOOK if self.state.has_clients else _IDLE_LOOK)
            self._notice_changes()
            keys = self.state.keys
            if keys is not None and keys.required:
                self.state.subscribers.keep_only(keys.lets_in)
            try:
                await self._look_around()
                failing.pop(name, None)
            except SessionError as error:
                if name not in failing:
                    _log.warning("mcp: the store does not answer: %s", error)
                failing[name] = type(error).__name__

    async def _look_around(self) -> None:
        """Do what other workers were told to have done here; and now and then, forget what nobody uses."""
        state, loop = self.state, asyncio.get_running_loop()
        records = state.records
        if records.shared and state.sessions.is_busy:
            self._cancelled = await heed_cancelled(state.sessions, records, self._cancelled)
        if records.shared and state.sse_clients:
            self._mail = await collect_mail(state.sse_clients, records, self._mail)
        if loop.time() >= self._sweep:
            self._sweep = loop.time() + min(_SWEEP, state.block.session_idle_seconds / 2)
            await state.sessions.sweep()
            await forget_lost(records)

    def _notice_changes(self) -> None:
        """Tell clients if the catalog has changed since the last look."""
        snapshot = self.state.yard.tool_registry.snapshot
        before, self._shown = self._shown, snapshot
        # The first look only sees what there is: nobody was told of anything else.
        if before is not None and snapshot is not before:
            self.state.subscribers.notify_all()
            self.state.sessions.notify_all()

    async def _call_tool(self, turn: RequestContext) -> bytes:
        """The `CallToolResult` of one call, encoded."""
        params = turn.message.params
        name, arguments = params.get("name"), params.get("arguments")
        if type(name) is not str or not name:
            raise RpcFault(INVALID_PARAMS, "params.name must be the name of a tool")
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            raise RpcFault(INVALID_PARAMS, "params.arguments must be an object")
        own = self._builtin.answers.get(name)
        work: Callable[[], Awaitable[Json]] = partial(call_yard_tool, self.state, turn, name, arguments)
        if own is not None:
            work = partial(own, turn, arguments)
        key = turn.message.meta.get(IDEMPOTENCY_KEY)
        if key is None:
            return finish_result(await work(), stateless=turn.stateless)
        return await self._call_idempotently(turn, name, arguments, key, work)

    async def _call_idempotently(
        self, turn: RequestContext, name: str, arguments: Json, key: object, work: Callable[[], Awaitable[Json]]
    ) -> bytes:
        if type(key) is not str or not key.isascii() or not key.isprintable() or not 0 < len(key) <= _LONGEST_KEY:
            fault = f"params._meta: {IDEMPOTENCY_KEY!r} must be 1 to {_LONGEST_KEY} ASCII characters"
            raise RpcFault(INVALID_PARAMS, fault)

        async def make() -> Response:
            return JsonResponse(await work())

        def interrupted(info: ErrorInfo) -> Response:
            result = ToolResult.failed(ToolCall(name, arguments), info)
            return JsonResponse(make_call_result(result, wraps=False, has_schema=False))

        answer = await self.state.invoker.run_idempotent(
            *(turn.caller, f"mcp:{key}", digest_json("tools/call", name, arguments), make, interrupted),
            tool_name=self._resolve_registered(turn, name, arguments),
        )
        return finish_result(msgspec.json.decode(answer.body), stateless=turn.stateless)

    def _resolve_registered(self, turn: RequestContext, name: str, arguments: Json) -> str | None:
        """The tool of the yard that a call comes down to; None if it is something else."""
        if name in self._builtin.names:
            given = arguments.get("name")
            if name != CALL_FOUND or type(given) is not str:
                return None
            name = given
        known = self.state.names.resolve_tool(name, turn.caller.principal)
        return name if known is None else known.name

    async def _ping(self, turn: RequestContext) -> bytes:
        return b"{}"

    async def _list_tools(self, turn: RequestContext) -> bytes:
        cursor = turn.message.params.get("cursor")
        return await self._listing.page(turn.caller.principal, cursor, stateless=turn.stateless)

    async def _set_level(self, turn: RequestContext) -> bytes:
        level: Any = turn.message.params.get("level")
        if type(level) is not str or level not in RANK:
            raise RpcFault(INVALID_PARAMS, f"level is one of {', '.join(RANK)}")
        if isinstance(turn.client, McpSession):
            if not await self.state.sessions.keep(turn.client, RANK[level]):
                raise RpcFault(INVALID_REQUEST, "the session is over; begin again with initialize", status=404)
        elif turn.client is not None:
            turn.client.level = RANK[level]
        return b"{}"

    async def _discover(self, turn: RequestContext) -> bytes:
        out: Json = {"supportedVersions": [STATELESS], "capabilities": CAPABILITIES}
        out |= {"ttlMs": TTL_MS, "cacheScope": self.state.cache_scope}
        if self.state.block.instructions:
            out["instructions"] = self.state.block.instructions
        return finish_result(out, stateless=True)

    async def _refuse_initialize(self, turn: RequestContext) -> bytes:
        raise RpcFault(METHOD_NOT_FOUND, "this session was begun before")


def negotiate_version(message: RpcMessage) -> str:
    """The version that is spoken from then on: the client's, or the newest, which it may then refuse."""
    wanted = message.params.get("protocolVersion")
    if type(wanted) is not str:
        raise RpcFault(INVALID_PARAMS, "params.protocolVersion must be text")
    return wanted if wanted in HANDSHAKE else NEWEST_HANDSHAKE
