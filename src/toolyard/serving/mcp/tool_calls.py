"""Calls of the yard's tools: from the name on the wire to the engine, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolyard.dialects.mcp import CALL_ID
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import UnknownToolError
from toolyard.model.guesses import promises_output
from toolyard.serving.identity import Caller
from toolyard.serving.mcp.envelope import find_log_level
from toolyard.serving.mcp.json_rpc import CLIENT_CAPABILITIES, INVALID_PARAMS, MISSING_CAPABILITY, Json, RpcFault
from toolyard.serving.mcp.request_context import RequestContext
from toolyard.serving.mcp.results import make_call_result
from toolyard.serving.mcp.state import McpState
from toolyard.serving.mcp.tool_names import McpTool

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
    return make_call_result(result, wraps=known.wraps, has_schema=promises_output(known.tool))


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
