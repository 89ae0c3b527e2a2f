"""`FaultPlan`: decides, for each call, whether it fails and how; the same calls for the same seed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from toolyard.calls.events import Mode
from toolyard.calls.faults.counting import MatchCounter
from toolyard.calls.faults.rules import ALTERING, Fault, FaultOptions, FaultRule, FaultType
from toolyard.calls.globs import glob_matcher
from toolyard.schema.options import Text, option_type, read_options, read_value
from toolyard.sessions.session import Session

_WHOLE = 2**64
_PICK = -1
_DRAW = -2
_CATEGORY_MESSAGE = "Tool execution failed"


class FaultPlan:
    """Rules that are tried on every call, each by itself; of those that hold, one is chosen.

    What happens depends on the plan's seed, the session's id and the number of the call in the session, and on
    nothing else: a run can be repeated, and `simulate` fails as `execute` would. `every` and `after` count the calls
    of a session that the rule's globs match, refused ones included. Calls that belong to no session are numbered in
    the order in which they come.
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]] = (), *, seed: int = 0) -> None:
        self._take(read_options(FaultOptions, {"rules": rules, "seed": seed}, ""))

    @classmethod
    def read(cls, value: Any, where: str) -> FaultPlan | None:
        """A plan as a config has it; one that was made already, or None, is handed through."""
        if value is None or isinstance(value, FaultPlan):
            return value
        plan = cls()
        plan._take(read_options(FaultOptions, value, where))
        return plan

    def _take(self, options: FaultOptions) -> None:
        rules: tuple[FaultRule, ...] = options.rules
        self.seed = options.seed
        self.rules = rules
        self._matchers = tuple(glob_matcher(rule.tool) for rule in rules)
        # A rule for every tool counts every call, and the history knows how many there are.
        self._counted = [number for number, rule in enumerate(rules) if rule.counts and "*" not in rule.tool]
        self._counter = MatchCounter([self._matchers[number] for number in self._counted])
        self._lock = threading.Lock()
        self._alone = 0
        self._alone_counts = [0] * len(self._counted)

    def __repr__(self) -> str:
        return f"FaultPlan({len(self.rules)} rules, seed={self.seed})"

    def decide(self, name: str, session: Session, mode: Mode) -> Fault | None:
        """What befalls a call of that tool, made now in that session; for whoever has its turn."""
        matching = [number for number, matches in enumerate(self._matchers) if matches(name)]
        if not matching:
            return None
        session_id = session.key.session_id
        if session_id:
            index, counts = len(session.history), self._counter.before(session) if self._counted else ()
        else:
            index, counts = self._number_alone(name, mode)
        before = dict(zip(self._counted, counts, strict=True))
        fired = [
            number
            for number in matching
            if self._holds(number, before.get(number, index)) and self._falls(number, session_id, index)
        ]
        if not fired:
            return None
        number = fired[self._drawn(session_id, index, _PICK) % len(fired)] if len(fired) > 1 else fired[0]
        rule = self.rules[number]
        return Fault(rule.type, number, rule, self._drawn(session_id, index, _DRAW))

    def _holds(self, number: int, before: int) -> bool:
        rule = self.rules[number]
        return before >= rule.after and (before - rule.after + 1) % rule.every == 0

    def _falls(self, number: int, session_id: str, index: int) -> bool:
        probability = self.rules[number].probability
        if probability >= 1.0:
            return True
        return probability > 0.0 and self._drawn(session_id, index, number) < probability * _WHOLE

    def _drawn(self, session_id: str, index: int, what: int) -> int:
        text = f"{self.seed}\n{index}\n{what}\n{session_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")

    def _number_alone(self, name: str, mode: Mode) -> tuple[int, tuple[int, ...]]:
        """Only the plan remembers calls without a session; one that is simulated is not counted."""
        with self._lock:
            index, counts = self._alone, tuple(self._alone_counts)
            if mode == "execute":
                self._alone += 1
                for place, number in enumerate(self._counted):
                    if self._matchers[number](name):
                        self._alone_counts[place] += 1
            return index, counts


class _Category(msgspec.Struct, frozen=True):
    type: FaultType
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    message: Text | None = None


def from_error_categories(value: Any, where: str = "error_categories", *, seed: int = 0) -> FaultPlan:
    """A plan of `{type, probability, message}`, each of which comes in place of the call."""
    rules = []
    for category in read_value(option_type(tuple[_Category, ...]), value, where):
        rule = FaultRule(type=category.type, probability=category.probability, message=category.message)
        if rule.message is None and rule.type not in ALTERING:
            rule = replace(rule, message=_CATEGORY_MESSAGE)
        rules.append(rule)
    plan = FaultPlan()
    plan._take(FaultOptions(rules=tuple(rules), seed=seed))
    return plan
