"""`Budget`: limits how many calls may run; `Ledger` counts them by session, by tool, or in the whole process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolyard.model.errors import Denied, UnknownToolError
from toolyard.model.names import ToolGlobs, glob_matcher
from toolyard.registry.bind import find_overloads
from toolyard.registry.snapshot import Snapshot
from toolyard.schema.options import check_fields
from toolyard.sessions.history import read_entry
from toolyard.sessions.session import Session

_REMEMBERED = 4096
Per = Literal["session", "tool", "yard"]


_WITHIN = {
    "session": "in one session, or by one key outside of sessions",
    "tool": "of one tool in one session, or by one key outside of sessions",
    "yard": "in this process",
}


class Budget(msgspec.Struct, frozen=True):
    """Limits the number of calls of the matching tools. Allowed calls count even if they then fail.

    `per="session"` counts calls of all matching tools together in each session, `per="tool"` each tool separately in
    each session, and `per="yard"` all calls in this process, including simulations.
    Calls without a session are counted per key, in this process.
    """

    max_calls: Annotated[int, Meta(ge=0, description="Number of calls that may run; 0 allows none.")]
    tools: Annotated[ToolGlobs, Meta(description="Tools that count, as globs; by default all.")] = ("*",)
    per: Annotated[
        Per,
        Meta(
            description="session: all matching tools together, per session. tool: each matching tool "
            "separately, per session. yard: all matching tools, in the whole process. Calls "
            "without a session are counted per key."
        ),
    ] = "session"

    def __post_init__(self) -> None:
        check_fields(self, "Budget")


class Ledger:
    """Counts calls against the budgets of one policy. Thread-safe: shared counts change under a lock."""

    __slots__ = ("_lock", "_matchers", "_spent", "budgets", "by_owner", "counts_calls", "matching")

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self.budgets = tuple(budgets)
        self.counts_calls = any(budget.per != "yard" for budget in self.budgets)
        self._matchers = [glob_matcher(budget.tools) for budget in self.budgets]
        self.matching = lru_cache(_REMEMBERED)(self._find_matching)
        """Maps the qualified name of a tool to the indexes of its budgets."""
        self._spent = [0] * len(self.budgets)
        self.by_owner: dict[str, dict[str, int]] = {}
        """Counts of calls without a session: by owner, then by tool."""
        self._lock = threading.Lock()

    def _find_matching(self, name: str) -> tuple[int, ...]:
        return tuple(number for number, matches in enumerate(self._matchers) if matches(name))

    def check(self, name: str, counts: Mapping[str, int]) -> None:
        """Raise `Denied` if one more call of this tool would exceed a budget. Counts nothing."""
        for number in self.matching(name):
            budget = self.budgets[number]
            if budget.per == "tool":
                used = counts.get(name, 0)
            elif budget.per == "session":
                used = self._used(number, counts)
            else:
                used = self._spent[number]
            if used >= budget.max_calls:
                raise self._exceeded(name, number)

    def _used(self, number: int, counts: Mapping[str, int]) -> int:
        """Number of calls in `counts` that a budget applies to."""
        # Copy first, since another thread may add a name.
        return sum(count for name, count in tuple(counts.items()) if number in self.matching(name))

    def spend(self, name: str, shared: dict[str, int] | None) -> None:
        """Count one call against all its whole-process budgets, or raise `Denied` and count it against none.

        `shared` are the owner's counts of calls without a session, checked and increased under the same lock.
        """
        with self._lock:
            if shared is not None:
                self.check(name, shared)
            drawn = [number for number in self.matching(name) if self.budgets[number].per == "yard"]
            for number in drawn:
                if self._spent[number] >= self.budgets[number].max_calls:
                    raise self._exceeded(name, number)
            for number in drawn:
                self._spent[number] += 1
            if shared is not None:
                shared[name] = shared.get(name, 0) + 1

    def refund(self, name: str, shared: dict[str, int] | None) -> None:
        """Undo `spend` for a call that never began."""
        with self._lock:
            for number in self.matching(name):
                self._spent[number] -= self.budgets[number].per == "yard"
            if shared is not None:
                shared[name] -= 1

    def _exceeded(self, name: str, number: int) -> Denied:
        budget = self.budgets[number]
        tools = list(budget.tools)
        return Denied(
            f"{name} has no calls left: policy.budgets[{number}] allows {budget.max_calls} calls of "
            f"{', '.join(tools)} {_WITHIN[budget.per]}",
            hint="go on without this tool, or raise max_calls of that budget"
            + ("" if budget.per == "yard" else "; a new session starts from zero"),
            details={"budget": {"number": number, "max_calls": budget.max_calls, "tools": tools, "per": budget.per}},
        )


NO_BUDGETS = Ledger(())
"""The shared ledger of policies without budgets; it counts nothing."""

_NEVER_RAN = frozenset({"tool.denied", "tool.not_found", "tool.invalid_args", "tool.no_engine"})


def count_calls(session: Session, snapshot: Snapshot) -> dict[str, int]:
    """Number of calls of each tool in the session: counted from the history once, then updated with each commit."""
    if session.counts is None:
        session.counts = {}
        for text in session.history:
            entry = read_entry(text)
            info = entry.tool_output.error_info
            if info is None or info.code not in _NEVER_RAN:
                name = entry.tool_call.name
                with suppress(UnknownToolError):  # it is counted by the given name if the tool no longer exists
                    name = find_overloads(snapshot, name)[0].tool.qualified_name
                session.counts[name] = session.counts.get(name, 0) + 1
    return session.counts
