"""What all calls of an engine share.

`Settings` are its limits, and `Gates` hold concurrent calls to them. `Answerer` is an engine as the call path sees it;
`SimulatedAnswerer` replaces it for simulated calls. A `CallPlan` is the steps that a call of one tool needs, determined
once. `CallPath` has the rest: registry, sessions, policy, tracer and current plans.
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
from toolyard.model.json_schema import BYTES_OF_VALUE
from toolyard.model.names import ToolGlob, describe_idle, glob_matcher
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


def count_values(max_bytes: int) -> int:
    """Maximum number of JSON values in a result limited to `max_bytes`."""
    # A value may need only two bytes of text, but about a hundred once decoded.
    return max(max_bytes, MAX_RESULT_BYTES) // BYTES_OF_VALUE


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an engine's calls, and how they are enforced; validated on construction."""

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
            description="Failures, delays and wrong results to inject.",
            extra_json_schema={"anyOf": [FAULTS_SCHEMA, {"type": "null"}]},
            extra={"check": FaultPlan.read},
        ),
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def unlimited(self) -> bool:
        """True if there are no gates, retries or injected faults."""
        bounded = self.max_concurrent_calls is not None or self.max_concurrent_calls_per_tool is not None
        return not bounded and not self.retries and self.faults is None


def find_idle(registry: ToolRegistry, policy: Policy | None, settings: Settings, engine: str) -> list[str]:
    """Rules and limits without effect, since a pattern matches no tool of the registry: usually it is misspelt.

    None while the registry is empty: tools will be added, or their failure is reported elsewhere.
    """
    names = registry.snapshot.names
    if not names:
        return []
    found: list[str] = []
    rules = () if policy is None else policy.rules
    tags = {tag for tool in registry for tag in tool.tags} if any(rule.tags for rule in rules) else set()
    for number, rule in enumerate(rules):
        found += describe_idle(f"policy.rules[{number}]", rule.tools, names)
        found += describe_idle(f"policy.rules[{number}].tags", rule.tags, tags, exact=True)
    for number, budget in enumerate(() if policy is None else policy.budgets):
        found += describe_idle(f"policy.budgets[{number}]", budget.tools, names)
    for number, fault in enumerate(() if settings.faults is None else settings.faults.rules):
        found += describe_idle(f"engine {engine}: faults.rules[{number}].tool", fault.tool, names)
    if isinstance(per_tool := settings.max_concurrent_calls_per_tool, Mapping):
        found += describe_idle(f"engine {engine}: max_concurrent_calls_per_tool", per_tool, names)
    if settings.namespaces:
        found += describe_idle(f"engine {engine}: namespaces", settings.namespaces, registry.namespaces(), exact=True)
    return found


class Gates:
    """Gates that limit the concurrent calls of an engine and of each of its tools."""

    def __init__(self, settings: Settings) -> None:
        most = settings.max_concurrent_calls
        self._engine = None if most is None else Gate(most)
        per_tool = settings.max_concurrent_calls_per_tool
        patterns = {"*": per_tool} if isinstance(per_tool, int) else dict(per_tool or {})
        self._limits = [(glob_matcher([pattern]), limit) for pattern, limit in patterns.items()]
        self._tools: dict[str, Gate | None] = {}

    def of(self, name: str) -> tuple[Gate, ...]:
        """The gates for calls of a tool; its own comes first, so calls that wait for it take no place of the engine."""
        if name not in self._tools:
            limit = next((limit for matches, limit in self._limits if matches(name)), None)
            # `setdefault`: of two threads that get here at once, both must use the same gate.
            self._tools.setdefault(name, None if limit is None else Gate(limit))
        return tuple(gate for gate in (self._tools[name], self._engine) if gate is not None)


_THE_TOOL = "the tool itself"
SCHEMA_SIMULATOR = "schema simulator"
"""Name of the engine that by default answers simulated calls of functions and scripts."""


class Answerer(Protocol):
    """An engine that answers calls."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads

    @property
    def idempotent(self) -> bool:
        """True if a call with an id may safely be repeated."""

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine for it."""

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """The function to call instead of `answer` for a tool that needs only its arguments; else None."""

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """The engine for simulated calls of the tool; `may_execute`: the caller may also execute it.

        Returns itself if its normal answer changes nothing; raises `Denied` if no engine may answer.
        """

    def blocks(self, tool: Tool) -> bool:
        """True if `answer` blocks, so that it must not be called on an event loop."""


class Root(Protocol):
    """The engine that was called; it chooses the engine for each tool."""

    settings: Settings
    threads: Threads

    def route(self, tool: Tool) -> Answerer:
        """The engine for a tool; raises `NoEngine` if there is none."""


class SimulatedAnswerer:
    """Answers simulated calls. Calls made by the tool's code are simulated, too, and the result names what answered."""

    def __init__(self, routed: Answerer, tool: Tool, may_execute: bool) -> None:
        self._answerer = routed.simulator(tool, may_execute)
        self._may_execute = may_execute
        self.stands_in = self._answerer is not routed
        itself = _THE_TOOL if getattr(tool.binding, "simulates", False) else None
        self._maker = self._answerer.name if self.stands_in else itself
        self.name, self.settings = self._answerer.name, self._answerer.settings
        self.gates, self.threads = self._answerer.gates, self._answerer.threads
        self.idempotent = self._answerer.idempotent

    def name_predictor(self, tool: Tool) -> str | None:
        """What makes the preview, in words; None if the answer would be invented or might have effects."""
        if self.stands_in:
            return None if self.name == SCHEMA_SIMULATOR else f"{self.name} (simulate_with)"
        if tool.effects is Effects.READ:
            return f"{_THE_TOOL}, which only reads"
        if self._maker is not None:
            return self._maker
        if not getattr(self._answerer, "foreseeable", False):
            return None
        # Nobody named an engine that answers because there is no other, so its name says nothing.
        name = f"the {SCHEMA_SIMULATOR}" if getattr(self._answerer, "is_last_resort", False) else self.name
        return f"{name}, which will answer it"

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine for it."""
        invocation.simulated_by = self._maker
        return self._simulate(self._answerer.answer, invocation)

    def _simulate(self, work: Callable[[Any], Any], argument: Any) -> Any:
        # Without the context manager `simulating`, which would take as long as the rest of a quick call.
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
        """The answerer's function, if the result need not name what answered; else None."""
        function = self._answerer.function_for(prepared) if self._maker is None else None
        return None if function is None else partial(self._simulate, function)

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """Itself."""
        return self

    def blocks(self, tool: Tool) -> bool:
        """As for the engine that answers."""
        return self._answerer.blocks(tool)


