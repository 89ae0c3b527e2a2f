"""`McpEndpoint`: the MCP methods of a yard, used by all MCP transports, and the polling for changes and mail.

`NoticeRelay` sends the client what a tool reports while it runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import msgspec
from starlette.responses import Response

from toolyard.app.blocks import McpBlock, ServerBlock
from toolyard.app.toolyard import Toolyard
from toolyard.dialects.base import drop_none
from toolyard.dialects.mcp import CALL_ID
from toolyard.dialects.mcp_protocol import (
    CLIENT_CAPABILITIES,
    HANDSHAKE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVEL,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    NEWEST_HANDSHAKE,
    SERVER_INFO,
    STATELESS,
    TOOLYARD,
    encode_notification,
)
from toolyard.dialects.telemetry import describe_result, describe_tool, follow_trace, measure_request
from toolyard.model.call import Notice, Progress, ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo, UnknownToolError
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.admission import Admission, Place
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Caller
from toolyard.serving.invoke import Invoker, add_approval_url
from toolyard.serving.keys import KeyRing
from toolyard.serving.mcp.approving import (
    AskClient,
    apply_input,
    can_elicit,
    decide_by_asking,
    find_own_approval,
    make_input_request,
)
from toolyard.serving.mcp.json_rpc import (
    CAPABILITIES,
    EMPTY,
    RANK,
    Headers,
    Json,
    RpcFault,
    RpcMessage,
    check_header_params,
    encode,
    finish_result,
    read_level,
    refuse_request,
)
from toolyard.serving.mcp.listing import TTL_MS, McpNames, ToolListing, make_call_result
from toolyard.serving.mcp.sessions import McpSession, McpSessions, MessageReceiver, collect_mail
from toolyard.serving.query import digest_json
from toolyard.serving.routing import JsonResponse
from toolyard.serving.session_view import SessionQuota
from toolyard.serving.streams import Subscribers
from toolyard.sessions.records import Records

IDEMPOTENCY_KEY = "toolyard/idempotency_key"
"""Key in a request's `_meta`; a repeated request with the same value gets the first response again."""
_CONTEXT, _TRACE = "toolyard/context", "toolyard/trace"
_LONGEST_ID = 512
_LONGEST_REPR = 10_000
_IDLE_POLL = 0.25
"""Seconds between polls while no client is connected."""
_SWEEP = 30.0


SendMessage = Callable[[bytes], None]
"""Sends a notification to the client; called on the event loop."""


class NoticeRelay:
    """Sends a tool's progress and log lines to the client as notifications. May be called from any thread."""

    __slots__ = ("_last", "_level", "_loop", "_send", "_thread", "_token")

    def __init__(self, send: SendMessage, token: str | int | None, level: int | None) -> None:
        self._send = send
        self._token = token
        self._level = level
        self._last = float("-inf")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def __call__(self, call: ToolCall, notice: Notice) -> None:
        """Send a notice, if the client wants it."""
        try:
            message = self._encode(notice)
        except Exception:  # noqa: BLE001 - an invalid notice must not make the call fail
            message = _encode_invalid(notice)
        if message is None:
            return
        if threading.get_ident() == self._thread:
            self._send(message)
            return
        # The loop is closed if the client is gone.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send, message)

    def _encode(self, notice: Notice) -> bytes | None:
        if isinstance(notice, Progress):
            # MCP requires that progress increases with each notification.
            if self._token is None or not notice.progress > self._last:
                return None
            self._last = notice.progress
            params = {"progressToken": self._token, "progress": notice.progress}
            params |= drop_none({"total": notice.total, "message": notice.message})
            return encode_notification("notifications/progress", params)
        if self._level is None or RANK.get(notice.level, 0) < self._level:
            return None
        params = {"level": notice.level, "data": notice.data, **drop_none({"logger": notice.logger})}
        return encode_notification("notifications/message", params)


def _encode_invalid(notice: Notice) -> bytes | None:
    """A log line with the repr of data that is not JSON; None for invalid progress."""
    if isinstance(notice, Progress):
        return None
    try:
        shown = repr(notice.data)
    except Exception:  # noqa: BLE001 - as above
        shown = f"<{type(notice.data).__name__}>"
    data = shown[:_LONGEST_REPR].encode("utf-8", "backslashreplace").decode()
    level = notice.level if isinstance(notice.level, str) and notice.level in RANK else "info"
    return encode_notification("notifications/message", {"level": level, "data": data})


