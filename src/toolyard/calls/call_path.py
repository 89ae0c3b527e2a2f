"""`CallPath`: what all calls of an engine share: registry, sessions, policy, tracer and current plans."""

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
