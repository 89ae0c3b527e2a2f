"""`CallPlan`: the steps that a call of one tool by one engine needs, determined once. None or False means: skip it."""

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
