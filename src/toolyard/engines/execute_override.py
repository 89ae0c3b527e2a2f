"""Engines that override `execute` itself, as the older style has it, or have a constructor that never calls ours.

`find_overrides` says which of the methods a subclass made its own, once; `OverridingEngine` has such an engine answer
one call at a time among others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from toolyard.calls.invocation import Invocation
from toolyard.calls.policy import Policy
from toolyard.calls.settings import Gates, Settings
from toolyard.loop.threads import Threads
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError, ConfigError, Denied, ToolFailed, UnknownToolError
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find
from toolyard.registry.function_call import current_simulation
from toolyard.registry.prepared import PreparedTool
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.session import Session
from toolyard.sessions.state import setup_of
from toolyard.sessions.store.base import Key

NO_CONTEXT: Mapping[str, Any] = {}


class Overrides(NamedTuple):
    """Which methods of an engine are its own, not ours."""

    execute: bool = False
    aexecute: bool = False
    simulate: bool = False
    asimulate: bool = False
    setup: bool = False
    answers_batches: bool = False
    """True if it answers whole batches itself, past the call path."""
    only_executes: bool = False
    """True if all it has is an `execute` that ends there, so that nothing tells it that a call is simulated."""


def find_overrides(kind: type, ours: type) -> Overrides:
    """What `kind` made its own of the methods of `ours`."""
    own = {name: getattr(kind, name) is not getattr(ours, name) for name in (*Overrides._fields[:-2], "answer")}
    tells = own.pop("answer") or own["simulate"] or own["asimulate"]
    batches = own["execute"] or own["aexecute"]
    return Overrides(**own)._replace(answers_batches=batches, only_executes=batches and not tells)


def check_override(kind: Any, policy: Policy | None) -> None:
    """Refuse an engine that would answer calls past the policy it was given."""
    passes = kind.overrides.answers_batches and not kind.executes_by_super
    if passes and policy is not None and not policy.trivial:
        raise ConfigError(
            f"the execute of {kind.__name__} answers calls past the policy; override answer(invocation) in its "
            "place, or say executes_by_super = True in the class if it ends in super().execute"
        )


class ExecutingEngine(Protocol):
    """Such an engine, as far as it is needed here."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads
    overrides: Overrides
    tool_registry: ToolRegistry

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

    def close(self) -> None:
        """Let go of everything."""

    async def aclose(self) -> None:
        """`close` for async code."""


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


def refuse_effects(engine: ExecutingEngine, calls: Sequence[ToolCall]) -> list[ToolResult | None]:
    """For each call, why an `execute` that cannot tell a simulation is not asked for it, or None."""
    if not engine.overrides.only_executes:
        return [None] * len(calls)
    return [_refuse_effect(engine.tool_registry.snapshot, call) for call in calls]


def _refuse_effect(snapshot: Snapshot, call: ToolCall) -> ToolResult | None:
    allowed = {Effects.READ} if current_simulation() is False else {Effects.READ, Effects.UNKNOWN}
    try:
        tools = [prepared.tool for prepared in find(snapshot, call.name, hints=False)]
    except UnknownToolError:
        return None  # for the engine to say
    if all(tool.effects in allowed for tool in tools):
        return None
    denied = Denied(
        f"{tools[0].qualified_name} may change something, and its engine cannot simulate it",
        hint="override simulate as well as execute, or override answer(invocation), which gets the mode",
    )
    return ToolResult.failed(call, denied.info)


def calls_left(calls: Sequence[ToolCall], refused: Sequence[ToolResult | None]) -> list[ToolCall]:
    """The calls that were not refused."""
    return [call for call, refusal in zip(calls, refused, strict=True) if refusal is None]


def fill_in(refused: Sequence[ToolResult | None], results: Sequence[ToolResult]) -> list[ToolResult]:
    """The results of all calls, in order: refusals, and what became of the calls that were left."""
    answers = iter(results)
    return [refusal or next(answers) for refusal in refused]


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

    def route(self, tool: Tool) -> OverridingEngine:
        """Itself for every tool."""
        return self

    def simulator(self, tool: Tool, may_execute: bool = True) -> OverridingEngine:
        """Its own `simulate` knows what to do."""
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
    raise CallError(result.error or "failed") if result.error_info is None else CallError.from_info(result.error_info)
