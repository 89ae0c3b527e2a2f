"""`Batch`: the calls one caller hands in together, answered in order in one turn of the session.

A `CallRequest` is what a remote caller asks for. To it, what its `Scope` does not show does not
exist: no names, no schemas, no hints.

A call that is sent again while the first is under way is the same call: batches take turns, so by its own the first is
over, and what was recorded of it is the answer (`find_joined`). So it is later, where the caller asked for that
(`find_recorded`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from toolyard.calls.approval import Approval
from toolyard.calls.invocation import Invocation
from toolyard.model.call import Mode, Notice, ToolCall, ToolResult
from toolyard.model.errors import CallConflict, CallError, DefinitionError, Denied, ErrorInfo, StaleDefinition
from toolyard.model.tool import Tool
from toolyard.registry.bind import Bound, bind, find
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.history import read_entry
from toolyard.sessions.session import Session
from toolyard.sessions.state import State

_LONGEST = 1e8
"""Seconds: about three years, more than any clock of the system takes."""


class Scope(Protocol):
    """What of a registry a caller may see and use."""

    @property
    def sees_all(self) -> bool:
        """True if nothing is hidden from them, so that hints may name any tool."""

    def sees(self, tool: Tool) -> bool:
        """False: to them, the tool does not exist."""

    def lists(self, tool: Tool) -> bool:
        """True if the catalog shows it to them, so that hints may name it."""

    def may(self, mode: Mode, tool: Tool) -> bool:
        """True if they may have it called."""


Listener = Callable[[ToolCall, Notice], None]
"""Told what tools say while they run. It returns at once and may be called from any thread."""


class Conditions(msgspec.Struct):
    """Under which calls are answered together; the defaults hold where the caller does not say."""

    mode: Mode = "execute"
    timeout: float | None = None
    """Seconds for each call, in place of what its engine allows."""
    context: Mapping[str, Any] = {}
    """What the caller sends along with the calls."""
    trace: Mapping[str, Any] = {}
    """The caller's own ids for them."""
    at_most: float | None = None
    """Seconds for each call, whatever else is said."""
    keys: tuple[str, ...] | None = None
    """Id and name of the key that the calls are made with, none over a wire without keys; None: the program itself."""
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


class CallRequest(Conditions, frozen=True, kw_only=True):  # type: ignore[misc]  # msgspec allows it
    """Calls to be answered in order, and under which conditions."""

    calls: Sequence[ToolCall]
    session_id: str | None = None
    """None: in a separate session, which no other caller sees and which is not kept."""
    owner: str | None = None


def bind_within(snapshot: Snapshot, mode: Mode, call: ToolCall, scope: Scope, *, at_once: bool = False) -> Bound:
    """`bind`, telling nothing about tools that the caller does not see: no names, no schemas, no hints."""
    everything = scope.sees_all
    candidates = find(snapshot, call.name, sees=None if everything else scope.sees, hints=everything or scope.lists)
    bound = bind(snapshot, call, candidates, at_once)
    if not scope.may(mode, bound.tool):
        name, scope_needed = bound.tool.qualified_name, f"{bound.tool.namespace}:{mode}"
        raise Denied(f"this key may not {mode} {name}", hint=f"ask for a key with the scope {scope_needed}")
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


class Batch(Conditions, eq=False):
    """What the calls share: the conditions under which they are made, and what has become of them so far."""

    on_loop: bool = False
    """True in a task, which must not wait for a thread."""
    waits_since: int | None = None
    """For a batch that was handed in while another had its turn: how many entries there were when that turn began."""
    left_behind: Future[Any] | None = None
    """Work of one of the calls that goes on although its caller has stopped waiting; the session must wait for it."""
    begun: float = 0.0
    """When the call that is being made was begun, by the clock of the sessions."""
    claim: tuple[Approval, State, Callable[[], None]] | None = None
    """The approval that it runs by, the session's world before that, and what gives its budget back."""

    def leave_behind(self, invocation: Invocation) -> None:
        """Work that goes on, if any does, keeps the session, unless the engine it belongs to lets it go."""
        if self.abandoned is not None and invocation.left_behind is not None:
            self.abandoned.append(invocation.left_behind)
        if invocation.held and invocation.left_behind is not None:
            self.left_behind = invocation.left_behind

    @property
    def holder(self) -> Future[Any] | None:
        """What the session must wait for before another batch may have it."""
        left = self.left_behind
        return None if left is None or left.done() else left


def check_calls(calls: Sequence[ToolCall], timeout: float | None) -> None:
    """Refuse what no model can get wrong, only the program around it."""
    if timeout is not None:
        check_timeout(timeout)
    for call in calls:
        if type(call) is ToolCall and type(call.name) is str and call.call_id is None:
            continue
        if not isinstance(call, ToolCall):
            raise DefinitionError(
                f"a batch is a list of ToolCall, not of {type(call).__name__}; see ToolCall.from_dict"
            )
        if not isinstance(call.name, str) or not isinstance(call.call_id, str | None):
            raise DefinitionError(f"name and call_id of a ToolCall are text, not {call.name!r} and {call.call_id!r}")


def check_timeout(timeout: float | None) -> None:
    """Refuse a time limit that is none; the program's mistake, like those of `check_calls`."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
        raise DefinitionError(f"timeout must be a number of seconds above 0 and not over {_LONGEST:g}, not {timeout!r}")


_encode = msgspec.json.Encoder(order="sorted").encode


def find_joined(session: Session, batch: Batch, call: ToolCall) -> ToolResult | None:
    """The answer of the very same call, where it was under way, or ahead in line, when the batch was handed in.

    Only for the batch that has the session's turn.
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
    """The recorded answer, a conflict if the id stands for another call, or None if it is new here.

    Only for the batch that has the session's turn.
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
    """What is looked at in every entry: of a large answer nothing is made."""

    tool_call: _NotedCall
    tool_output: _NotedOutput


_read_noted = msgspec.json.Decoder(_NotedEntry).decode


def _note_call_id(place: int, text: bytes, places: Counter[Any]) -> None:
    """By an id, how often it was used; by an id and a number, counted from 0, the place of that use."""
    noted = _read_noted(text)
    call_id, failure = noted.tool_call.call_id, noted.tool_output.error_info
    # Refused for what came along with it, not for what it asks: with the new catalog it may be sent again.
    if call_id is not None and (failure is None or failure.code != StaleDefinition.code):
        places[call_id, places[call_id]] = place
        places[call_id] += 1


def _is_same_call(recorded: ToolCall, call: ToolCall) -> bool:
    try:
        return recorded.name == call.name and _arguments_text(recorded) == _arguments_text(call)
    except (TypeError, ValueError, RecursionError):
        return False  # no JSON, so it cannot be what was recorded


def _arguments_text(call: ToolCall) -> bytes:
    # As text, because in Python 1, 1.0 and True are equal.
    return _encode((call.arguments, call.overload))
