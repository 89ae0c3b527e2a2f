"""`Batch`: the calls that one caller sends together, answered in order in one turn of the session.

A `CallRequest` is a batch from a remote caller. Tools that its `Scope` hides do not exist for that caller: errors
reveal no names, schemas or hints of them.

A call repeated while the first one runs gets the result of the first: batches take turns, so by the turn of the
repeat, the first is recorded (`find_joined`). Later repeats get it only if the caller asked for that (`find_recorded`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from toolyard.calls.approval import Approval
from toolyard.calls.invocation import Invocation
from toolyard.calls.policy import Policy
from toolyard.model.call import Mode, Notice, ToolCall, ToolResult
from toolyard.model.errors import (
    CallConflict,
    CallError,
    ConfigError,
    DefinitionError,
    Denied,
    ErrorInfo,
    StaleDefinition,
    UnknownToolError,
)
from toolyard.model.tool import Tool
from toolyard.registry.bind import Bound, bind, find_overloads
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.history import read_entry
from toolyard.sessions.session import Session
from toolyard.sessions.state import State

_LONGEST = 1e8
"""Maximum timeout in seconds, about three years; the system's timers accept no more."""


class Scope(Protocol):
    """The part of a registry that a caller may see and call."""

    @property
    def can_list_all(self) -> bool:
        """True if no tool is hidden from the caller, so that hints may name any."""

    def can_see(self, tool: Tool) -> bool:
        """False if the tool must appear not to exist."""

    def can_list(self, tool: Tool) -> bool:
        """True if the caller's catalog lists the tool, so that hints may name it."""

    def can_call(self, mode: Mode, tool: Tool) -> bool:
        """True if the caller may call the tool in this mode."""


_log = logging.getLogger(__name__)
N = TypeVar("N", bound=Notice)
Listener = Callable[[ToolCall, Notice], None]
"""Receives the notices of running tools. Called from any thread; must not block."""


def notify_safely(listener: Callable[[ToolCall, N], None], call: ToolCall, notice: N) -> None:
    """Pass a notice on. A listener that fails is logged, since its failure must not fail the call."""
    try:
        listener(call, notice)
    except Exception:  # noqa: BLE001 - code of users
        _log.exception("notify or on_progress failed at a call of %s", call.name)


class Conditions(msgspec.Struct):
    """The conditions under which the calls of a batch run."""

    mode: Mode = "execute"
    timeout: float | None = None
    """Seconds for each call, instead of its engine's timeout."""
    context: Mapping[str, Any] = {}
    """Data from the caller for the tools (`ToolContext.context`)."""
    trace: Mapping[str, Any] = {}
    """The caller's trace ids (`ToolContext.trace`)."""
    at_most: float | None = None
    """Upper limit in seconds for each call, whatever its timeout."""
    keys: tuple[str, ...] | None = None
    """Id and name of the caller's key; empty for a remote caller without a key, None for the program itself."""
    definitions: frozenset[str] | None = None
    """Hashes of the definitions that the caller knows; calls of any other definition are refused as `catalog.stale`."""
    scope: Scope | None = None
    """None: everything may be seen and called."""
    abandoned: list[Future[Any]] | None = None
    """If a list, collects the futures of work that continues after its deadline."""
    replay: bool = False
    """True: a `call_id` that has a result in the session gets that result again, and nothing runs."""
    notify: Listener | None = None
    """Receives progress and log lines."""
    request_id: str | None = None
    """Id of the request over the wire, for the call log."""


class CallRequest(Conditions, frozen=True, kw_only=True):  # type: ignore[misc]  # msgspec allows it
    """Calls to answer in order, and their conditions."""

    calls: Sequence[ToolCall]
    session_id: str | None = None
    """None for calls without a session."""
    owner: str | None = None


