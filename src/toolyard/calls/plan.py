"""`CallPlan`: which steps a call of one tool by one engine needs, found out once. What is None or False is left out.

`CallPath` is what every call of an engine has in common: registry, sessions, policy and tracing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.calls.faults import FaultPlan
from toolyard.calls.invocation import Answerer, Root
from toolyard.calls.policy import Policy
from toolyard.calls.settings import Settings
from toolyard.calls.tracer import Tracer
from toolyard.loop.threads import Threads
from toolyard.model.bindings import ScriptBinding
from toolyard.model.call import Mode
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.prepared import PreparedTool
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.history import entry_frame
from toolyard.sessions.sessions import Sessions
from toolyard.words.redactor import Redactor


class CallPlan:
    """Made for a tool when it is first called in a mode; raises `NoEngine` or `Denied` if nobody may answer it."""

    __slots__ = (
        *(
            "accepts_output",
            "announces",
            "blocks",
            "engine",
            "faults",
            "entry_frame",
            "function",
            "held",
            "is_async",
            "is_limited",
        ),
        *("max_result_bytes", "name", "script_timeout", "settings", "timeout", "tool"),
    )

    def __init__(self, root: Root, prepared: PreparedTool, mode: Mode) -> None:
        routed = root.route(prepared.tool)
        self.tool: Tool = prepared.tool
        self.name = self.tool.qualified_name
        self.engine: Answerer = routed if mode == "execute" else routed.simulator(self.tool)
        self.settings: Settings = self.engine.settings
        self.function: Callable[[Any], Any] | None = self.engine.function_for(prepared)
        self.is_async: bool = getattr(self.tool.binding, "is_async", False)
        self.blocks = self.engine.blocks(self.tool)
        self.faults: FaultPlan | None = routed.settings.faults or root.settings.faults
        """The plan of whoever would execute the call, also where another simulates it; else that of all of them."""
        self.is_limited = not self.settings.unlimited or self.faults is not None
        self.script_timeout = self.tool.binding.timeout if type(self.tool.binding) is ScriptBinding else None
        self.timeout = self.time_limit(self.settings.timeout)
        self.held = self.settings.abandoned == "hold"
        self.announces = self.tool.effects is not Effects.READ
        checked = self.tool.output_parameters and self.settings.output_check != "off"
        self.accepts_output: Callable[[Any], bool] | None = prepared.output.is_valid if checked else None
        self.max_result_bytes = self.settings.max_result_bytes
        self.entry_frame = entry_frame(self.name)

    def time_limit(self, timeout: float | None) -> float | None:
        """Seconds that a call may take, where its caller or its engine allows so many."""
        if self.script_timeout is not None:
            # A script says itself how long it may take; others may only shorten that.
            return self.script_timeout if timeout is None else min(timeout, self.script_timeout)
        return timeout


class CallPlans(dict[PreparedTool, CallPlan]):
    """The plans for the tools of one snapshot, in one mode."""

    __slots__ = ("mode", "root", "snapshot")

    def __init__(self, root: Root, snapshot: Snapshot, mode: Mode) -> None:
        super().__init__()
        self.root, self.snapshot, self.mode = root, snapshot, mode

    def add(self, prepared: PreparedTool) -> CallPlan:
        """Make the plan of a tool that is called for the first time."""
        plan = self[prepared] = CallPlan(self.root, prepared, self.mode)
        return plan


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
        self.policy = policy if policy is not None and not policy.trivial else None
        self.asks = self.policy is not None and self.policy.asks
        self.tracer = tracer if tracer is not None and tracer.active else None
        self.redactor = redactor or Redactor()
        self.discreet = False
        """True: what a tool's own exception says goes to the log, and callers are told where to find it there."""
        # Threads of their own: people who think it over must not keep tools from running.
        self.approver_threads = Threads(_ASKED_AT_ONCE, "toolyard-approver")
        self.counting = policy is not None and policy.counts_calls
        """True: sessions keep the numbers of calls that budgets need."""
        self.plans: dict[Mode, CallPlans] = {}

    def forget_plans(self) -> None:
        """Begin anew: who answers which tool has changed."""
        self.plans = {}

    def close(self) -> None:
        """Let go of threads."""
        self.approver_threads.close()
