"""`CallPlan`: which steps a call of one tool by one engine needs, found out once. What is None or False is left out.

`CallPath` is what every call of an engine has in common: registry, sessions, policy and tracing. `Settings` are the
limits that an engine puts on its calls, and `Answerer` is an engine as the call path sees it.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from types import CoroutineType
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from toolyard.calls.approvals import Approvals
from toolyard.calls.batch import Scope
from toolyard.calls.faults import FAULTS_SCHEMA, FaultPlan
from toolyard.calls.invocation import Invocation
from toolyard.calls.policy import Policy
from toolyard.calls.tracer import Tracer
from toolyard.loop.threads import Threads
from toolyard.model.bindings import ScriptBinding
from toolyard.model.call import Mode
from toolyard.model.errors import UnknownToolError
from toolyard.model.names import ToolGlob, glob_matcher
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.function_call import enter_simulation, leave_simulation, simulating
from toolyard.registry.prepared import PreparedTool
from toolyard.registry.snapshot import Snapshot
from toolyard.schema.options import Text, check_fields
from toolyard.sessions.gate import Gate
from toolyard.sessions.history import entry_frame
from toolyard.sessions.records import open_records
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sql import steady_clock
from toolyard.words.redactor import Redactor

OutputCheck = Literal["off", "warn", "strict"]
Abandoned = Literal["hold", "release"]

MAX_RESULT_BYTES = 8 * 1024 * 1024
_BYTES_OF_VALUE = 32
"""What an answer of many values must be allowed for each of them."""
_THE_TOOL = "the tool itself"
SCHEMA_SIMULATOR = "schema simulator"
"""What answers simulated calls in place of functions and scripts, unless something else is named."""


def count_values(max_bytes: int) -> int:
    """How many values an answer may have that may take so many bytes of JSON."""
    # A value takes two bytes of text, but a hundred once it is read.
    return max(max_bytes, MAX_RESULT_BYTES) // _BYTES_OF_VALUE


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may take and what is done about it; checked at construction."""

    timeout: Annotated[float | None, Meta(gt=0, description="Deadline of a call in seconds; null for none.")] = None
    output_check: Annotated[
        OutputCheck, Meta(description="What to do with results that do not match the output schema.")
    ] = "warn"
    max_concurrent_calls: Annotated[
        int | None, Meta(ge=1, description="Concurrent calls of this engine; null for no limit.")
    ] = None
    max_concurrent_calls_per_tool: Annotated[
        int | Mapping[ToolGlob, Annotated[int, Meta(ge=1)]] | None,
        Meta(
            ge=1,
            description="Concurrent calls of one tool: one number for all tools, or a mapping of "
            "name globs to numbers.",
        ),
    ] = None
    max_result_bytes: Annotated[
        int, Meta(ge=1, description="Maximum bytes of a result, and one JSON value for every 32 of them.")
    ] = MAX_RESULT_BYTES
    retries: Annotated[int, Meta(ge=0, description="Number of retries, where a repeat is safe.")] = 0
    retry_delay: Annotated[float, Meta(ge=0, description="Seconds before the first retry.")] = 0.2
    threads: Annotated[int, Meta(ge=1, description="Number of threads for blocking tools.")] = 64
    abandoned: Annotated[
        Abandoned, Meta(description="Whether a call that missed its deadline keeps the session until it ends.")
    ] = "hold"
    namespaces: Annotated[
        Sequence[Text] | None, Meta(description="Namespaces whose tools the engine executes; null for all.")
    ] = None
    faults: Annotated[
        FaultPlan | None,
        Meta(
            description="Failures and delays to inject.",
            extra_json_schema={"anyOf": [FAULTS_SCHEMA, {"type": "null"}]},
            extra={"check": FaultPlan.read},
        ),
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def unlimited(self) -> bool:
        """True if a call needs neither to wait for others nor to be tried again, and none is made to fail."""
        bounded = self.max_concurrent_calls is not None or self.max_concurrent_calls_per_tool is not None
        return not bounded and not self.retries and self.faults is None


class Gates:
    """The gates that bound how many calls of an engine, and of each of its tools, run at once."""

    def __init__(self, settings: Settings) -> None:
        most = settings.max_concurrent_calls
        self._engine = None if most is None else Gate(most)
        per_tool = settings.max_concurrent_calls_per_tool
        patterns = {"*": per_tool} if isinstance(per_tool, int) else dict(per_tool or {})
        self._limits = [(glob_matcher([pattern]), limit) for pattern, limit in patterns.items()]
        self._tools: dict[str, Gate | None] = {}

    def of(self, name: str) -> tuple[Gate, ...]:
        """The gates a call of that tool passes, its own first: who waits for the engine blocks no sibling."""
        if name not in self._tools:
            limit = next((limit for matches, limit in self._limits if matches(name)), None)
            # Two threads may both come here; one gate must win.
            self._tools.setdefault(name, None if limit is None else Gate(limit))
        return tuple(gate for gate in (self._tools[name], self._engine) if gate is not None)


class Answerer(Protocol):
    """An engine that answers."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads

    @property
    def idempotent(self) -> bool:
        """True if a call with an id may safely be made twice."""

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine that gives it."""

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """The function to call in place of `answer`, for a tool that needs only its arguments; else None."""

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """Who answers when the tool is simulated for somebody who may also execute it, or may not.

        Itself, where it answers as it would in earnest and nothing is changed by that; raises `Denied` if nobody may.
        """

    def blocks(self, tool: Tool) -> bool:
        """True if `answer` does its work before it returns, so that an event loop must not call it."""


class Root(Protocol):
    """The engine that was called; it chooses who answers each tool."""

    settings: Settings
    threads: Threads

    def route(self, tool: Tool) -> Answerer:
        """The engine for a tool; raises `NoEngine` if there is none."""


class SimulatedAnswerer:
    """Answers for a simulation: what the code behind it calls is simulated too, and the result says who answered."""

    def __init__(self, routed: Answerer, tool: Tool, may_execute: bool) -> None:
        self._answerer = routed.simulator(tool, may_execute)
        self._may_execute = may_execute
        self.stands_in = self._answerer is not routed
        itself = _THE_TOOL if getattr(tool.binding, "simulates", False) else None
        self._maker = self._answerer.name if self.stands_in else itself
        self.name, self.settings = self._answerer.name, self._answerer.settings
        self.gates, self.threads = self._answerer.gates, self._answerer.threads
        self.idempotent = self._answerer.idempotent

    def foresees(self, tool: Tool) -> str | None:
        """Who this is, where its answer says what a call would do; None where it is made up, or may have effects."""
        if self.stands_in:
            return None if self.name == SCHEMA_SIMULATOR else f"{self.name} (simulate_with)"
        if tool.effects is Effects.READ:
            return f"{_THE_TOOL}, which only reads"
        if self._maker is not None:
            return self._maker
        return f"{self.name}, which will answer it" if getattr(self._answerer, "foreseeable", False) else None

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine that gives it."""
        invocation.simulated_by = self._maker
        return self._simulate(self._answerer.answer, invocation)

    def _simulate(self, work: Callable[[Any], Any], argument: Any) -> Any:
        # By hand: `simulating` would take as long as the rest of a quick call.
        token = enter_simulation(self._may_execute)
        try:
            value = work(argument)
        finally:
            leave_simulation(token)
        return self._await_answer(value) if type(value) is CoroutineType else value

    async def _await_answer(self, work: Awaitable[Any]) -> Any:
        with simulating(self._may_execute):
            return await work

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """That of who answers, where that is the tool itself, and nobody need be told who did."""
        function = self._answerer.function_for(prepared) if self._maker is None else None
        return None if function is None else partial(self._simulate, function)

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """Itself: it is one."""
        return self

    def blocks(self, tool: Tool) -> bool:
        """As the engine that answers."""
        return self._answerer.blocks(tool)


class CallPlan:
    """Made for a tool when it is first called in a mode; raises `NoEngine` or `Denied` if nobody may answer it."""

    def __init__(self, root: Root, prepared: PreparedTool, mode: Mode, may_execute: bool = True) -> None:
        routed = root.route(prepared.tool)
        for engine in (root, routed):
            _check_scope(engine, prepared.tool)
        self.tool: Tool = prepared.tool
        self.name = self.tool.qualified_name
        self.engine: Answerer = routed
        is_run = True
        if mode == "simulate":
            self.engine = simulated = SimulatedAnswerer(routed, self.tool, may_execute)
            is_run = not simulated.stands_in
        self.settings: Settings = self.engine.settings
        self.function: Callable[[Any], Any] | None = self.engine.function_for(prepared)
        self.is_async: bool = is_run and getattr(self.tool.binding, "is_async", False)
        self.blocks = self.engine.blocks(self.tool)
        self.faults: FaultPlan | None = routed.settings.faults or root.settings.faults
        """The plan of whoever would execute the call, also where another simulates it; else that of all of them."""
        self.is_limited = not self.settings.unlimited or self.faults is not None
        self.is_direct = self.function is not None and not self.is_limited
        """True: nobody but the function answers, and it leaves nothing in the invocation."""
        self.script_timeout = self.tool.binding.timeout if type(self.tool.binding) is ScriptBinding else None
        self.timeout = self.time_limit(self.settings.timeout)
        self.held = self.settings.abandoned == "hold"
        self.announces = self.tool.effects is not Effects.READ
        checked = prepared.output_parameters and self.settings.output_check != "off"
        self.accepts_output: Callable[[Any], bool] | None = prepared.output.judge_small if checked else None
        self.small_output = prepared.output.max_bytes if checked else 0
        """Bytes of JSON text; a longer answer is measured before it is judged."""
        self.max_result_bytes = self.settings.max_result_bytes
        self.entry_frame = entry_frame(self.name)

    def time_limit(self, timeout: float | None) -> float | None:
        """Seconds that a call may take, where its caller or its engine allows so many."""
        if self.script_timeout is not None:
            # A script says itself how long it may take; others may only shorten that.
            return self.script_timeout if timeout is None else min(timeout, self.script_timeout)
        return timeout


def _check_scope(engine: Root | Answerer, tool: Tool) -> None:
    """Refuse a tool of a namespace that the engine is not for: to its callers, there is none of that name."""
    scope = engine.settings.namespaces
    if scope is not None and tool.namespace not in scope:
        raise UnknownToolError(
            f"no tool of this engine is called {tool.qualified_name}",
            hint=f"it answers the namespaces {', '.join(scope) or '(none)'}",
        )


class CallPlans(dict[PreparedTool, CallPlan]):
    """The plans for the tools of one snapshot, in one mode."""

    __slots__ = ("may_execute", "mode", "restricted", "root", "snapshot")

    def __init__(self, root: Root, snapshot: Snapshot, mode: Mode, may_execute: bool = True) -> None:
        super().__init__()
        self.root, self.snapshot, self.mode, self.may_execute = root, snapshot, mode, may_execute
        self.restricted: CallPlans = CallPlans(root, snapshot, mode, False) if may_execute else self
        """Those for whoever may not execute what they call."""

    def add(self, prepared: PreparedTool) -> CallPlan:
        """Make the plan of a tool that is called for the first time."""
        plan = self[prepared] = CallPlan(self.root, prepared, self.mode, self.may_execute)
        return plan


class CurrentPlans(dict[tuple[Mode, Snapshot], CallPlans]):
    """Plans for the tools that there are now, made when they are first looked up; a batch keeps those it began with."""

    def __init__(self, root: Root) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, key: tuple[Mode, Snapshot]) -> CallPlans:
        mode, snapshot = key
        for stale in [other for other in list(self) if other[1] is not snapshot]:
            self.pop(stale, None)
        plans = self[key] = CallPlans(self._root, snapshot, mode)
        return plans


class ScopedPlans:
    """The plans of a simulation for somebody who may execute some of the tools."""

    def __init__(self, plans: CallPlans, scope: Scope) -> None:
        self.snapshot, self.restricted = plans.snapshot, plans.restricted
        self._plans = plans
        self._scope = scope

    def _plans_for(self, prepared: PreparedTool) -> CallPlans:
        return self._plans if self._scope.may("execute", prepared.tool) else self._plans.restricted

    def get(self, prepared: PreparedTool) -> CallPlan | None:
        """The plan of a tool that was called before."""
        return self._plans_for(prepared).get(prepared)

    def add(self, prepared: PreparedTool) -> CallPlan:
        """Make the plan of a tool that is called for the first time."""
        return self._plans_for(prepared).add(prepared)


_ASKED_AT_ONCE = 64


class CallPath:
    """What every call of an engine has in common; a part that has nothing to do is None."""

    def __init__(
        self,
        root: Root,
        registry: ToolRegistry,
        sessions: Sessions,
        *,
        policy: Policy | None = None,
        tracer: Tracer | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.root = root
        self.registry = registry
        self.sessions = sessions
        self.clock = sessions.clock
        self.policy: Policy | None = policy if policy is not None and not policy.trivial else None
        self.tracer: Tracer | None = tracer if tracer is not None and tracer.active else None
        self.redactor = redactor or Redactor()
        self.discreet = False
        """True: what a tool's own exception says goes to the log, and callers are told where to find it there."""
        # Threads of their own: people who think it over must not keep tools from running.
        self.approver_threads = Threads(_ASKED_AT_ONCE, "toolyard-approver")
        # One at a time: each of them shares the interpreter with the loop, which keeps half of it.
        self.threads = Threads(1, "toolyard-judging")
        """For arguments and answers that take long to judge."""
        self.counting = policy is not None and policy.counts_calls
        """True: sessions keep the numbers of calls that budgets need."""
        self.plans = CurrentPlans(root)
        self._approvals: Approvals | None = None
        self._opening = Lock()

    @property
    def approvals(self) -> Approvals:
        """Calls that wait for somebody's word; opened when they are first asked for.

        They are kept beside the sessions, and in memory where those have no store.
        """
        with self._opening:
            if self._approvals is None:
                store = self.sessions.store
                records = open_records(store, clock=steady_clock(store, dated=True))
                self._approvals = Approvals(records, self._find_definitions)
            return self._approvals

    def _find_definitions(self, name: str) -> set[str]:
        return {tool.definition_hash for tool in self.registry.snapshot.get(name)}

    def past_policy(self) -> CallPath:
        """The same path for a call on which the policy has had its say, and that nobody is told of."""
        path = copy.copy(self)
        path.policy = path.tracer = None
        return path

    def close(self) -> None:
        """Let go of threads."""
        self.approver_threads.close()
        self.threads.close()
        if self._approvals is not None:
            self._approvals.close()