def bind_within(snapshot: Snapshot, mode: Mode, call: ToolCall, scope: Scope, *, on_loop: bool = False) -> Bound:
    """`bind` without revealing tools that the scope hides; raises `Denied` if the caller may not call the tool."""
    everything = scope.can_list_all
    candidates = find_overloads(
        snapshot, call.name, sees=None if everything else scope.can_see, hints=everything or scope.can_list
    )
    bound = bind(snapshot, call, candidates, on_loop)
    if not scope.can_call(mode, bound.tool):
        name, scope_needed = bound.tool.qualified_name, f"{bound.tool.namespace}:{mode}"
        raise Denied(f"this key may not {mode} {name}", hint=f"ask for a key with the scope {scope_needed}")
    return bound


def bind_offered(
    snapshot: Snapshot, batch: Conditions, call: ToolCall, policy: Policy, error: UnknownToolError, *, on_loop: bool
) -> Bound:
    """Bind a call after an error that may name tools which the policy always denies, as if there were none of these."""
    scope = batch.scope

    def is_allowed(tool: Tool) -> bool:
        return (scope is None or scope.can_see(tool)) and not policy.always_denies(tool, batch.keys)

    def is_offered(tool: Tool) -> bool:
        return is_allowed(tool) and (scope is None or scope.can_list(tool))

    if all(is_allowed(snapshot.names[name][0].tool) for name in error.info.details.get("candidates", ())):
        raise error
    found = find_overloads(snapshot, call.name, sees=is_allowed, hints=is_offered)
    call = replace(call, name=found[0].tool.qualified_name)
    if scope is not None:
        return bind_within(snapshot, batch.mode, call, scope, on_loop=on_loop)
    return bind(snapshot, call, found, on_loop)


def list_refusals(snapshot: Snapshot, request: CallRequest) -> list[ToolResult | None]:
    """For each call, the result that refuses it, or None if it may run.

    For engines that override `execute` and thereby bypass the call path, which makes these checks otherwise.
    """
    return [_find_refusal(snapshot, request, call) for call in request.calls]


def _find_refusal(snapshot: Snapshot, request: CallRequest, call: ToolCall) -> ToolResult | None:
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
    """True if the caller may execute every tool that the calls may resolve to; False for unknown names."""
    scope = request.scope
    if scope is None:
        return True
    found = [snapshot.names.get(call.name, ()) for call in request.calls]
    return all(found) and all(scope.can_call("execute", prepared.tool) for tools in found for prepared in tools)


def check_known(tool: Tool, definitions: frozenset[str]) -> None:
    """Raise `StaleDefinition` if the tool's definition is not one that the caller knows."""
    if tool.definition_hash not in definitions:
        raise StaleDefinition(
            f"the definition of {tool.qualified_name} has changed since the caller loaded it",
            hint="load the catalog again, e.g. registry.refresh(), and look at the definition before calling",
            details={"definition_hash": tool.definition_hash},
        )


class Batch(Conditions, eq=False):
    """The conditions of a batch, and its state while it runs."""

    on_loop: bool = False
    """True if the batch runs in a task, which must not block."""
    waits_since: int | None = None
    """If another batch had the turn when this one arrived: the number of entries when that turn began. Else None."""
    left_behind: Future[Any] | None = None
    """Abandoned work of one of the calls that the session must wait for."""
    begun: float = 0.0
    """When the current call began, by the clock of the sessions."""
    claim: tuple[Approval, State, Callable[[], None]] | None = None
    """Of a current call that was approved: its approval, the world before it, and the refund of its budget."""

    def leave_behind(self, invocation: Invocation) -> None:
        """Register the call's abandoned work, if any. It keeps the session unless the engine's settings release it."""
        if self.abandoned is not None and invocation.left_behind is not None:
            self.abandoned.append(invocation.left_behind)
        if invocation.held and invocation.left_behind is not None:
            self.left_behind = invocation.left_behind

    @property
    def holder(self) -> Future[Any] | None:
        """Abandoned work that still keeps the session from the next batch; None if there is none."""
        left = self.left_behind
        return None if left is None or left.done() else left


