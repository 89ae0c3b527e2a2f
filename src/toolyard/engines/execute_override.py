"""Engines that override `execute` itself, as the older style has it, or have a constructor that never calls ours.

`find_overrides` says which of the methods a subclass made its own, once; `OverridingEngine` has such an engine answer
one call at a time among others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from toolyard.calls.invocation import Invocation
from toolyard.calls.plan import Gates, Settings
from toolyard.loop.threads import Threads
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError, ToolFailed
from toolyard.model.tool import Tool
from toolyard.registry.prepared import PreparedTool
from toolyard.sessions.session import Session
from toolyard.sessions.state import setup_of
from toolyard.sessions.store import Key

NO_CONTEXT: Mapping[str, Any] = {}
_DRAFTING: ContextVar[frozenset[tuple[int, str]]] = ContextVar("toolyard_drafting", default=frozenset())
"""Engines and sessions for which `execute` is being used to simulate."""


class Overrides(NamedTuple):
    """Which methods of an engine are its own, not ours."""

    execute: bool = False
    aexecute: bool = False
    simulate: bool = False
    asimulate: bool = False
    setup: bool = False
    answers_batches: bool = False
    """True if it answers whole batches itself, past the call path."""


def find_overrides(kind: type, ours: type) -> Overrides:
    """What `kind` made its own of the methods of `ours`."""
    own = {name: getattr(kind, name) is not getattr(ours, name) for name in Overrides._fields[:-1]}
    return Overrides(**own)._replace(answers_batches=own["execute"] or own["aexecute"])


class ExecutingEngine(Protocol):
    """Such an engine, as far as it is needed here."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads
    overrides: Overrides

    def setup(self, session_id: str, *args: Any, fork_of: str | None = None, **kwargs: Any) -> None:
        """Begin a session."""

    def teardown(self, session_id: str) -> None:
        """End it."""

    def execute(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer calls."""

    def simulate(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer calls, and leave no trace."""

    async def aexecute(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer calls."""

    async def asimulate(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer calls, and leave no trace."""


def given_options(**options: Any) -> dict[str, Any]:
    """Options that were not left out: a subclass in the older style takes none of them."""
    return {name: value for name, value in options.items() if value is not None and value is not NO_CONTEXT}


def complete_init(init: Callable[..., None], ours: Callable[[Any], None]) -> Callable[..., None]:
    """A subclass's constructor, and ours behind it where it never called ours: the older style had none to call."""

    @functools.wraps(init)
    def complete(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        if "_path" not in self.__dict__:
            own = dict(self.__dict__)
            ours(self)
            self.__dict__.update(own)

    return complete


@contextmanager
def drafting(engine: object, session_id: str) -> Iterator[None]:
    """Within it, what an engine's own `execute` does in that session is a simulation."""
    token = _DRAFTING.set(_DRAFTING.get() | {(id(engine), session_id)})
    try:
        yield
    finally:
        _DRAFTING.reset(token)


def is_drafting(engine: object, session_id: str) -> bool:
    """True inside `drafting`."""
    return (id(engine), session_id) in _DRAFTING.get()


class OverridingEngine:
    """Stands in for such an engine on the call path: same limits, its own way of answering."""

    idempotent = False

    def __init__(self, engine: ExecutingEngine) -> None:
        self.engine = engine
        self.name = engine.name
        self.settings = engine.settings
        self.gates = engine.gates
        self.threads = engine.threads
        self._begun: set[Key] = set()

    def setup(self, session: Session, fork_of: Session | None) -> None:
        """Begin the engine's own session; a fork of its own too, if it knows what that is."""
        args, keywords = setup_of(session.state)
        if fork_of is not None and not self.engine.overrides.setup:
            self._begin(fork_of)
            keywords["fork_of"] = _own_id(fork_of.key)
        self.engine.setup(_own_id(session.key), *args, **keywords)
        self._begun.add(session.key)

    def teardown(self, key: Key) -> None:
        """End it."""
        self._begun.discard(key)
        self.engine.teardown(_own_id(key))

    def _begin(self, session: Session) -> None:
        """A session that a store kept, and this engine did not, begins anew for it."""
        if session.key not in self._begun:
            args, keywords = setup_of(session.state)
            with suppress(ValueError):  # it is there already
                self.engine.setup(_own_id(session.key), *args, **keywords)
            self._begun.add(session.key)

    def answer(self, invocation: Invocation) -> Any:
        """What the engine's own `execute`, or `simulate`, gives for this one call."""
        engine = self.engine
        self._begin(invocation.session)
        if engine.overrides.aexecute and not engine.overrides.execute:
            return self._await_answer(invocation)
        ask = engine.execute if invocation.mode == "execute" else engine.simulate
        return _only_value(invocation, ask(_own_id(invocation.session.key), [invocation.call]))

    async def _await_answer(self, invocation: Invocation) -> Any:
        ask = self.engine.aexecute if invocation.mode == "execute" else self.engine.asimulate
        return _only_value(invocation, await ask(_own_id(invocation.session.key), [invocation.call]))

    def simulator(self, tool: Tool) -> OverridingEngine:
        """Its own `simulate` knows what to do."""
        return self

    def function_for(self, prepared: PreparedTool) -> None:
        """Always by way of the engine's own methods."""

    def blocks(self, tool: Tool) -> bool:
        """A sync `execute` does."""
        return self.engine.overrides.execute


def _own_id(key: Key) -> str:
    """What the session is called in an engine that knows of no owners."""
    return f"{key.owner}::{key.session_id}" if key.owner else key.session_id


def _only_value(invocation: Invocation, results: Sequence[ToolResult]) -> Any:
    if len(results) != 1:
        raise ToolFailed(f"{invocation.engine_name} gave {len(results)} results for one call")
    result = results[0]
    if not result.is_error:
        return result.result
    error = CallError(result.error or "failed") if result.error_info is None else CallError(result.error_info.message)
    if result.error_info is not None:
        error.info = result.error_info
    raise error
