"""`Invocation`: everything that an engine gets to know about a call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import msgspec

from toolyard.calls.faults import Fault
from toolyard.model.call import Mode, Notice, Notify, ToolCall, ToolContext
from toolyard.model.tool import Tool, digest
from toolyard.registry.bind import Bound
from toolyard.sessions.history import Entry, read_entry
from toolyard.sessions.session import Session
from toolyard.sessions.state import EngineState, setup_of


class Invocation(msgspec.Struct, eq=False):
    """A bound and allowed call, passed to `answer`, which returns the value or raises.

    `arguments` are valid, coerced, with defaults, and belong to the engine. `deadline` is a `time.monotonic()` value
    that all work for the call must respect; None for no limit.
    """

    tool: Tool
    arguments: dict[str, Any]
    call: ToolCall
    mode: Mode
    deadline: float | None
    attempt: int
    """1 for the first attempt."""
    engine_name: str
    bound: Bound
    session: Session
    context: Mapping[str, Any] = {}
    """Data that the caller sent with the call."""
    trace: Mapping[str, Any] = {}
    """The caller's trace ids."""
    listener: Notify | None = None
    """Receives notices of the tool; None if the caller wants none."""
    held: bool = True
    """True if the session must wait for abandoned work."""
    announced: bool = False
    """True once the store has the intent of the call."""
    begun: bool = False
    """True once the tool may have been called."""
    left_behind: Future[Any] | None = None
    """Abandoned work: it still runs, but the call no longer waits for it."""
    kept: EngineState | None = None
    """The engine's state, once `state` was used."""
    result_bytes: int | None = None
    """Size of the result as JSON; None before there is one."""
    printed: tuple[str, str] | None = None
    """The end of the tool's stdout and stderr, if captured; recorded in the trace."""
    fault: Fault | None = None
    """The injected fault, if any; recorded in the metadata of the result."""
    simulated_by: str | None = None
    """Name of what answered a simulated call, if the result must say so; recorded in the metadata of the result."""
    replayed: bool = False
    """True if the answer is a redacted recording; redacted values are not checked against the output schema."""
    secrets: tuple[str, ...] = ()
    """Credentials of the operator that were sent with the call; they are removed from the result."""
    notes: dict[str, Any] | None = None
    """Notes of the engine about its answer, as plain JSON; recorded in the trace."""

    @property
    def session_id(self) -> str:
        """Id of the session; empty for a call without one."""
        return self.session.key.session_id

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline, never below 0; None for no limit."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    @property
    def state(self) -> EngineState:
        """State of this engine in the session. Kept if the call succeeds; forks and rollbacks include it."""
        if self.kept is None:
            self.kept = EngineState(self.session.state, self.engine_name)
        return self.kept

    @property
    def setup(self) -> dict[str, Any]:
        """The keyword arguments that the session was set up with."""
        return setup_of(self.session.state)[1]

    def notify(self, notice: Notice) -> None:
        """Send the caller a notice before the result, if it wants notices."""
        if self.listener is not None:
            self.listener(notice)

    def history(self) -> list[Entry]:
        """All recorded calls of this session, by any engine, oldest first."""
        return [read_entry(entry) for entry in self.session.history]

    @property
    def idempotency_key(self) -> str | None:
        """Equal for all attempts of one call, and for no other call; None for a call without id or session."""
        if self.call.call_id is None or not self.session_id:
            return None
        return digest(
            self.session.key.owner, self.session_id, self.call.call_id, self.call.name, self.bound.sent.decode()
        )

    def tool_context(self) -> ToolContext:
        """The `ToolContext` for a tool that declares `ctx`."""
        return ToolContext(
            tool=self.tool,
            call_id=self.call.call_id,
            session_id=self.session_id or None,
            mode=self.mode,
            context=self.context,
            trace=self.trace,
            notify=self.listener,
        )
