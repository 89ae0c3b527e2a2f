"""Tools that the server itself has: looking for tools, calling what was found, and sessions, by the rules of HTTP."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.dialects.mcp import McpDialect
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import CallError, InvalidArguments, SessionError
from toolyard.model.tool import Tool
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import scope_of
from toolyard.serving.mcp.json_rpc import Json
from toolyard.serving.mcp.state import McpState
from toolyard.serving.mcp.tool_calls import RequestContext, call_with_admission, call_yard_tool, make_call_result
from toolyard.serving.routes.catalog import MAX_QUERY, search_tools as search_catalog
from toolyard.serving.session_view import check_initial_state, check_may_begin, describe_session, read_state
from toolyard.serving.wire_types import Calls, SessionBody, SessionId, Shape, WireCall

Work = Callable[[McpState, RequestContext, Any], Awaitable[Json]]
"""Answers with a whole `CallToolResult`."""
Answer = Callable[[RequestContext, Json], Awaitable[Json]]

CALL_FOUND = "call_tool"
"""The one that calls another."""
_MOST = 50
_THRESHOLD = "The score that the best tool must reach, else none is returned; at 0.6 what is returned mostly fits."


class BuiltinTool(msgspec.Struct, frozen=True):
    """One tool of the server's own."""

    name: str
    description: str
    arguments: type[Any]
    work: Work
    read_only: bool = False

    def show(self) -> Json:
        """As a list shows it."""
        (schema,), definitions = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        flat = definitions.pop(schema["$ref"].rpartition("/")[2])
        flat.pop("title", None)
        flat.pop("description", None)
        if definitions:
            flat["$defs"] = definitions
        hints = {"readOnlyHint": True} if self.read_only else {"readOnlyHint": False, "destructiveHint": False}
        return {"name": self.name, "description": self.description, "inputSchema": flat, "annotations": hints}


class SearchArguments(Shape):
    """What to look for."""

    query: Annotated[
        str, Meta(max_length=MAX_QUERY, description="Words of the task, or of a tool's name or description.")
    ]
    k: Annotated[int, Meta(ge=1, le=_MOST, description="How many tools to return.")] = 10
    namespace: Annotated[str, Meta(description="Only tools of this namespace.")] | UnsetType = UNSET
    tags: Annotated[list[str], Meta(max_length=_MOST, description="Only tools with all of these tags.")] = []
    threshold: Annotated[float, Meta(ge=0, le=1, description=_THRESHOLD)] | UnsetType = UNSET


class CallArguments(Shape):
    """What to call."""

    name: Annotated[str, Meta(min_length=1, description="The name of a tool, as search_tools gave it.")]
    arguments: Annotated[Json, Meta(description="Arguments that fit the tool's inputSchema.")] = {}


async def find_tools(state: McpState, turn: RequestContext, given: SearchArguments) -> Json:
    """The tools that fit best, with all that is needed to call them."""
    # Off the loop: the first search of a catalog makes its index.
    async with state.reads.hold_place(turn.caller.principal):
        return await asyncio.to_thread(_search_now, state, turn, given)


def _search_now(state: McpState, turn: RequestContext, given: SearchArguments) -> Json:
    names, scope = state.names, scope_of(turn.caller.principal)
    snapshot = names.snapshot

    tags = frozenset(given.tags)

    def wanted(tool: Tool) -> bool:
        mine = (given.namespace is UNSET or tool.namespace == given.namespace) and tags.issubset(tool.tags)
        return mine and (scope is None or scope.lists(tool))

    free = given.namespace is UNSET and scope is None and not tags
    registry = state.yard.tool_registry
    threshold = None if given.threshold is UNSET else given.threshold
    # A name as this face spells it is one that the registry does not know.
    named = names.resolve_tool(given.query.strip(), turn.caller.principal)
    query = given.query if named is None else named.tool.qualified_name
    found = search_catalog(registry, snapshot, query, None if free else wanted, threshold)
    tools = found.tools[: given.k]
    shown = McpDialect(names=names.wire).format_tools(tools) if tools else []
    lines = [
        _show_line(names.spell_tool(tool), found.score(tool), line) for tool, line in zip(tools, shown, strict=True)
    ]
    return value_result("search_tools", {"tools": lines, "search": found.mode})


def _show_line(name: str, score: float | None, shown: Json) -> Json:
    return {**shown, "name": name, **({} if score is None else {"score": score})}


async def call_found(state: McpState, turn: RequestContext, given: CallArguments) -> Json:
    """Call a tool by its name, as a client that sees all tools would."""
    return await call_yard_tool(state, turn, given.name, given.arguments)


SEARCH_TOOLS = (
    BuiltinTool(
        "search_tools",
        "Find tools for a task. Returns name, description and inputSchema of the tools that fit, best first; "
        "call one with call_tool.",
        SearchArguments,
        find_tools,
        read_only=True,
    ),
    BuiltinTool(
        CALL_FOUND,
        "Call a tool that search_tools found, by its name and with arguments that fit its inputSchema.",
        CallArguments,
        call_found,
    ),
)


class BuiltinTools:
    """Those that are switched on."""

    def __init__(self, state: McpState, chosen: Sequence[BuiltinTool]) -> None:
        self.answers: dict[str, Answer] = {tool.name: partial(_answer_call, state, tool) for tool in chosen}
        """Who answers each."""
        self.shown = [tool.show() for tool in chosen]
        """As a list shows them."""
        self.names = frozenset(self.answers)


def value_result(name: str, value: Any) -> Json:
    """The `CallToolResult` of a value."""
    return make_call_result(ToolResult(None, name, value), wraps=False, has_schema=False)


def fault_result(name: str, error: CallError) -> Json:
    """The `CallToolResult` of a call that failed."""
    return make_call_result(ToolResult.failed(ToolCall(name), error.info), wraps=False, has_schema=False)


async def _answer_call(state: McpState, tool: BuiltinTool, turn: RequestContext, arguments: Json) -> Json:
    turn.caller.tool = tool.name
    try:
        given = msgspec.convert(arguments, tool.arguments)
    except msgspec.ValidationError as error:
        return fault_result(tool.name, InvalidArguments(f"the arguments of {tool.name} do not fit: {error}"))
    return await tool.work(state, turn, given)


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
