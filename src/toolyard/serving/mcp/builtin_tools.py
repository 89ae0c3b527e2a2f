"""The server's built-in tools: search for tools, call those found, and use sessions, with the same rules as HTTP."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.app.blocks import McpBlock
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo, InvalidArguments, SessionError
from toolyard.serving.admission import Place
from toolyard.serving.catalog_view import MAX_QUERY
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.mcp.json_rpc import Json, RequestContext
from toolyard.serving.mcp.server import BuiltinTool, McpEndpoint, McpNames, make_call_result
from toolyard.serving.routes.sessions import SessionBody
from toolyard.serving.routing import or_default, read_shape
from toolyard.serving.session_view import check_initial_state, check_may_open_session, describe_session, read_state
from toolyard.serving.wire_types import Calls, Count, SessionId, Shape, WireCall

ToolFunction = Callable[[McpEndpoint, RequestContext, Any], Awaitable[Json]]
"""Returns a complete `CallToolResult`; raises the same errors as the HTTP API."""

_MOST = 50
_THRESHOLD = "Minimum score of the best tool; below it, none is returned. At 0.6, most results fit."


def make_builtin_tools(block: McpBlock) -> list[BuiltinTool]:
    """The built-in tools that the config enables."""
    return [
        *(_make_search_tools() if block.expose == "search" else ()),
        *(_make_session_tools() if block.sessions else ()),
    ]


def _make_tool(name: str, description: str, shape: type[Any], run: ToolFunction, *, reads: bool = False) -> BuiltinTool:
    (schema,), definitions = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    flat = definitions.pop(schema["$ref"].rpartition("/")[2])
    flat.pop("title", None)
    flat.pop("description", None)
    if definitions:
        flat["$defs"] = definitions
    hints = {"readOnlyHint": True} if reads else {"readOnlyHint": False, "destructiveHint": False}
    definition = {"name": name, "description": description, "inputSchema": flat, "annotations": hints}

    async def answer(server: McpEndpoint, context: RequestContext, arguments: Json) -> Json:
        context.caller.tool = name
        try:
            read = read_shape(arguments, shape)
        except msgspec.ValidationError as error:
            return _make_failure(InvalidArguments(f"the arguments of {name} do not fit: {error}").info)
        return await run(server, context, read)

    return BuiltinTool(name, definition, answer)


def _make_result(value: Any) -> Json:
    return make_call_result(ToolResult(None, "", value))


def _make_failure(info: ErrorInfo) -> Json:
    return make_call_result(ToolResult.failed(ToolCall(""), info))


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


def _make_search_tools() -> list[BuiltinTool]:
    return [
        _make_tool(
            "search_tools",
            "Find tools for a task. Returns name, description and inputSchema of the nearest tools, best first, and "
            "their `fit`: sure, likely, or nearest, which may not be it. Call one with call_tool.",
            SearchArguments,
            _find_tools,
            reads=True,
        ),
        _make_tool(
            "call_tool",
            "Call a tool that search_tools found, by its name and with arguments that fit its inputSchema.",
            CallArguments,
            _call_found,
        ),
    ]


async def _find_tools(server: McpEndpoint, context: RequestContext, arguments: SearchArguments) -> Json:
    """The best matching tools, with the definitions needed to call them."""
    # In a thread: the first search of a catalog builds the index.
    async with Place(server.reads, context.caller.principal):
        return await asyncio.to_thread(_search_now, server, await server.current_names(), context, arguments)


def _search_now(server: McpEndpoint, names: McpNames, context: RequestContext, arguments: SearchArguments) -> Json:
    found = server.catalog.search(
        *(context.caller.principal, names.snapshot, arguments.query, arguments.k),
        namespace=or_default(arguments.namespace, None),
        tags=frozenset(arguments.tags),
        threshold=or_default(arguments.threshold, None),
    )
    wanted = () if arguments.namespace is UNSET else (arguments.namespace,)
    notes = server.catalog.note_idle(context.caller.principal, names.snapshot, wanted, arguments.tags)
    shown = zip(found.tools, names.show_tools(found.tools), strict=True)
    lines = [{**line, **found.of(tool)} for tool, line in shown]
    return _make_result({"tools": lines, "search": found.mode, **notes})


async def _call_found(server: McpEndpoint, context: RequestContext, arguments: CallArguments) -> Json:
    """Call a tool by name, as `tools/call` does where all tools are listed."""
    return await server.call_yard_tool(context, arguments.name, arguments.arguments)


class SessionArguments(Shape):
    """Which session."""

    session_id: SessionId


class ForkArguments(Shape):
    """The session to fork, after which of its entries, and the id of the fork."""

    fork_of: SessionId
    session_id: SessionId | UnsetType = UNSET
    at: Count | UnsetType = UNSET


class BatchArguments(Shape):
    """Calls to answer in order, in a session."""

    session_id: SessionId
    calls: Calls


def _make_session_tools() -> list[BuiltinTool]:
    def make(name: str, description: str, shape: type[Any], run: ToolFunction, *, reads: bool = False) -> BuiltinTool:
        return _make_tool(f"toolyard.session_{name}", description, shape, _as_failed_call(run), reads=reads)

    opens = "Begin a session, in which calls see what earlier ones left."
    forks = "Branch a session: the branch begins where the session now is, or with its first `at` entries."
    shows = "Everything in a session: its history and what engines keep in it."
    simulate, execute = partial(_run_calls, "simulate"), partial(_run_calls, "execute")
    return [
        make("open", opens, SessionBody, _begin_session),
        make("fork", forks, ForkArguments, _begin_session),
        make("simulate", "Answer calls in a session and leave it as it was.", BatchArguments, simulate),
        make("execute", "Answer calls in a session and keep them in it.", BatchArguments, execute),
        make("state", shows, SessionArguments, _show_state, reads=True),
        make("close", "End a session.", SessionArguments, _close_session),
    ]


def _as_failed_call(run: ToolFunction) -> ToolFunction:
    """Turn what HTTP answers with an error status into a failed call, which the model can react to."""

    async def guarded(server: McpEndpoint, context: RequestContext, arguments: Any) -> Json:
        try:
            return await run(server, context, arguments)
        except HttpFault as fault:
            if fault.code == "server.overloaded":
                raise
            return _make_failure(ErrorInfo(fault.code, fault.message, fault.retryable))
        except SessionError as error:
            return _make_failure(ErrorInfo(error.code, str(error)))

    return guarded


async def _begin_session(server: McpEndpoint, context: RequestContext, arguments: SessionBody | ForkArguments) -> Json:
    """Open an empty session, or fork one."""
    principal, engine = context.caller.principal, server.yard.tool_engine
    options: Json
    if isinstance(arguments, ForkArguments):
        options = {"fork_of": arguments.fork_of, "at": or_default(arguments.at, None)}
    else:
        options = {"initial_state": or_default(arguments.initial_state, None)}
        if options["initial_state"] is not None:
            check_initial_state(options["initial_state"])
    check_may_open_session(principal)
    session_id = or_default(arguments.session_id, secrets.token_urlsafe(18))
    async with server.quota.reserve(principal.owner):
        await engine.asetup(session_id, owner=principal.owner, **options)
    return _make_result(await describe_session(engine.sessions, principal.owner, session_id))


async def _run_calls(mode: Mode, server: McpEndpoint, context: RequestContext, arguments: BatchArguments) -> Json:
    names = await server.current_names()
    calls = [_read_call(names, context, call) for call in arguments.calls]
    results = await server.run_calls(context, calls, session_id=arguments.session_id, mode=mode)
    return _make_result({"results": [result.to_dict() for result in results]})


def _read_call(names: McpNames, context: RequestContext, call: WireCall) -> ToolCall:
    known = names.resolve_tool(call.name, context.caller.principal)
    call_id = or_default(call.call_id, None)
    overload = or_default(call.overload, None)
    if known is None:
        return ToolCall(call.name, call.arguments, call_id, overload)
    return ToolCall(known.name, call.arguments, call_id, overload or known.overload)


async def _show_state(server: McpEndpoint, context: RequestContext, arguments: SessionArguments) -> Json:
    principal = context.caller.principal
    async with Place(server.reads, principal):
        return _make_result(await read_state(server.yard.tool_engine, principal.owner, arguments.session_id))


async def _close_session(server: McpEndpoint, context: RequestContext, arguments: SessionArguments) -> Json:
    await server.yard.tool_engine.ateardown(arguments.session_id, owner=context.caller.principal.owner)
    return _make_result({"closed": True})
