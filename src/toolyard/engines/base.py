"""`ToolEngine`: sessions on the outside, one method to override on the inside.

    @register_tool_engine("mine")
    class MyEngine(ToolEngine):
        def answer(self, invocation: Invocation) -> Any:      # or async def
            return {"echo": invocation.arguments}

`answer` returns the value, or raises; everything else (binding, policy, deadlines, history, tracing) is done
before and after it. A subclass that overrides `execute` instead, as the older style has it, is honoured.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from threading import Lock
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from msgspec.structs import replace

from toolyard.calls.answerer import Answerer
from toolyard.calls.approvals import Approvals
from toolyard.calls.batch import Batch, CallRequest, may_execute_all, refusals
from toolyard.calls.call_path import CallPath
from toolyard.calls.faults import FaultPlan
from toolyard.calls.flow import arun_batch, arun_request, run_batch
from toolyard.calls.invocation import Invocation
from toolyard.calls.journal import CallLogOptions, Journal
from toolyard.calls.policy import Policy
from toolyard.calls.settings import MAX_RESULT_BYTES, Abandoned, Gates, OutputCheck, Settings
from toolyard.calls.sql_journal import open_journal
from toolyard.calls.tracer import Tracer
from toolyard.engines.execute_override import (
    NO_CONTEXT,
    Overrides,
    OverridingEngine,
    calls_left,
    check_override,
    complete_init,
    fill_in,
    find_overrides,
    given_options,
    refuse_effects,
)
from toolyard.engines.session_reading import SessionReading, run_off_loop
from toolyard.loop.threads import Threads, wrapped
from toolyard.model.bases import Closing
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import ConfigError, NoEngine, UnknownSessionError
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.function_call import current_simulation, simulating
from toolyard.registry.prepared import PreparedTool
from toolyard.schema.options import check_kinds
from toolyard.sessions.history import History
from toolyard.sessions.session import Session
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.state import EXECUTIONS, SETUP, State, read_setup
from toolyard.sessions.store.base import Key
from toolyard.words.redactor import Redactor

T = TypeVar("T")

_KINDS: Mapping[str, type] = {
    "registry": ToolRegistry,
    "sessions": Sessions,
    "policy": Policy,
    "tracer": Tracer,
    "redactor": Redactor,
}


class ToolEngine(SessionReading, Closing):
    """Executes calls in sessions. Every method has an async twin, such as `aexecute`.

    `execute` appends every call and its result to the session; `simulate` leaves no trace in it. Both may be
    called from any number of threads and tasks: calls in one session take turns, in the order they came.

    `timeout` is in seconds; None means that nothing limits an in-process call, which cannot be interrupted
    anyway. With `abandoned="hold"` a session stays taken while a call that overran its deadline still runs, so that
    two calls never run in it at once; with "release" the session goes on without it. With `namespaces`, tools of other
    namespaces are none of this engine's. `faults` is a plan of what goes wrong on purpose; see `FaultPlan`.
    """

    type_name: ClassVar[str] = "engine"
    idempotent: bool = False
    """True if `answer` passes `invocation.idempotency_key` on to something that makes a repeat harmless."""
    executes_by_super: ClassVar[bool] = False
    """True if an `execute` of one's own ends in ours, so that a policy has its say."""
    reaches_out: bool = False
    """True if calls may change the world outside this process; see `EffectfulEngine`."""
    foreseeable: bool = False
    """True if `answer` changes nothing but `invocation.state` and would answer the same again: it is run in a copy of
    the session to show whoever must approve a call what that would do."""
    journal: Journal | None = None
    """What is kept of each call, if anything is."""
    overrides: Overrides = Overrides()
    """Which of the methods below a subclass made its own, as the older style has it."""
    _answers_blocking: ClassVar[bool] = True
    _only_executes_async: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.overrides = find_overrides(cls, ToolEngine)
        cls._only_executes_async = cls.overrides.aexecute and not cls.overrides.execute
        cls._answers_blocking = not inspect.iscoroutinefunction(cls.answer)
        if "__init__" in cls.__dict__:
            cls.__init__ = complete_init(cls.__init__, ToolEngine.__init__)  # type: ignore[method-assign]

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        name: str | None = None,
        sessions: Sessions | None = None,
        policy: Policy | None = None,
        tracer: Tracer | None = None,
        redactor: Redactor | None = None,
        timeout: float | None = None,
        output_check: OutputCheck = "warn",
        max_concurrent_calls: int | None = None,
        max_concurrent_calls_per_tool: int | Mapping[str, int] | None = None,
        max_result_bytes: int = MAX_RESULT_BYTES,
        retries: int = 0,
        retry_delay: float = 0.2,
        threads: int = 64,
        abandoned: Abandoned = "hold",
        namespaces: Sequence[str] | None = None,
        faults: FaultPlan | Mapping[str, Any] | None = None,
    ) -> None:
        parts = {"sessions": sessions, "policy": policy, "tracer": tracer, "redactor": redactor}
        check_kinds(_KINDS, registry=registry, **parts)
        self.name = self.type_name if name is None else name
        self.is_named = name is not None
        if not isinstance(self.name, str) or self.name in ("", EXECUTIONS, SETUP):
            raise ConfigError(f"an engine cannot be called {self.name!r}")
        self.tool_registry = ToolRegistry() if registry is None else registry
        self.settings = Settings(
            timeout=timeout,
            output_check=output_check,
            max_concurrent_calls=max_concurrent_calls,
            max_concurrent_calls_per_tool=max_concurrent_calls_per_tool,
            max_result_bytes=max_result_bytes,
            retries=retries,
            retry_delay=retry_delay,
            threads=threads,
            abandoned=abandoned,
            namespaces=namespaces,
            faults=None if faults is None else FaultPlan.read(faults, "faults"),
        )
        self.gates = Gates(self.settings)
        self.threads = Threads(threads, f"toolyard-{self.name}")
        self.sessions = Sessions() if sessions is None else sessions
        self._tracer = tracer
        self.brought = [part for part, value in parts.items() if value is not None]
        """What it was given of its own, and would not use as part of another engine."""
        self._begin_parts()
        check_override(type(self), policy)
        self._path = CallPath(self, self.tool_registry, self.sessions, policy=policy, tracer=tracer, redactor=redactor)

    def _begin_parts(self) -> None:
        self._root: ToolEngine = self
        """The engine that was called and routes calls here, whose tools and whose redactor are meant."""
        self._parts: list[Any] = []
        """What is closed with it; engines among them are told when a session is over."""
        self._makers: dict[type, Callable[[], ToolEngine]] = {}
        self._made: dict[type, ToolEngine] = {}
        self._making = Lock()

    def keep_journal(self, options: CallLogOptions) -> Journal:
        """Log calls from now on, in the session store."""
        journal = self.journal = open_journal(self.sessions.store, options)
        self._tracer = self._path.tracer = (self._tracer or Tracer()).with_journal(journal)
        return journal

    def answer(self, invocation: Invocation) -> Any:
        """Override this: return the result of the call, or raise. May be `async def`."""
        raise NoEngine(
            f"{type(self).__name__} cannot answer {invocation.tool.qualified_name}", hint="override answer(invocation)"
        )

    @property
    def namespaces(self) -> Sequence[str] | None:
        """Those whose tools it answers; None for all."""
        return self.settings.namespaces

    @property
    def discreet(self) -> bool:
        """True: callers are not told what a tool's own exceptions say, only under which id the log has it."""
        return self._path.discreet

    @discreet.setter
    def discreet(self, value: bool) -> None:
        self._path.discreet = value

    @property
    def policy(self) -> Policy | None:
        """What may refuse calls; None if nothing does."""
        return self._path.policy

    @property
    def approvals(self) -> Approvals:
        """The calls that a rule `ask` holds: `list`, `get`, `approve`, `deny`, `wait_for`, and their a-twins."""
        return self._path.approvals

    def route(self, tool: Tool) -> Answerer:
        """The engine that executes the tool and whose limits apply: this one, unless it routes."""
        return self

    def as_part(self) -> ToolEngine | OverridingEngine:
        """Itself as part of another engine; one that overrides `execute` is called once per call."""
        return OverridingEngine(self) if self.overrides.answers_batches else self

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """The engine that answers when the tool is simulated; `Denied` if that would change something.

        Itself: what it keeps in the session is thrown away, and its `answer` is told the mode. See `EffectfulEngine`.
        """
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """What it was given that errors and traces must not show."""
        return ()

    def joined(self, root: ToolEngine) -> None:
        """Called when another engine routes calls here."""
        self._root = root

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """Called when a session has ended, whichever engine it belonged to."""
        for part in self._parts:
            if isinstance(part, (ToolEngine, OverridingEngine)):
                part.ended(session_id, owner)

    def let_answer(self, binding: type, make: Callable[[], ToolEngine]) -> None:
        """Use the engine that `make` returns for tools with that binding, once there are any."""
        self._makers[binding] = make
        self._path.plans.clear()  # who answers which tool has changed

    def part(self, name: str) -> ToolEngine:
        """The part with that name, for methods that only its class has."""
        for binding in self._makers:
            self._engine_for(binding)
        found = {engine.name: engine for engine in self._answering_engines()}
        if name not in found:
            raise ConfigError(f"no engine here is called {name!r}; there are {', '.join(sorted(found)) or 'none'}")
        return found[name]

    def _engine_for(self, binding: type) -> ToolEngine | None:
        """Whoever was named for tools with that binding, made now if need be."""
        if binding in self._makers and binding not in self._made:
            with self._making:
                if binding not in self._made:
                    engine = self._made[binding] = self._makers[binding]()
                    self._take_in(engine)
                    self._keep_part(engine)
        return self._made.get(binding)

    def _answering_engines(self) -> list[ToolEngine]:
        return [self, *self._made.values()]

    def _take_in(self, engine: ToolEngine) -> None:
        """Tell an engine that calls are routed to it from here, and keep its secrets."""
        engine.joined(self)
        self._hide_secrets(engine.secrets)

    def _hide_secrets(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            self._path.redactor.add(secret)

    def _keep_part(self, part: T) -> T:
        """Have it closed with this engine."""
        if part not in self._parts:
            self._parts.append(part)
        return part

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """The function to call in place of `answer`, for a tool that needs only its arguments; else None."""
        return None

    def blocks(self, tool: Tool) -> bool:
        """True if answering that tool would block an event loop."""
        return self._answers_blocking

    def setup(
        self,
        session_id: str,
        *args: Any,
        initial_state: dict[str, Any] | None = None,
        fork_of: str | None = None,
        at: int | None = None,
        owner: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Open a session: empty, with the `get_session_state` of another, or as a fork.

        A fork shares the history it begins with, all of it or the first `at` entries: nothing is copied, and engines
        find what they kept behind the last of these. `owner`, if given, is needed again to find the session. Whatever
        else is given stays with the session, its forks and what is stored of it, so it must be JSON; engines find it in
        `invocation.setup`. Raises `SessionExistsError` (a ValueError) for an id that is taken, `UnknownEntryError` (a
        ValueError) for an `at` behind the end.
        """
        given = read_setup(args, kwargs)
        first = {} if fork_of is not None else self.first_states()
        if first:
            initial_state = {**first, **(initial_state or {})}
        session = self.sessions.open(
            session_id, owner=owner, initial_state=initial_state, fork_of=fork_of, at=at, setup=given
        )
        self._begin_own_sessions(session, fork_of, at)

    def _begin_own_sessions(self, session: Session, fork_of: str | None, at: int | None) -> None:
        """For an engine whose parts keep sessions of their own; one that raises undoes what was begun."""

    def first_states(self) -> dict[str, dict[str, Any]]:
        """Initial state of the engines in a session, by their names; `initial_state` replaces it."""
        return {}

    def execute(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,
        owner: str | None = None,
        context: Mapping[str, Any] = NO_CONTEXT,
    ) -> list[ToolResult]:
        """Run the calls in order and append each, with its result, to the session.

        Later calls see what earlier ones left. A failing call is a result with `error_info`, and never loses the
        others. `timeout` limits each call in place of the engine's own. Code that is being simulated executes
        nothing: its calls are simulated, too.
        """
        if self._only_executes_async:
            from toolyard.loop.home import home_loop

            options = given_options(timeout=timeout, owner=owner, context=context)
            return home_loop.run(self.aexecute(session_id, tool_calls, **options), twin="aexecute")
        mode: Mode = "execute" if current_simulation() is None else "simulate"
        session = self.sessions.find(session_id, owner)
        return run_batch(self._path, session, tool_calls, Batch(mode, timeout, context))

    def simulate(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,
        owner: str | None = None,
        context: Mapping[str, Any] = NO_CONTEXT,
    ) -> list[ToolResult]:
        """Answer the calls as `execute` would, and leave the session unchanged."""
        if self.overrides.asimulate and not self.overrides.simulate:
            from toolyard.loop.home import home_loop

            options = given_options(timeout=timeout, owner=owner, context=context)
            return home_loop.run(self.asimulate(session_id, tool_calls, **options), twin="asimulate")
        if self.overrides.answers_batches:
            options = given_options(timeout=timeout, owner=owner, context=context)
            refused = refuse_effects(self, tool_calls)
            with simulating():
                return fill_in(refused, self.execute(session_id, calls_left(tool_calls, refused), **options))
        session = self.sessions.find(session_id, owner)
        return run_batch(self._path, session, tool_calls, Batch("simulate", timeout, context))

    def teardown(self, session_id: str, *, owner: str | None = None) -> None:
        """End a session, if it exists."""
        self.sessions.drop(session_id, owner)
        self.ended(session_id, owner)

    ateardown = run_off_loop(teardown)

    async def asetup(
        self,
        session_id: str,
        *args: Any,
        initial_state: dict[str, Any] | None = None,
        fork_of: str | None = None,
        at: int | None = None,
        owner: str | None = None,
        **kwargs: Any,
    ) -> None:
        """`setup` for async code. Cancelled, it leaves no session behind."""
        options = given_options(initial_state=initial_state, fork_of=fork_of, at=at, owner=owner)
        await self.sessions.off_loop(
            lambda: self.setup(session_id, *args, **options, **kwargs),
            undo=lambda _: self.teardown(session_id, **given_options(owner=owner)),
        )

    async def aexecute(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for the whole
        owner: str | None = None,
        context: Mapping[str, Any] = NO_CONTEXT,
    ) -> list[ToolResult]:
        """`execute` for async code: async tools run on this loop, blocking ones on the engine's threads.

        Cancelled, it stops; the calls that were answered stay in the session, and the one that was under way is
        recorded as interrupted, its effect unknown.
        """
        if self.overrides.answers_batches and not self.overrides.aexecute:
            options = given_options(timeout=timeout, owner=owner, context=context)
            return await wrapped(self.threads.submit(lambda: self.execute(session_id, tool_calls, **options)))
        mode: Mode = "execute" if current_simulation() is None else "simulate"
        session = await self._afind(session_id, owner)
        return await arun_batch(self._path, session, tool_calls, Batch(mode, timeout, context, on_loop=True))

    async def asimulate(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for the whole
        owner: str | None = None,
        context: Mapping[str, Any] = NO_CONTEXT,
    ) -> list[ToolResult]:
        """`simulate` for async code."""
        options = given_options(timeout=timeout, owner=owner, context=context)
        if self.overrides.simulate and not self.overrides.asimulate:
            return await wrapped(self.threads.submit(lambda: self.simulate(session_id, tool_calls, **options)))
        if self.overrides.answers_batches:
            refused = refuse_effects(self, tool_calls)
            with simulating():
                return fill_in(refused, await self.aexecute(session_id, calls_left(tool_calls, refused), **options))
        session = await self._afind(session_id, owner)
        return await arun_batch(self._path, session, tool_calls, Batch("simulate", timeout, context, on_loop=True))

    async def arun(self, request: CallRequest) -> list[ToolResult]:
        """`aexecute` and `asimulate` with all options, for servers."""
        if request.mode == "execute" and current_simulation() is not None:
            request = replace(request, mode="simulate")
        if request.session_id is None:
            if not self._needs_sessions:
                if len(request.calls) == 1:
                    return await arun_request(self._path, Session.alone(request.owner, request.mode), request)
                session = Session(Key(request.owner or "", ""), History(), State())
                session.is_alone = True
                return await arun_request(self._path, session, request)
            session_id = f"alone-{uuid4().hex}"
            await self.asetup(session_id, owner=request.owner)
            self.sessions.find(session_id, request.owner).is_alone = True
            try:
                return await self.arun(replace(request, session_id=session_id))
            finally:
                await self.ateardown(session_id, owner=request.owner)
        if self.overrides.answers_batches:
            if request.replay:
                with suppress(UnknownSessionError):  # it may keep its own
                    (await self._afind(request.session_id, request.owner)).replays = True
            run = self.aexecute if request.mode == "execute" else self.asimulate
            options = given_options(
                timeout=request.timeout or request.at_most, owner=request.owner, context=request.context or None
            )
            snapshot = self.tool_registry.snapshot
            refused = refusals(snapshot, request)
            calls = calls_left(request.calls, refused)
            with nullcontext() if request.mode == "execute" else simulating(may_execute_all(snapshot, request)):
                return fill_in(refused, await run(request.session_id, calls, **options) if calls else ())
        session = await self._afind(request.session_id, request.owner)
        return await arun_request(self._path, session, request)

    def takes(self, tool: Tool) -> bool:
        """True if it can execute the tool, judging by its binding."""
        return True

    @property
    def _needs_sessions(self) -> bool:
        """True if it cannot answer a call in a session that was not set up."""
        return self.overrides.answers_batches

    def close(self) -> None:
        """Close the engine, its parts, threads, session store and tracing. In-memory sessions end."""
        for part in self._parts:
            part.close()
        self.threads.close()
        self._path.close()
        self.sessions.close()
        if self._tracer is not None:
            self._tracer.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        parts, self._parts = self._parts, []
        for part in parts:
            await part.aclose()
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, tools={len(self.tool_registry)})"

    async def _afind(self, session_id: str, owner: str | None) -> Session:
        if self.sessions.known(session_id, owner):
            return self.sessions.find(session_id, owner)
        return await self.sessions.off_loop(lambda: self.sessions.find(session_id, owner))
