"""`Budget`: how many calls may run; the `Ledger` counts them in a session, of a tool, or in the whole process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolyard.model.errors import Denied, UnknownToolError
from toolyard.model.names import ToolGlobs, glob_matcher
from toolyard.registry.bind import find
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
    """Limits the number of calls of the matching tools. Calls that were allowed count, even if they then fail.

    `per="session"` counts the matching tools together within a session, `per="tool"` each one for itself,
    `per="yard"` all of them in this process, whatever the session; a simulation counts there like any call.
    Calls without a session count together for the key they are made with, as in a session that this process keeps.
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
    """The budgets of one policy at work. Safe from many threads: whole-process counts change under a lock."""

    __slots__ = ("_lock", "_matchers", "_spent", "budgets", "by_owner", "counts_calls", "matching")

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self.budgets = tuple(budgets)
        self.counts_calls = any(budget.per != "yard" for budget in self.budgets)
        self._matchers = [glob_matcher(budget.tools) for budget in self.budgets]
        self.matching = lru_cache(_REMEMBERED)(self._find_matching)
        """The numbers of the budgets that a call of a tool draws on, by its name."""
        self._spent = [0] * len(self.budgets)
        self.by_owner: dict[str, dict[str, int]] = {}
        """Calls that were made without a session, by tool, for each owner."""
        self._lock = threading.Lock()

    def _find_matching(self, name: str) -> tuple[int, ...]:
        return tuple(number for number, matches in enumerate(self._matchers) if matches(name))

    def check(self, name: str, counts: Mapping[str, int]) -> None:
        """Raise `Denied` if one more call of this tool would pass a budget; nothing is counted."""
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
        """Calls of a session that a budget counts."""
        # Copied: another thread may add a name meanwhile.
        return sum(count for name, count in tuple(counts.items()) if number in self.matching(name))

    def spend(self, name: str, shared: dict[str, int] | None) -> None:
        """Count one call on the whole-process budgets: on every one it draws on, or `Denied` and on none.

        `shared` are counts that others change at the same time; it is counted there, too.
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
        """Take back a `spend`, of a call that was never begun."""
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
"""Of every policy that has none: no call is counted in it."""

_NEVER_RAN = frozenset({"tool.denied", "tool.not_found", "tool.invalid_args", "tool.no_engine"})


def count_calls(session: Session, snapshot: Snapshot) -> dict[str, int]:
    """How often each tool ran in the session; read off the history once, kept up from then on."""
    if session.counts is None:
        session.counts = {}
        for text in session.history:
            entry = read_entry(text)
            info = entry.tool_output.error_info
            if info is None or info.code not in _NEVER_RAN:
                name = _qualify(snapshot, entry.tool_call.name)
                session.counts[name] = session.counts.get(name, 0) + 1
    return session.counts


def _qualify(snapshot: Snapshot, name: str) -> str:
    """The name budgets know a tool by, whichever of its names was used; of a tool that is gone, what was written."""
    try:
        return find(snapshot, name)[0].tool.qualified_name
    except UnknownToolError:
        return name
