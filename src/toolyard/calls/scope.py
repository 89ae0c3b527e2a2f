"""What a caller from outside may see and call: to them, the rest of the registry does not exist."""

from __future__ import annotations

from toolyard.calls.events import Mode
from toolyard.calls.request import CallRequest, Scope
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError, Denied, StaleDefinition
from toolyard.model.tool import Tool
from toolyard.registry.bind import Bound, bind, find
from toolyard.registry.snapshot import Snapshot


def bind_within(snapshot: Snapshot, mode: Mode, call: ToolCall, scope: Scope) -> Bound:
    """`bind`, telling nothing about tools that the caller does not see: no names, no schemas, no hints."""
    candidates = find(snapshot, call.name, sees=None if scope.sees_all else scope.sees)
    bound = bind(snapshot, call, candidates=candidates)
    if not scope.may(mode, bound.tool):
        raise Denied(f"this key may not {mode} {bound.tool.qualified_name}", hint="ask for a key with a wider scope")
    return bound


def refusals(snapshot: Snapshot, request: CallRequest) -> list[ToolResult | None]:
    """For each call, why the caller may not have it made, or None.

    For an engine whose own `execute` takes the calls past the call path, where this is asked otherwise.
    """
    return [_refusal(snapshot, request, call) for call in request.calls]


def _refusal(snapshot: Snapshot, request: CallRequest, call: ToolCall) -> ToolResult | None:
    if request.scope is None and request.definitions is None:
        return None
    try:
        bound = (
            bind(snapshot, call) if request.scope is None else bind_within(snapshot, request.mode, call, request.scope)
        )
        if request.definitions is not None:
            check_known(bound.tool, request.definitions)
    except CallError as error:
        return ToolResult.failed(call, error.info)
    return None


def check_known(tool: Tool, definitions: frozenset[str]) -> None:
    """Refuse a tool that has become another one since the caller looked at it."""
    if tool.definition_hash not in definitions:
        raise StaleDefinition(
            f"{tool.qualified_name} is no longer what the caller knows it as",
            hint="load the catalog again, e.g. registry.refresh(), and look at the definition before calling",
            details={"definition_hash": tool.definition_hash},
        )
