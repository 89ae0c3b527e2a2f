"""`CallPlan`: which steps a call of one tool by one engine needs, found out once. What is None or False is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.calls.answerer import Answerer, Root, SimulatedAnswerer
from toolyard.calls.batch import Scope
from toolyard.calls.faults import FaultPlan
from toolyard.calls.settings import Settings
from toolyard.model.bindings import ScriptBinding
from toolyard.model.call import Mode
from toolyard.model.errors import UnknownToolError
from toolyard.model.tool import Effects, Tool
from toolyard.registry.prepared import PreparedTool
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.history import entry_frame


class CallPlan:
    """Made for a tool when it is first called in a mode; raises `NoEngine` or `Denied` if no engine may answer it."""

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
        """That of the engine that would execute the call, also where another simulates it; else that of the root."""
        self.is_limited = not self.settings.unlimited or self.faults is not None
        self.is_direct = self.function is not None and not self.is_limited
        """True: only the function answers, and it leaves nothing in the invocation."""
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
        """The plans for callers that may not execute what they call."""

    def add(self, prepared: PreparedTool) -> CallPlan:
        """Make the plan of a tool that is called for the first time."""
        plan = self[prepared] = CallPlan(self.root, prepared, self.mode, self.may_execute)
        return plan


class ScopedPlans:
    """The plans of a simulation for a caller that may execute some of the tools."""

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
