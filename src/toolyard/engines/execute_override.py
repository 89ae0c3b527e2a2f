"""Support for older engines that override `execute` itself.

`find_overrides` lists the methods that a subclass overrides; `OverridingEngine` lets such an engine answer single
calls on the call path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from toolyard.calls.call_path import Gates, Settings
from toolyard.calls.invocation import Invocation
from toolyard.loop.threads import Threads
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError, Denied, ToolFailed, UnknownToolError
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find_overloads
from toolyard.registry.function_call import current_simulation
from toolyard.registry.prepared import PreparedTool
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.session import Session
from toolyard.sessions.state import setup_of
from toolyard.sessions.store.base import Key

NO_CONTEXT: Mapping[str, Any] = {}


class Overrides(NamedTuple):
    """Which `ToolEngine` methods an engine class overrides."""

    execute: bool = False
    aexecute: bool = False
    simulate: bool = False
    asimulate: bool = False
    setup: bool = False
    answers_batches: bool = False
    """True if it overrides `execute` or `aexecute`, and so answers whole batches outside the call path."""
    only_executes: bool = False
    """True if it overrides only `execute` or `aexecute`, so that it cannot tell whether a call is simulated."""


def find_overrides(kind: type, ours: type) -> Overrides:
    """The methods of `ours` that `kind` overrides."""
    overridden = {name: getattr(kind, name) is not getattr(ours, name) for name in (*Overrides._fields[:-2], "answer")}
    knows_mode = overridden.pop("answer") or overridden["simulate"] or overridden["asimulate"]
    batches = overridden["execute"] or overridden["aexecute"]
    return Overrides(**overridden)._replace(answers_batches=batches, only_executes=batches and not knows_mode)


class ExecutingEngine(Protocol):
    """The interface of such an engine that is used here."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads
    overrides: Overrides
    tool_registry: ToolRegistry

    def setup(self, session_id: str, *args: Any, fork_of: str | None = None, **kwargs: Any) -> None:
        """Begin a session."""

    def teardown(self, session_id: str) -> None:
        """End a session."""

    def execute(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Execute calls."""

    def simulate(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Simulate calls, leaving the session unchanged."""

    async def aexecute(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Execute calls."""

    async def asimulate(self, session_id: str, tool_calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Simulate calls, leaving the session unchanged."""

    def close(self) -> None:
        """Release all resources."""

    async def aclose(self) -> None:
        """`close` for async code."""


def drop_unset(**options: Any) -> dict[str, Any]:
    """Only the options that were given: an override in the older style may accept none of them."""
    return {name: value for name, value in options.items() if value is not None and value is not NO_CONTEXT}


def refuse_effects(engine: ExecutingEngine, calls: Sequence[ToolCall]) -> list[ToolResult | None]:
    """For each call, the refusal if simulating it could have an effect, else None.

    Only engines with `only_executes` refuse calls.
    """
    if not engine.overrides.only_executes:
        return [None] * len(calls)
    return [_refuse_effect(engine.tool_registry.snapshot, call) for call in calls]


def _refuse_effect(snapshot: Snapshot, call: ToolCall) -> ToolResult | None:
    allowed = {Effects.READ} if current_simulation() is False else {Effects.READ, Effects.UNKNOWN}
    try:
        tools = [prepared.tool for prepared in find_overloads(snapshot, call.name, hints=False)]
    except UnknownToolError:
        return None  # left to the engine to report
    if all(tool.effects in allowed for tool in tools):
        return None
    denied = Denied(
        f"{tools[0].qualified_name} may change something, and its engine cannot simulate it",
        hint="override simulate as well as execute, or override answer(invocation), which gets the mode",
    )
    return ToolResult.failed(call, denied.info)


def keep_allowed(calls: Sequence[ToolCall], refused: Sequence[ToolResult | None]) -> list[ToolCall]:
    """The calls that were not refused."""
    return [call for call, refusal in zip(calls, refused, strict=True) if refusal is None]


def merge_refusals(refused: Sequence[ToolResult | None], results: Sequence[ToolResult]) -> list[ToolResult]:
    """The results of all calls in order, merging the refusals with the results of the remaining calls."""
    answers = iter(results)
    return [refusal or next(answers) for refusal in refused]


class OverridingEngine:
    """Adapts an engine that overrides `execute` to the call path, with that engine's limits."""

    idempotent = False

    def __init__(self, engine: ExecutingEngine) -> None:
        self.engine = engine
        self.name = engine.name
        self.settings = engine.settings
        self.gates = engine.gates
        self.threads = engine.threads
        self._known_sessions: set[Key] = set()

    def setup(self, session: Session, fork_of: Session | None) -> None:
        """Begin the engine's session; as a fork of its own session if the engine uses our `setup`."""
        args, keywords = setup_of(session.state)
        if fork_of is not None and not self.engine.overrides.setup:
            self._ensure_session(fork_of)
            keywords["fork_of"] = _engine_session_id(fork_of.key)
        self.engine.setup(_engine_session_id(session.key), *args, **keywords)
        self._known_sessions.add(session.key)

    def teardown(self, key: Key) -> None:
        """End the engine's session."""
        self._known_sessions.discard(key)
        self.engine.teardown(_engine_session_id(key))

    def _ensure_session(self, session: Session) -> None:
        """Set up the session in the engine if it is unknown there, such as one reloaded from a store."""
        if session.key not in self._known_sessions:
            args, keywords = setup_of(session.state)
            with suppress(ValueError):  # the session exists already
                self.engine.setup(_engine_session_id(session.key), *args, **keywords)
            self._known_sessions.add(session.key)

    def answer(self, invocation: Invocation) -> Any:
        """The result of this one call, by the engine's own `execute` or `simulate`."""
        engine = self.engine
        self._ensure_session(invocation.session)
        if engine.overrides.aexecute and not engine.overrides.execute:
            return self._await_answer(invocation)
        ask = engine.execute if invocation.mode == "execute" else engine.simulate
        return _read_single_result(invocation, ask(_engine_session_id(invocation.session.key), [invocation.call]))

    async def _await_answer(self, invocation: Invocation) -> Any:
        ask = self.engine.aexecute if invocation.mode == "execute" else self.engine.asimulate
        return _read_single_result(invocation, await ask(_engine_session_id(invocation.session.key), [invocation.call]))

    def route(self, tool: Tool) -> OverridingEngine:
        """The adapter itself, for every tool."""
        return self

    def simulator(self, tool: Tool, may_execute: bool = True) -> OverridingEngine:
        """The adapter itself: the engine's own `simulate` is used."""
        return self

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """End the engine's own session."""
        self.teardown(Key(owner or "", session_id))

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        await self.engine.aclose()

    def function_for(self, prepared: PreparedTool) -> None:
        """None: calls always go through the engine's own methods."""

    def blocks(self, tool: Tool) -> bool:
        """True if the engine overrides the sync `execute`."""
        return self.engine.overrides.execute


def _engine_session_id(key: Key) -> str:
    """The session id for an engine without owners; the owner is part of it."""
    return f"{key.owner}::{key.session_id}" if key.owner else key.session_id


def _read_single_result(invocation: Invocation, results: Sequence[ToolResult]) -> Any:
    if len(results) != 1:
        raise ToolFailed(f"{invocation.engine_name} gave {len(results)} results for one call")
    result = results[0]
    if not result.is_error:
        return result.result
    raise CallError(result.error or "failed") if result.error_info is None else CallError.from_info(result.error_info)
