"""`Batch`: the calls one caller hands in together, answered in order in one turn of the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from toolyard.calls.events import Mode
from toolyard.calls.invocation import Invocation
from toolyard.calls.request import CallRequest, Listener, Scope
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import DefinitionError
from toolyard.registry.bind import Bound

_NOTHING: Mapping[str, Any] = {}
_LONGEST = 1e8
"""Seconds: about three years, more than any clock of the system takes."""


class Batch:
    """What the calls share: the conditions under which they are made, and what has become of them so far."""

    trace: Mapping[str, Any] = _NOTHING
    definitions: frozenset[str] | None = None
    scope: Scope | None = None
    replay: bool = False
    abandoned: list[Future[Any]] | None = None
    notify: Listener | None = None
    at_most: float | None = None
    cut_off: tuple[ToolCall, ToolResult] | None = None
    """The call that was under way when the batch was stopped, and what is known of it."""
    left_behind: Future[Any] | None = None
    """Work of one of the calls that goes on although nobody waits for it, and that the session must wait for."""

    bound: Bound | None = None
    """The call that is being made, as far as it is bound."""

    def __init__(self, mode: Mode, timeout: float | None, context: Mapping[str, Any], *, on_loop: bool) -> None:
        self.mode = mode
        self.timeout = timeout
        self.context = context
        self.on_loop = on_loop

    @classmethod
    def of_request(cls, request: CallRequest) -> Batch:
        """A batch under the conditions that only somebody on the other side of a wire makes."""
        batch = cls(request.mode, request.timeout, request.context, on_loop=True)
        batch.trace, batch.definitions, batch.scope = request.trace, request.definitions, request.scope
        batch.abandoned, batch.notify, batch.at_most = request.abandoned, request.notify, request.at_most
        batch.replay = request.replay and request.mode == "execute" and request.session_id is not None
        return batch

    def leave_behind(self, invocation: Invocation) -> None:
        """Work that goes on keeps the session, unless the engine it belongs to lets it go."""
        if self.abandoned is not None and invocation.left_behind is not None:
            self.abandoned.append(invocation.left_behind)
        if invocation.held:
            self.left_behind = invocation.left_behind

    @property
    def holder(self) -> Future[Any] | None:
        """What the session must wait for before anybody else may have it."""
        left = self.left_behind
        return None if left is None or left.done() else left


def check_calls(calls: Sequence[ToolCall]) -> bool:
    """Refuse what no model can get wrong, only the program around it; True if one of the calls has an id."""
    identified = False
    for call in calls:
        if type(call) is ToolCall and type(call.name) is str and call.call_id is None:
            continue
        if not isinstance(call, ToolCall):
            raise DefinitionError(
                f"a batch is a list of ToolCall, not of {type(call).__name__}; see ToolCall.from_dict"
            )
        if not isinstance(call.name, str) or not isinstance(call.call_id, str | None):
            raise DefinitionError(f"name and call_id of a ToolCall are text, not {call.name!r} and {call.call_id!r}")
        identified = identified or call.call_id is not None
    return identified


def check_timeout(timeout: float | None) -> None:
    """Refuse a time limit that is none; the program's mistake, like those of `check_calls`."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
        raise DefinitionError(f"timeout must be a number of seconds above 0 and not over {_LONGEST:g}, not {timeout!r}")
