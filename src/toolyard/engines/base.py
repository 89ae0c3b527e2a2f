"""`ToolEngine`: the base class of all engines. A subclass overrides one method, `answer`.

    @register_tool_engine("mine")
    class MyEngine(ToolEngine):
        def answer(self, invocation: Invocation) -> Any:      # or async def
            return {"echo": invocation.arguments}

`answer` returns the value or raises; everything else (binding, policy, deadlines, history, tracing) is done
before and after it. Older subclasses that override `execute` instead are supported as well.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from threading import Lock
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from msgspec.structs import replace

from toolyard.calls.approvals import Approvals
from toolyard.calls.batch import Batch, CallRequest, Listener, list_refusals, may_execute_all
from toolyard.calls.call_path import (
    MAX_RESULT_BYTES,
    Abandoned,
    Answerer,
    CallPath,
    Gates,
    OutputCheck,
    Settings,
    find_idle,
)
from toolyard.calls.faults import FaultPlan
from toolyard.calls.flow import arun_batch, arun_request, run_batch
from toolyard.calls.invocation import Invocation
from toolyard.calls.journal import CallLogOptions, Journal
from toolyard.calls.policy import Policy
from toolyard.calls.sql_journal import open_journal
from toolyard.calls.tracer import Tracer
from toolyard.engines.engine_sessions import EngineSessions
from toolyard.engines.execute_override import (
    NO_CONTEXT,
    Overrides,
    OverridingEngine,
    drop_unset,
    find_overrides,
    keep_allowed,
    merge_refusals,
    refuse_effects,
)
from toolyard.loop.threads import Threads, await_future
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
from toolyard.sessions.state import EXECUTIONS, SETUP, State
from toolyard.sessions.store.base import Key
from toolyard.words.redactor import Redactor

_log = logging.getLogger(__name__)

T = TypeVar("T")

_KINDS: Mapping[str, type] = {
    "registry": ToolRegistry,
    "sessions": Sessions,
    "policy": Policy,
    "tracer": Tracer,
    "redactor": Redactor,
}


class ToolEngine(EngineSessions, Closing):
    """Executes calls in sessions. Every method has an async twin, such as `aexecute`.

    `execute` appends every call and its result to the session; `simulate` leaves the session unchanged. Both may be
    called from any number of threads and tasks: calls in one session take turns, in order of arrival.

    `timeout` is in seconds; None sets no limit. With `abandoned="hold"` a session stays locked while a call that
    overran its deadline is still running, so that two calls never run in it at once; with "release" the session
    continues without waiting for it. `namespaces` restricts the engine to tools of these namespaces. `faults` is a plan
    of failures to inject.
    """

    type_name: ClassVar[str] = "engine"
    option_structs: ClassVar[tuple[type, ...]] = (Settings,)
    """Structs that declare options which the constructors of several plugins take."""
    idempotent: bool = False
    """True if `answer` sends `invocation.idempotency_key` to a service that deduplicates retries by it."""
    executes_by_super: ClassVar[bool] = False
    """True if an overridden `execute` ends in `super().execute`, so that the policy is still applied."""
    reaches_out: bool = False
    """True if calls may have effects outside this process; see `EffectfulEngine`."""
    foreseeable: bool = False
    """True if `answer` is deterministic and changes nothing but `invocation.state`. It is then run in a copy of the
    session to show an approver what a held call would do."""
    journal: Journal | None = None
    """Log of the calls, or None."""
    overrides: Overrides = Overrides()
    """Which of the public methods a subclass overrides."""
    _answers_blocking: ClassVar[bool] = True
    _only_executes_async: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.overrides = find_overrides(cls, ToolEngine)
        cls._only_executes_async = cls.overrides.aexecute and not cls.overrides.execute
        cls._answers_blocking = not inspect.iscoroutinefunction(cls.answer)
        if "__init__" in cls.__dict__:
            cls.__init__ = _complete_init(cls.__init__)  # type: ignore[method-assign]

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
        """Names of the components passed explicitly. They would be unused in an engine that is part of another one."""
        self._begin_parts()
        self._check_policy(policy)
        self._path = CallPath(self, self.tool_registry, self.sessions, policy=policy, tracer=tracer, redactor=redactor)

    def _begin_parts(self) -> None:
        self._root: ToolEngine = self
        """The outermost engine that routes calls here; its registry and redactor apply."""
        self._parts: list[Any] = []
        """Components that are closed with this engine. Engines among them are notified when a session ends."""
        self._makers: dict[type, Callable[[], ToolEngine]] = {}
        self._made: dict[type, ToolEngine] = {}
        self._making = Lock()

    def _check_policy(self, policy: Policy | None) -> None:
        """Refuse a policy that the engine's own `execute` would bypass; warn of rules and limits without effect."""
        passes = self.overrides.answers_batches and not self.executes_by_super
        if passes and policy is not None and not policy.trivial:
            raise ConfigError(
                f"the execute of {type(self).__name__} answers calls past the policy; override answer(invocation) in "
                "its place, or say executes_by_super = True in the class if it ends in super().execute"
            )
        self.idle = find_idle(self.tool_registry, policy, self.settings, self.name)
        """Its rules and limits that matched no tool when it was created, in words."""
        for text in self.idle:
            _log.warning("%s", text)

    def keep_journal(self, options: CallLogOptions) -> Journal:
        """Log calls in the session store from now on."""
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
        """The namespaces whose tools it answers; None for all."""
        return self.settings.namespaces

    @property
    def discreet(self) -> bool:
        """If true, callers see only a log id in place of the message of a tool's own exception."""
        return self._path.discreet

    @discreet.setter
    def discreet(self, value: bool) -> None:
        self._path.discreet = value

    @property
    def policy(self) -> Policy | None:
        """The policy that may refuse calls; None if there is none."""
        return self._path.policy

    @property
    def approvals(self) -> Approvals:
        """The calls held by an `ask` rule: `list`, `get`, `approve`, `deny`, `wait_for`, and their async twins."""
        return self._path.approvals

    def route(self, tool: Tool) -> Answerer:
        """The engine that executes the tool and whose limits apply: this one, unless it routes."""
        return self

    def as_part(self) -> ToolEngine | OverridingEngine:
        """The engine as part of another one; if it overrides `execute`, in an adapter that passes single calls."""
        return OverridingEngine(self) if self.overrides.answers_batches else self

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """The engine that answers simulated calls of the tool; raises `Denied` if none can without side effects.

        By default this engine itself, whose session state is discarded afterwards. See `EffectfulEngine`.
        """
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """Configured values that errors and traces must not show."""
        return ()

    def joined(self, root: ToolEngine) -> None:
        """Called when another engine routes calls here."""
        self._root = root

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """Called when a session has ended, even one that this engine never saw."""
        for part in self._parts:
            if isinstance(part, (ToolEngine, OverridingEngine)):
                part.ended(session_id, owner)

    def let_answer(self, binding: type, make: Callable[[], ToolEngine]) -> None:
        """Use the engine returned by `make` for tools with that binding; `make` is called on first use."""
        self._makers[binding] = make
        self._path.plans.clear()  # they depend on which engine answers which tool

    def part(self, name: str) -> ToolEngine:
        """The inner engine with that name, for methods that only its class has."""
        for binding in self._makers:
            self._engine_for(binding)
        found = {engine.name: engine for engine in self._answering_engines()}
        if name not in found:
            raise ConfigError(f"no engine here is called {name!r}; there are {', '.join(sorted(found)) or 'none'}")
        return found[name]

    def _engine_for(self, binding: type) -> ToolEngine | None:
        """The engine registered by `let_answer` for that binding, created on first use; None if there is none."""
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
        """Make this engine the root of `engine`, and hide its secrets here as well."""
        engine.joined(self)
        self._hide_secrets(engine.secrets)

    def _hide_secrets(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            self._path.redactor.add(secret)

    def _keep_part(self, part: T) -> T:
        """Close the part together with this engine."""
        if part not in self._parts:
            self._parts.append(part)
        return part

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """A function that may be called in place of `answer` when the tool needs only its arguments; else None."""
        return None

    def blocks(self, tool: Tool) -> bool:
        """True if answering that tool would block an event loop."""
        return self._answers_blocking

    def execute(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,
        owner: str | None = None,
        context: Mapping[str, Any] = NO_CONTEXT,
        notify: Listener | None = None,
    ) -> list[ToolResult]:
        """Run the calls in order and append each, with its result, to the session.

        Later calls see the effects of earlier ones. A failing call gives a result with `error_info` and does not affect
        the others. `timeout` applies to each call and overrides the engine's own. `notify` receives the call and each
        `Progress` or `LogLine` of its tool at once, in any thread. Within code that is itself being simulated, calls
        are simulated, too.
        """
        if self._only_executes_async:
            from toolyard.loop.home import home_loop

            options = drop_unset(timeout=timeout, owner=owner, context=context, notify=notify)
            return home_loop.run(self.aexecute(session_id, tool_calls, **options), twin="aexecute")
        mode: Mode = "execute" if current_simulation() is None else "simulate"
        session = self.sessions.find(session_id, owner)
        return run_batch(self._path, session, tool_calls, Batch(mode, timeout, context, notify=notify))

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

            options = drop_unset(timeout=timeout, owner=owner, context=context)
            return home_loop.run(self.asimulate(session_id, tool_calls, **options), twin="asimulate")
        if self.overrides.answers_batches:
            options = drop_unset(timeout=timeout, owner=owner, context=context)
            refused = refuse_effects(self, tool_calls)
            with simulating():
                return merge_refusals(refused, self.execute(session_id, keep_allowed(tool_calls, refused), **options))
        session = self.sessions.find(session_id, owner)
        return run_batch(self._path, session, tool_calls, Batch("simulate", timeout, context))

    async def aexecute(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for the whole
        owner: str | None = None,
        context: Mapping[str, Any] = NO_CONTEXT,
        notify: Listener | None = None,
    ) -> list[ToolResult]:
        """`execute` for async code: async tools run on this loop, blocking ones on the engine's threads.

        If cancelled, completed calls stay in the session, and the one in progress is recorded as interrupted, effect
        unknown.
        """
        if self.overrides.answers_batches and not self.overrides.aexecute:
            options = drop_unset(timeout=timeout, owner=owner, context=context, notify=notify)
            return await await_future(self.threads.submit(lambda: self.execute(session_id, tool_calls, **options)))
        mode: Mode = "execute" if current_simulation() is None else "simulate"
        session = await self._afind(session_id, owner)
        return await arun_batch(
            self._path, session, tool_calls, Batch(mode, timeout, context, notify=notify, on_loop=True)
        )

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
        options = drop_unset(timeout=timeout, owner=owner, context=context)
        if self.overrides.simulate and not self.overrides.asimulate:
            return await await_future(self.threads.submit(lambda: self.simulate(session_id, tool_calls, **options)))
        if self.overrides.answers_batches:
            refused = refuse_effects(self, tool_calls)
            with simulating():
                results = await self.aexecute(session_id, keep_allowed(tool_calls, refused), **options)
                return merge_refusals(refused, results)
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
                with suppress(UnknownSessionError):  # the engine may keep its own sessions
                    (await self._afind(request.session_id, request.owner)).replays = True
            run = self.aexecute if request.mode == "execute" else self.asimulate
            options = drop_unset(
                timeout=request.timeout or request.at_most, owner=request.owner, context=request.context or None
            )
            snapshot = self.tool_registry.snapshot
            refused = list_refusals(snapshot, request)
            calls = keep_allowed(request.calls, refused)
            with nullcontext() if request.mode == "execute" else simulating(may_execute_all(snapshot, request)):
                return merge_refusals(refused, await run(request.session_id, calls, **options) if calls else ())
        session = await self._afind(request.session_id, request.owner)
        return await arun_request(self._path, session, request)

    def takes(self, tool: Tool) -> bool:
        """True if this engine can execute the tool, judging by its binding."""
        return True

    @property
    def _needs_sessions(self) -> bool:
        """True if it cannot answer calls outside of sessions created by `setup`."""
        return self.overrides.answers_batches

    def close(self) -> None:
        """Close the engine, its parts, threads, session store and tracer. In-memory sessions are lost."""
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


def _complete_init(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap a subclass's constructor to run the base class's after it if it did not, keeping the attributes set."""

    @functools.wraps(init)
    def complete(self: ToolEngine, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        if "_path" not in self.__dict__:
            given = dict(self.__dict__)
            ToolEngine.__init__(self)
            self.__dict__.update(given)

    return complete
