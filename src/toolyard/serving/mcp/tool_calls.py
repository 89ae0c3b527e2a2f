"""Calls of the yard's tools: from a request on the wire to the engine, what is told meanwhile, and the result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from toolyard.dialects.mcp import CALL_ID
from toolyard.dialects.payload import error_of, error_value, result_text as text_of, value_text
from toolyard.model.call import CONTENT, ToolCall, ToolResult, blocks_of
from toolyard.model.context import Notice, Progress
from toolyard.model.errors import UnknownToolError
from toolyard.serving.identity import Caller
from toolyard.serving.mcp.json_rpc import (
    CLIENT_CAPABILITIES,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RANK,
    Json,
    RpcFault,
    RpcMessage,
    encode,
    encode_notification,
    find_log_level,
)
from toolyard.serving.mcp.state import McpState, McpTool

_MAYBE_JSON = frozenset('{["-0123456789tfn \t\r\n')
"""What a JSON text can begin with."""


def make_call_result(result: ToolResult, *, wraps: bool, has_schema: bool) -> Json:
    """The `CallToolResult` of a call. Blocks travel as they are; a value that is no object is `{"result": value}`."""
    out: Json
    info = None if result.error is None and result.error_info is None else error_of(result)
    if info is not None:
        text = text_of(result, marked=True)
        out = {"content": [{"type": "text", "text": text}], "structuredContent": error_value(info), "isError": True}
    else:
        value = result.result
        blocks = blocks_of(result) if result.metadata else None
        structured = {"result": value} if wraps or type(value) is not dict else value
        if blocks is None:
            out = {"content": [{"type": "text", "text": _value_as_text(value)}], "structuredContent": structured}
        elif value is blocks and not has_schema:
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
    if type(value) is str and value[:1] not in _MAYBE_JSON and value.isascii():
        return value
    if type(value) is str:
        return value_text(value)
    return encode(value).decode()


Tell = Callable[[bytes], None]
"""Passes a notification on to the client; called on the event loop."""


_SHOWN = 10_000


class LevelledClient(Protocol):
    """A client that said once what it wants to hear."""

    level: int


class RequestContext:
    """A request, who made it, and how to tell them something before it is answered."""

    __slots__ = ("caller", "client", "message", "stateless", "tell")

    def __init__(
        self,
        message: RpcMessage,
        caller: Caller,
        *,
        stateless: bool,
        client: LevelledClient | None = None,
        tell: Tell | None,
    ) -> None:
        self.message = message
        self.caller = caller
        self.stateless = stateless
        self.client = client
        """The session; None in the stateless version."""
        self.tell = tell
        """None: nothing can be said before the answer."""

    def make_listener(self, level: int | None) -> Callable[[ToolCall, Notice], None] | None:
        """Who is to be told what a tool says meanwhile; None if the client wants to hear nothing."""
        token = self.message.meta.get("progressToken")
        if type(token) is not str and type(token) is not int:
            token = None
        if self.tell is None or (token is None and level is None):
            return None
        return NoticeRelay(self.tell, token, level)


class NoticeRelay:
    """Turns what a tool says into notifications, from any thread, until its call is over."""

    __slots__ = ("_last", "_level", "_loop", "_tell", "_thread", "_token")

    def __init__(self, tell: Tell, token: str | int | None, level: int | None) -> None:
        self._tell = tell
        self._token = token
        self._level = level
        self._last = float("-inf")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def __call__(self, call: ToolCall, notice: Notice) -> None:
        """Pass a notice on, if it is wanted."""
        try:
            text = self._encode_progress(notice) if isinstance(notice, Progress) else self._encode_line(notice)
        except Exception:  # noqa: BLE001 - whatever a tool says, its call must not fail for that
            text = self._encode_unsayable(notice)
        if text is None:
            return
        if threading.get_ident() == self._thread:
            self._tell(text)
            return
        try:
            self._loop.call_soon_threadsafe(self._tell, text)
        except RuntimeError:
            # The loop is closed; there is nobody to tell.
            return

    def _encode_progress(self, notice: Progress) -> bytes | None:
        # It must grow with each notification.
        if self._token is None or not notice.progress > self._last:
            return None
        self._last = notice.progress
        params: Json = {"progressToken": self._token, "progress": notice.progress}
        if notice.total is not None:
            params["total"] = notice.total
        if notice.message is not None:
            params["message"] = notice.message
        return encode_notification("notifications/progress", params)

    def _encode_line(self, notice: Any) -> bytes | None:
        if self._level is None or RANK.get(notice.level, 0) < self._level:
            return None
        params: Json = {"level": notice.level, "data": notice.data}
        if notice.logger is not None:
            params["logger"] = notice.logger
        return encode_notification("notifications/message", params)

    def _encode_unsayable(self, notice: Notice) -> bytes | None:
        """What is no JSON, as it would be shown to a person; nothing if it cannot be shown either."""
        if isinstance(notice, Progress):
            return None
        try:
            shown = repr(notice.data)
        except Exception:  # noqa: BLE001 - as above
            shown = f"<{type(notice.data).__name__}>"
        data = shown[:_SHOWN].encode("utf-8", "backslashreplace").decode()
        level = notice.level if isinstance(notice.level, str) and notice.level in RANK else "info"
        return encode_notification("notifications/message", {"level": level, "data": data})


_CONTEXT, _TRACE = "toolyard/context", "toolyard/trace"
_NOTHING: Json = {}
_LONGEST_ID = 512


async def call_yard_tool(state: McpState, turn: RequestContext, name: str, arguments: Json) -> Json:
    """The `CallToolResult` of a call of a tool of the yard."""
    await state.catch_up()
    known = state.names.resolve_tool(name, turn.caller.principal)
    meta = turn.message.meta
    call = _make_call(turn, known, name, arguments)
    if known is not None and known.requires is not None:
        _check_client(turn, known)
    level = find_log_level(meta) if turn.client is None else turn.client.level
    results = await call_with_admission(
        *(state, turn.caller, (call,)),
        notify=turn.make_listener(level),
        context=_read_object(meta, _CONTEXT) if _CONTEXT in meta else _NOTHING,
        trace=_read_object(meta, _TRACE) if _TRACE in meta else _NOTHING,
    )
    result = results[0]
    if result.error_info is not None and result.error_info.code == UnknownToolError.code:
        raise RpcFault(INVALID_PARAMS, result.error_info.message, {"error": result.error_info.to_dict()})
    if known is None:
        return make_call_result(result, wraps=False, has_schema=False)
    return make_call_result(result, wraps=known.wraps, has_schema=known.has_schema)


async def call_with_admission(
    state: McpState, caller: Caller, calls: Sequence[ToolCall], **options: Any
) -> list[ToolResult]:
    """Answer calls in one of the places that the server has for running them."""
    places, principal = state.admission, caller.principal
    if not places.try_place(principal):
        await places.wait(principal)
    try:
        return await state.invoker.run_calls(caller, calls, **options)
    finally:
        if caller.abandoned:
            places.leave_later(principal, caller.abandoned)
        else:
            places.leave(principal)


def _make_call(turn: RequestContext, known: McpTool | None, name: str, arguments: Json) -> ToolCall:
    call_id = turn.message.meta.get(CALL_ID)
    if call_id is not None and (type(call_id) is not str or not 0 < len(call_id) <= _LONGEST_ID):
        raise RpcFault(INVALID_PARAMS, f"params._meta: {CALL_ID!r} must be text of 1 to {_LONGEST_ID} characters")
    if known is None:
        # What it stands for is told only to who sees that tool.
        return ToolCall(name, arguments, call_id)
    return ToolCall(known.name, arguments, call_id, known.overload)


def _check_client(turn: RequestContext, known: McpTool) -> None:
    """A tool may need a client that can do more than call it; only the stateless version says what it can do."""
    can = turn.message.meta.get(CLIENT_CAPABILITIES, _NOTHING)
    assert known.requires is not None
    missing = {key: value for key, value in known.requires.items() if key not in can}
    if turn.stateless and missing:
        raise RpcFault(
            MISSING_CAPABILITY,
            f"the tool needs a client with {', '.join(sorted(missing))}",
            {"requiredCapabilities": missing},
        )


def _read_object(meta: Json, key: str) -> Json:
    value = meta[key]
    if type(value) is not dict:
        raise RpcFault(INVALID_PARAMS, f"params._meta: {key!r} must be an object")
    return value
