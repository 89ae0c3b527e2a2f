"""`CallPath`: what every call of an engine has in common: registry, sessions, policy, tracing, current plans."""

from __future__ import annotations

import copy
from threading import Lock

from toolyard.calls.answerer import Root
from toolyard.calls.approvals import Approvals
from toolyard.calls.plan import CallPlans
from toolyard.calls.policy import Policy
from toolyard.calls.tracer import Tracer
from toolyard.loop.threads import Threads
from toolyard.model.call import Mode
from toolyard.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.records import open_records
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sql import steady_clock
from toolyard.words.redactor import Redactor

_ASKED_AT_ONCE = 64
"""Approvers that are asked at the same time."""


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
        """True: what a tool's own exception says goes to the log, and callers get its id there."""
        # Separate threads: people who think it over must not keep tools from running.
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
        """Calls that wait for approval; opened when they are first asked for.

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
        """The same path for a call that the policy has passed, and that is not traced."""
        path = copy.copy(self)
        path.policy = path.tracer = None
        return path

    def close(self) -> None:
        """Let go of threads."""
        self.approver_threads.close()
        self.threads.close()
        if self._approvals is not None:
            self._approvals.close()