class CallPlan:
    """Created on the first call of a tool in a mode; raises `NoEngine` or `Denied` if no engine may answer it."""

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
        """From the engine that would execute the call, even if another one simulates it; else from the root."""
        self.is_limited = not self.settings.unlimited or self.faults is not None
        self.is_direct = self.function is not None and not self.is_limited
        """True if only the function runs, so that the invocation gets no state, metadata or secrets."""
        self.script_timeout = self.tool.binding.timeout if type(self.tool.binding) is ScriptBinding else None
        self.timeout = self.time_limit(self.settings.timeout)
        self.held = self.settings.abandoned == "hold"
        self.announces = self.tool.effects is not Effects.READ
        checked = prepared.output_parameters and self.settings.output_check != "off"
        self.accepts_output: Callable[[Any], bool] | None = prepared.output.judge_small if checked else None
        self.small_output = prepared.output.max_bytes if checked else 0
        """Bytes of JSON text; longer results are not validated with the quick `accepts_output`."""
        self.max_result_bytes = self.settings.max_result_bytes
        self.entry_frame = entry_frame(self.name)

    def time_limit(self, timeout: float | None) -> float | None:
        """The timeout of a call in seconds, given that of its caller or engine."""
        if self.script_timeout is not None:
            # A script declares its own timeout, which callers and engines may only shorten.
            return self.script_timeout if timeout is None else min(timeout, self.script_timeout)
        return timeout


def _check_scope(engine: Root | Answerer, tool: Tool) -> None:
    """Refuse a tool outside of the engine's namespaces; for its callers, such a tool does not exist."""
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
        """The plans for callers that may not execute the tools."""

    def add(self, prepared: PreparedTool) -> CallPlan:
        """Create the plan of a tool on its first call."""
        plan = self[prepared] = CallPlan(self.root, prepared, self.mode, self.may_execute)
        return plan


class ScopedPlans:
    """The plans for a simulation by a caller that may execute only some of the tools."""

    def __init__(self, plans: CallPlans, scope: Scope) -> None:
        self.snapshot, self.restricted = plans.snapshot, plans.restricted
        self._plans = plans
        self._scope = scope

    def _plans_for(self, prepared: PreparedTool) -> CallPlans:
        return self._plans if self._scope.can_call("execute", prepared.tool) else self._plans.restricted

    def get(self, prepared: PreparedTool) -> CallPlan | None:
        """The plan of a tool; None before its first call."""
        return self._plans_for(prepared).get(prepared)

    def add(self, prepared: PreparedTool) -> CallPlan:
        """Create the plan of a tool on its first call."""
        return self._plans_for(prepared).add(prepared)


_ASKED_AT_ONCE = 64
"""Maximum concurrent questions to approvers."""


class CurrentPlans(dict[tuple[Mode, Snapshot], CallPlans]):
    """Plans for the current snapshot, created on first use. Older ones are dropped; a running batch keeps its own."""

    def __init__(self, root: Root) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, key: tuple[Mode, Snapshot]) -> CallPlans:
        mode, snapshot = key
        for stale in [other for other in list(self) if other[1] is not snapshot]:
            self.pop(stale, None)
        plans = self[key] = CallPlans(self._root, snapshot, mode)
        return plans


class CallPath:
    """What all calls of an engine share. A policy or tracer that would do nothing is None."""

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
        """True: messages of tools' own exceptions are only logged, and callers get the id of the log line."""
        # Separate threads, so that waiting for people does not keep tools from running.
        self.approver_threads = Threads(_ASKED_AT_ONCE, "toolyard-approver")
        # One at a time, so that the event loop competes with only one busy thread for the interpreter.
        self.threads = Threads(1, "toolyard-judging")
        """For work too slow for an event loop, such as validating large arguments and results."""
        self.counting = policy is not None and policy.counts_calls
        """True if sessions must count calls for budgets."""
        self.plans = CurrentPlans(root)
        self._approvals: Approvals | None = None
        self._opening = Lock()

    @property
    def approvals(self) -> Approvals:
        """The approvals, opened on first use; stored next to the sessions, or in memory if there is no store."""
        with self._opening:
            if self._approvals is None:
                store = self.sessions.store
                records = open_records(store, clock=steady_clock(store, dated=True))
                self._approvals = Approvals(records, self._find_definitions)
            return self._approvals

    def _find_definitions(self, name: str) -> set[str]:
        return {tool.definition_hash for tool in self.registry.snapshot.get(name)}

    def past_policy(self) -> CallPath:
        """A copy of this path without policy and tracer, for previews."""
        path = copy.copy(self)
        path.policy = path.tracer = None
        return path

    def close(self) -> None:
        """Close threads and approvals."""
        self.approver_threads.close()
        self.threads.close()
        if self._approvals is not None:
            self._approvals.close()