class LevelledClient(Protocol):
    """A client with a log level that applies to all its requests."""

    level: int


class RequestContext(msgspec.Struct, eq=False):
    """A request, its caller, and the ways to reach the client before the response."""

    message: RpcMessage
    caller: Caller
    notify: SendMessage | None
    """Sends a notification before the response; None if that is impossible."""
    client: LevelledClient | None = None
    """The session; None in the stateless version."""
    headers: Headers | None = None
    """Headers that must match the body (stateless HTTP); else None."""
    ask: AskClient | None = None
    """None if the client does not support elicitation."""
    find_address: Callable[[], str] | None = None
    """Returns the address by which the client reaches the server; None if it has none."""
    measured: Json = {}
    """Attributes of the metric of its duration."""

    @property
    def stateless(self) -> bool:
        """True for a request of the protocol version without a handshake."""
        return self.client is None

    def make_listener(self) -> Callable[[ToolCall, Notice], None] | None:
        """A listener that relays a tool's notices to the client; None if the client wants none."""
        meta = self.message.meta
        level = None if self.client is None else self.client.level
        if self.client is None and meta.get(LOG_LEVEL) is not None:
            level = read_level(meta[LOG_LEVEL], f"params._meta: {LOG_LEVEL!r}")
        token = meta.get("progressToken")
        if type(token) is not str and type(token) is not int:
            token = None
        if self.notify is None or (token is None and level is None):
            return None
        return NoticeRelay(self.notify, token, level)

    def read_object(self, key: str) -> Json:
        """The object under a key of its `_meta`, empty if missing; `RpcFault` if it is not an object."""
        value = self.message.meta.get(key, EMPTY)
        if type(value) is not dict:
            raise RpcFault(INVALID_PARAMS, f"params._meta: {key!r} must be an object")
        return value


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
        keys: KeyRing | None,
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
        # If keys are required, lists differ by key and must not be cached publicly.
        scope = "private" if keys is not None and keys.required else "public"
        self._cache_fields: Json = {"ttlMs": TTL_MS, "cacheScope": scope}
        definitions = [tool.definition for tool in builtin]
        self._listing = ToolListing(self.block, definitions, self._cache_fields, reads, catalog)
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
        if self._keys is not None and self._keys.required:
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
        builtin_tool = self._builtin.get(name)
        work: Callable[[], Awaitable[Json]] = partial(self.call_yard_tool, context, name, arguments, context.headers)
        if builtin_tool is not None:
            work = partial(builtin_tool.answer, self, context, arguments)
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
            return JsonResponse(make_call_result(ToolResult.failed(ToolCall(name, arguments), info)))

        # A built-in tool may call another tool, which its arguments name.
        wanted = arguments.get("name") if name in self._builtin else name
        names = await self.current_names()
        known = names.resolve_tool(wanted, context.caller.principal) if type(wanted) is str else None
        tool_name = known.name if known is not None else wanted if type(wanted) is str else None
        answer = await self._invoker.run_idempotent(
            *(context.caller, f"mcp:{key}", lambda: digest_json("tools/call", name, arguments), make, interrupted),
            tool_name=tool_name,
        )
        found: Json = msgspec.json.decode(answer.body)
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
                _check_client(context, known.requires)
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
        cursor = context.message.params.get("cursor")
        names = await self.current_names()
        return await self._listing.page(names, context.caller.principal, cursor, stateless=context.stateless)

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
    return finish_result(result, stateless=context.stateless)


def _check_client(context: RequestContext, required: Json) -> None:
    """Refuse a client that lacks required capabilities; only the stateless version sends them with each request."""
    can = context.message.meta.get(CLIENT_CAPABILITIES, EMPTY)
    missing = {key: value for key, value in required.items() if key not in can}
    if context.stateless and missing:
        raise RpcFault(
            MISSING_CAPABILITY,
            f"the tool needs a client with {', '.join(sorted(missing))}",
            {"requiredCapabilities": missing},
        )


def negotiate_version(message: RpcMessage) -> str:
    """The protocol version to use: the client's if supported, else our newest, which the client may refuse."""
    wanted = message.params.get("protocolVersion")
    if type(wanted) is not str:
        raise RpcFault(INVALID_PARAMS, "params.protocolVersion must be text")
    return wanted if wanted in HANDSHAKE else NEWEST_HANDSHAKE
