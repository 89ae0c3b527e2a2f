"""Tools that the server itself has: looking for tools, calling what was found, and sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.dialects.mcp import McpDialect
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError, InvalidArguments
from toolyard.model.tool import Tool
from toolyard.serving.identity import scope_of
from toolyard.serving.mcp.json_rpc import Json
from toolyard.serving.mcp.request_context import RequestContext
from toolyard.serving.mcp.results import make_call_result
from toolyard.serving.mcp.state import McpState
from toolyard.serving.mcp.tool_calls import call_yard_tool
from toolyard.serving.search import MAX_QUERY, search_tools as search_catalog
from toolyard.serving.wire_types import Shape

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
