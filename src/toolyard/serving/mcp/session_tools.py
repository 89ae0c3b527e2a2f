"""Sessions of ours for MCP clients: begin, branch, try out, call, look at, and end. The rules are those of HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.model.call import Mode, ToolCall
from toolyard.model.errors import CallError, SessionError
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.mcp.builtin_tools import BuiltinTool, fault_result, value_result
from toolyard.serving.mcp.json_rpc import Json
from toolyard.serving.mcp.request_context import RequestContext
from toolyard.serving.mcp.state import McpState
from toolyard.serving.mcp.tool_calls import call_with_admission
from toolyard.serving.session_quota import check_may_begin
from toolyard.serving.session_view import check_initial_state, describe_session, read_state
from toolyard.serving.wire_types import Calls, SessionBody, SessionId, Shape, WireCall

PREFIX = "toolyard.session_"


class OfSession(Shape):
    """Which session."""

    session_id: SessionId


class ForkOf(Shape):
    """Which session to branch, and what the branch is called."""

    fork_of: SessionId
    session_id: SessionId | UnsetType = UNSET


class CallsIn(Shape):
    """Calls to be answered in order, in a session."""

    session_id: SessionId
    calls: Calls


class _Refused(CallError):
    """A session that cannot be had, as the result of a call."""


async def _open_session(state: McpState, turn: RequestContext, given: SessionBody) -> Json:
    initial = None if given.initial_state is UNSET else given.initial_state
    if initial is not None:
        check_initial_state(initial)
    return await _begin(state, turn, given.session_id, initial_state=initial)


async def _fork_session(state: McpState, turn: RequestContext, given: ForkOf) -> Json:
    return await _begin(state, turn, given.session_id, fork_of=given.fork_of)


async def _begin(state: McpState, turn: RequestContext, wanted: str | UnsetType, **options: Any) -> Json:
    principal = turn.caller.principal
    check_may_begin(principal)
    session_id = secrets.token_urlsafe(18) if wanted is UNSET else wanted
    async with state.quota.place(principal.owner):
        await state.yard.tool_engine.asetup(session_id, owner=principal.owner, **options)
    return value_result("", await describe_session(state.yard.tool_engine.sessions, principal.owner, session_id))


async def _simulate_calls(state: McpState, turn: RequestContext, given: CallsIn) -> Json:
    return await _run(state, turn, given, "simulate")


async def _execute_calls(state: McpState, turn: RequestContext, given: CallsIn) -> Json:
    return await _run(state, turn, given, "execute")


async def _run(state: McpState, turn: RequestContext, given: CallsIn, mode: Mode) -> Json:
    await state.catch_up()
    calls = [_read_call(state, turn, call) for call in given.calls]
    results = await call_with_admission(state, turn.caller, calls, session_id=given.session_id, mode=mode)
    return value_result("", {"results": [result.to_dict() for result in results]})


def _read_call(state: McpState, turn: RequestContext, call: WireCall) -> ToolCall:
    known = state.names.resolve_tool(call.name, turn.caller.principal)
    call_id = None if call.call_id is UNSET else call.call_id
    overload = None if call.overload is UNSET else call.overload
    if known is None:
        return ToolCall(call.name, call.arguments, call_id, overload)
    return ToolCall(known.name, call.arguments, call_id, overload or known.overload)


async def _show_state(state: McpState, turn: RequestContext, given: OfSession) -> Json:
    principal = turn.caller.principal
    async with state.reads.hold_place(principal):
        return value_result("", await read_state(state.yard.tool_engine, principal.owner, given.session_id))


async def _close_session(state: McpState, turn: RequestContext, given: OfSession) -> Json:
    owner = turn.caller.principal.owner
    await state.yard.tool_engine.ateardown(given.session_id, owner=owner)
    state.quota.ended(owner)
    return value_result("", {"closed": True})


def _as_failed_call(
    work: Callable[[McpState, RequestContext, Any], Awaitable[Json]],
) -> Callable[[McpState, RequestContext, Any], Awaitable[Json]]:
    """What HTTP would refuse with a status is a failed call here: the model may know what to do about it."""

    async def guarded(state: McpState, turn: RequestContext, given: Any) -> Json:
        try:
            return await work(state, turn, given)
        except HttpFault as fault:
            if fault.code == "server.overloaded":
                raise
            return fault_result("", _refused(fault.code, fault.message, fault.retryable))
        except SessionError as error:
            return fault_result("", _refused(error.code, str(error), False))

    return guarded


def _refused(code: str, message: str, retryable: bool) -> CallError:
    error = _Refused(message)
    error.info = msgspec.structs.replace(error.info, code=code, retryable=retryable)
    return error


SESSION_TOOLS = tuple(
    BuiltinTool(PREFIX + name, description, arguments, _as_failed_call(work), read_only=read_only)
    for name, description, arguments, work, read_only in (
        (
            "open",
            "Begin a session, in which calls see what earlier ones left.",
            SessionBody,
            _open_session,
            False,
        ),
        ("fork", "Branch a session: the branch begins where the session now is.", ForkOf, _fork_session, False),
        ("simulate", "Answer calls in a session and leave it as it was.", CallsIn, _simulate_calls, False),
        ("execute", "Answer calls in a session and keep them in it.", CallsIn, _execute_calls, False),
        ("state", "Everything in a session: its history and what engines keep in it.", OfSession, _show_state, True),
        ("close", "End a session.", OfSession, _close_session, False),
    )
)
