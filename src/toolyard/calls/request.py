"""`CallRequest`: what somebody on the other side of a wire asks for, in one piece, and what of it they may have.

To them, what their `Scope` does not show does not exist: no names, no schemas, no hints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from toolyard.model.call import Mode, Notice, ToolCall, ToolResult
from toolyard.model.errors import CallError, Denied, StaleDefinition
from toolyard.model.tool import Tool
from toolyard.registry.bind import Bound, bind, find
from toolyard.registry.snapshot import Snapshot


class Scope(Protocol):
    """What of a registry somebody may see and use."""

    @property
    def sees_all(self) -> bool:
        """True if nothing is hidden from them, so that hints may name any tool."""

    def sees(self, tool: Tool) -> bool:
        """False: to them, the tool does not exist."""

    def may(self, mode: Mode, tool: Tool) -> bool:
        """True if they may have it called."""


Listener = Callable[[ToolCall, Notice], None]
"""Told what tools say while they run. It returns at once and may be called from any thread."""


class CallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Calls to be answered in order, and under which conditions."""

    calls: Sequence[ToolCall]
    session_id: str | None = None
    """None: in a session of their own, which nobody else sees and which is not kept."""
    mode: Mode = "execute"
    timeout: float | None = None
    """Seconds for each call, in place of what its engine allows."""
    at_most: float | None = None
    """Seconds for each call, whatever else is said."""
    owner: str | None = None
    keys: tuple[str, ...] | None = None
    """Id and name of the key that the calls are made with, none over a wire without keys; None: the program itself."""
    context: Mapping[str, Any] = {}
    trace: Mapping[str, Any] = {}
    definitions: frozenset[str] | None = None
    """Hashes of the definitions the caller knows: a tool that has none of them is refused as `catalog.stale`."""
    scope: Scope | None = None
    """None: everything may be seen and called."""
    abandoned: list[Future[Any]] | None = None
    """Given a list, work that goes on past its deadline is put in it."""
    replay: bool = False
    """True: a `call_id` that was answered before in the session gets that answer again, and runs nothing."""
    notify: Listener | None = None
    """Told of progress."""
    request_id: str | None = None
    """What the wire calls the request, for the call log."""


def bind_within(snapshot: Snapshot, mode: Mode, call: ToolCall, scope: Scope, *, at_once: bool = False) -> Bound:
    """`bind`, telling nothing about tools that the caller does not see: no names, no schemas, no hints."""
    candidates = find(snapshot, call.name, sees=None if scope.sees_all else scope.sees)
    bound = bind(snapshot, call, candidates=candidates, at_once=at_once)
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


def may_execute_all(snapshot: Snapshot, request: CallRequest) -> bool:
    """True if the caller may also execute whatever the calls may mean."""
    scope = request.scope
    if scope is None:
        return True
    found = [snapshot.names.get(call.name, ()) for call in request.calls]
    return all(found) and all(scope.may("execute", prepared.tool) for tools in found for prepared in tools)


def check_known(tool: Tool, definitions: frozenset[str]) -> None:
    """Refuse a tool that has become another one since the caller looked at it."""
    if tool.definition_hash not in definitions:
        raise StaleDefinition(
            f"{tool.qualified_name} is no longer what the caller knows it as",
            hint="load the catalog again, e.g. registry.refresh(), and look at the definition before calling",
            details={"definition_hash": tool.definition_hash},
        )
