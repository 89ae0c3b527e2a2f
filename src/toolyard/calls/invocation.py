"""`Invocation`: all that an engine knows about the one call it answers."""

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
    """A call that is bound and allowed. Passed to `answer`, which returns the value or raises.

    `arguments` are the engine's own: valid, repaired, with defaults filled in. `deadline` is a `time.monotonic()`
    moment that everything done for the call must respect; None for no limit.
    """

    tool: Tool
    arguments: dict[str, Any]
    call: ToolCall
    mode: Mode
    deadline: float | None
    attempt: int
    """1 for the first try."""
    engine_name: str
    bound: Bound
    session: Session
    context: Mapping[str, Any] = {}
    """What the caller sent along with the call."""
    trace: Mapping[str, Any] = {}
    """The caller's own ids for it."""
    listener: Notify | None = None
    """Called with progress; None if the caller does not want any."""
    held: bool = True
    """Whether the session waits for work that is left behind."""
    announced: bool = False
    """True once a store knows that the call is about to begin."""
    begun: bool = False
    left_behind: Future[Any] | None = None
    """Work that goes on although nothing waits for it any more."""
    kept: EngineState | None = None
    result_bytes: int | None = None
    """Of the answer, as JSON; known once it is there."""
    printed: tuple[str, str] | None = None
    """The end of what the tool wrote to stdout and stderr, if that is kept; the trace tells it."""
    fault: Fault | None = None
    """What befell the call on purpose; the metadata of the result tells it."""
    simulated_by: str | None = None
    """Who answered in place of the tool, where it was not run; the metadata of the result tells it."""
    replayed: bool = False
    """True if the answer is a recording, from which secrets were taken out; their places are not checked."""
    secrets: tuple[str, ...] = ()
    """Credentials of the operator that went along; whatever is answered, the result does not repeat them."""
    notes: dict[str, Any] | None = None
    """What else the engine has to say about how it answered, as plain JSON; the trace tells it."""

    @property
    def session_id(self) -> str:
        """The session the call is made in."""
        return self.session.key.session_id

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline, never below 0; None for no limit."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    @property
    def state(self) -> EngineState:
        """What this engine keeps in the session; kept if the call succeeds, rolled back and forked with it."""
        if self.kept is None:
            self.kept = EngineState(self.session.state, self.engine_name)
        return self.kept

    @property
    def setup(self) -> dict[str, Any]:
        """The keywords that the session was set up with."""
        return setup_of(self.session.state)[1]

    def notify(self, notice: Notice) -> None:
        """Send the caller a message before the result, if it asked for messages."""
        if self.listener is not None:
            self.listener(notice)

    def history(self) -> list[Entry]:
        """Every call of this session so far, by any engine, oldest first."""
        return [read_entry(entry) for entry in self.session.history]

    @property
    def idempotency_key(self) -> str | None:
        """The same for every try of one call and for no other call; None for one without an id or a session."""
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
