"""`CallPath`: registry, sessions, policy and tracing of one application, as the flow of its calls meets them."""

from __future__ import annotations

from toolyard.calls.answerer import Root
from toolyard.calls.events import Mode
from toolyard.calls.plan import CallPlans
from toolyard.calls.policy import Policy
from toolyard.calls.recorder import Recorder
from toolyard.calls.tracing import Tracer
from toolyard.loop.threads import Threads
from toolyard.registry import ToolRegistry
from toolyard.sessions.sessions import Sessions
from toolyard.words.redactor import Redactor

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
        self.recorder = Recorder(sessions, counting=policy is not None and policy.counts_calls)
        self._plans: dict[Mode, CallPlans] = {}

    def plans(self, mode: Mode) -> CallPlans:
        """Plans for the tools that there are now; a batch keeps those it began with."""
        plans, snapshot = self._plans.get(mode), self.registry.snapshot
        if plans is None or plans.snapshot is not snapshot:
            plans = self._plans[mode] = CallPlans(self.root, snapshot, mode)
        return plans

    def forget_plans(self) -> None:
        """Begin anew: who answers which tool has changed."""
        self._plans = {}

    def close(self) -> None:
        """Let go of threads."""
        self.approver_threads.close()