def check_calls(calls: Sequence[ToolCall], timeout: float | None, notify: Listener | None = None) -> None:
    """Raise `DefinitionError` for mistakes that only the calling program can make, not the model."""
    if timeout is not None:
        check_timeout(timeout)
    if notify is not None:
        check_listener(notify, "notify")
    if isinstance(calls, ToolCall):
        raise DefinitionError("a batch is a list of ToolCall; put the one call into a list")
    for call in calls:
        if type(call) is ToolCall and type(call.name) is str and call.call_id is None:
            continue
        if not isinstance(call, ToolCall):
            raise DefinitionError(
                f"a batch is a list of ToolCall, not of {type(call).__name__}; see ToolCall.from_dict"
            )
        if not isinstance(call.name, str) or not isinstance(call.call_id, str | None):
            raise DefinitionError(f"name and call_id of a ToolCall are text, not {call.name!r} and {call.call_id!r}")


def check_listener(listener: object, option: str) -> None:
    """Raise `ConfigError` unless it is a function; a coroutine would never be awaited."""
    if not callable(listener) or iscoroutinefunction(listener):
        raise ConfigError(f"{option} must be a plain function, not async; it may schedule a task on your loop")


def check_timeout(timeout: float | None) -> None:
    """Raise `DefinitionError` for an invalid timeout."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
        raise DefinitionError(f"timeout must be a number of seconds above 0 and not over {_LONGEST:g}, not {timeout!r}")


_encode = msgspec.json.Encoder(order="sorted").encode


def find_joined(session: Session, batch: Batch, call: ToolCall) -> ToolResult | None:
    """The result of the same call, if it was running or queued when this batch arrived; else None.

    Only for the batch that holds the session's turn.
    """
    if batch.waits_since is None or call.call_id is None:
        return None
    places = session.count_entries(_note_call_id, _note_call_id)
    for number in reversed(range(places[call.call_id])):
        if (place := places[call.call_id, number]) < batch.waits_since:
            break
        entry = read_entry(next(session.history.since(place)))
        if place < session.turn_since and _is_same_call(entry.tool_call, call):
            return entry.tool_output
    return None


def find_recorded(session: Session, call: ToolCall) -> ToolResult | None:
    """The recorded result of the call's id, a conflict if the id was used for another call, or None for a new id.

    Only for the batch that holds the session's turn.
    """
    if call.call_id is None:
        return None
    places = session.count_entries(_note_call_id, _note_call_id)
    if call.call_id not in places:
        return None
    entry = read_entry(next(session.history.since(places[call.call_id, 0])))
    if _is_same_call(entry.tool_call, call):
        return entry.tool_output
    conflict = CallConflict(
        f"call_id {call.call_id!r} was used before in this session, for another call",
        hint="give every call its own id; to run it again, send it with another id",
    )
    return ToolResult.failed(call, conflict.info)


class _NotedCall(msgspec.Struct):
    call_id: str | None = None


class _NotedOutput(msgspec.Struct):
    error_info: ErrorInfo | None = None


class _NotedEntry(msgspec.Struct):
    """The fields that are read of every entry; decoding skips the rest, which may be large."""

    tool_call: _NotedCall
    tool_output: _NotedOutput


_read_noted = msgspec.json.Decoder(_NotedEntry).decode


def _note_call_id(place: int, text: bytes, places: Counter[Any]) -> None:
    """Count under the id how often it was used, and under (id, n) the index of the entry of its n-th use, from 0."""
    noted = _read_noted(text)
    call_id, failure = noted.tool_call.call_id, noted.tool_output.error_info
    # A call refused as stale may be sent again with the same id, once the caller has loaded the new catalog.
    if call_id is not None and (failure is None or failure.code != StaleDefinition.code):
        places[call_id, places[call_id]] = place
        places[call_id] += 1


def _is_same_call(recorded: ToolCall, call: ToolCall) -> bool:
    try:
        return recorded.name == call.name and _arguments_text(recorded) == _arguments_text(call)
    except (TypeError, ValueError, RecursionError):
        return False  # not JSON, so it cannot equal a recorded call


def _arguments_text(call: ToolCall) -> bytes:
    # Compare as JSON, because 1, 1.0 and True are equal in Python.
    return _encode((call.arguments, call.overload))
