"""`Budget`: at most so many calls, of some tools, within a session or in the whole process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolyard.calls.globs import ToolGlobs, glob_matcher
from toolyard.model.errors import Denied
from toolyard.schema.options import check_fields

Per = Literal["session", "tool", "yard"]

_REMEMBERED = 4096
_WITHIN = {"session": "in one session", "tool": "of one tool in one session", "yard": "in this process"}


class Budget(msgspec.Struct, frozen=True):
    """At most so many calls of the matching tools: those that were let through, whether or not they then failed.

    `per="session"` counts the matching tools together within a session, `per="tool"` each one for itself,
    `per="yard"` all of them in this process, whatever the session; a simulation counts there like any call.
    """

    max_calls: Annotated[int, Meta(ge=0, description="Calls that may run; 0 allows none.")]
    tools: Annotated[ToolGlobs, Meta(description="Which tools count; all of them if not given.")] = ("*",)
    per: Annotated[
        Per,
        Meta(
            description="session: the matching tools together, in each session; tool: each matching tool for "
            "itself, in each session; yard: the matching tools together, in the whole process."
        ),
    ] = "session"

    def __post_init__(self) -> None:
        check_fields(self, "Budget")


class Ledger:
    """The budgets of one policy at work. Safe from many threads: whole-process counts change under a lock."""

    __slots__ = ("_drawing", "_lock", "_matched", "_matchers", "_spent", "budgets", "counts_calls")

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self.budgets = tuple(budgets)
        self.counts_calls = any(budget.per != "yard" for budget in self.budgets)
        self._matchers = [glob_matcher(budget.tools) for budget in self.budgets]
        self._matched: dict[str, tuple[int, ...]] = {}
        self._drawing: list[dict[str, bool]] = [{} for _ in self.budgets]
        self._spent = [0] * len(self.budgets)
        self._lock = threading.Lock()

    def matching(self, name: str) -> tuple[int, ...]:
        """The numbers of the budgets that a call of this tool draws on."""
        known = self._matched.get(name)
        if known is None:
            known = tuple(number for number, matches in enumerate(self._matchers) if matches(name))
            if len(self._matched) >= _REMEMBERED:
                self._matched.clear()
            self._matched[name] = known
        return known

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
        """Calls of a session that a budget counts. If all of them together are too few to matter, their number."""
        total = sum(tuple(counts.values()))
        if total < self.budgets[number].max_calls or "*" in self.budgets[number].tools:
            return total
        # Copied, names first: a name that another thread adds in between comes last, and is left out.
        names, numbers = tuple(counts), tuple(counts.values())
        known = self._drawing[number]
        try:
            return sum(compress(numbers, map(known.__getitem__, names)))
        except KeyError:
            kept = known if len(known) < _REMEMBERED else {}
            known = {**kept, **{name: number in self.matching(name) for name in names}}
            # Swapped, not filled: another thread may be reading the old one.
            self._drawing[number] = known
            return sum(compress(numbers, map(known.__getitem__, names)))

    def spend(self, name: str) -> None:
        """Count one call on the whole-process budgets: on every one it draws on, or `Denied` and on none."""
        with self._lock:
            drawn = [number for number in self.matching(name) if self.budgets[number].per == "yard"]
            for number in drawn:
                if self._spent[number] >= self.budgets[number].max_calls:
                    raise self._exceeded(name, number)
            for number in drawn:
                self._spent[number] += 1

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
