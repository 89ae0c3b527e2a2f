"""`FaultPlan`: decides for each call whether a fault is injected and which; reproducible with the same seed.

Any engine accepts a plan as data, which is validated as strictly as all config:
`faults: {seed: 7, rules: [{type: network_error, tool: "weather::*", probability: 0.05}]}`.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from toolyard.model.call import Mode
from toolyard.model.errors import ConfigError
from toolyard.model.names import ToolGlobs, glob_matcher
from toolyard.schema.options import (
    ConfigOption,
    Text,
    option_type,
    options_of,
    read_given,
    read_option,
    read_options,
    read_value,
)
from toolyard.schema.options_schema import option_schema, options_schema
from toolyard.sessions.session import Session

FaultType = Literal[
    "network_error",
    "unparseable_result",
    "schema_violation",
    "rate_limit",
    "timeout",
    "auth",
    "not_found",
    "partial_result",
    "stale_read",
    "latency",
]
TYPES: tuple[str, ...] = get_args(FaultType)

ALTERING = frozenset({"unparseable_result", "partial_result", "stale_read"})
"""Types that replace the tool's answer with another value."""
_LATE = frozenset({"unparseable_result", "schema_violation"})
"""Types for which `after_call` is true by default."""
_ERROR = ("message", "seconds", "retry_after")
_ALWAYS = ("type", "tool", "probability", "every", "after")
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("network_error", "timeout", "schema_violation"), (*_ERROR, "after_call")),
    **dict.fromkeys(("rate_limit", "auth", "not_found"), _ERROR),
    "unparseable_result": ("message", "seconds", "after_call"),
    **dict.fromkeys(("partial_result", "stale_read", "latency"), ("seconds",)),
}
"""The keys of a rule beside `_ALWAYS`, by its type."""
_USUAL_LATENCY = 1.0
_LONGEST = 86_400.0


class FaultRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault is injected, and what it does; created by `read_rule`."""

    type: Annotated[FaultType, Meta(description="Kind of fault.")]
    tool: Annotated[ToolGlobs, Meta(description="Globs of qualified names; by default every tool.")] = ("*",)
    probability: Annotated[float, Meta(ge=0, le=1, description="Probability for each call.")] = 1.0
    every: Annotated[int, Meta(ge=1, description="Apply to every n-th matching call of a session.")] = 1
    after: Annotated[int, Meta(ge=0, description="Skip this many matching calls at the start of a session.")] = 0
    message: Annotated[Text | None, Meta(description="Error message.")] = None
    seconds: Annotated[float, Meta(ge=0, le=_LONGEST, description="Delay before the fault.")] = 0.0
    retry_after: Annotated[float | None, Meta(ge=0, le=_LONGEST, description="Seconds reported as `retry_after`.")] = (
        None
    )
    after_call: Annotated[
        bool, Meta(description="Call the tool first, then lose its result. For some types this is fixed.")
    ] = False

    @property
    def replaces_call(self) -> bool:
        """True if the fault replaces the call, so that the tool does not run."""
        return not self.after_call and self.type not in ("partial_result", "stale_read", "latency")

    @property
    def depends_on_count(self) -> bool:
        """True if the rule depends on the number of earlier calls."""
        return self.every > 1 or self.after > 0


class Fault(msgspec.Struct, frozen=True):
    """A fault injected into one call. `draw` is a reproducible number for further choices."""

    type: str
    number: int
    """Index of the rule in its plan, from 0."""
    rule: FaultRule | None = None
    """None if the fault comes from a recording."""
    draw: int = 0

    @property
    def replaces_call(self) -> bool:
        """True if the fault replaces the call, so that the tool does not run."""
        return self.rule is not None and self.rule.replaces_call

    @property
    def metadata(self) -> dict[str, Any]:
        """The value of `fault` in the metadata of the result."""
        return {"type": self.type, "rule": self.number}

    @property
    def alters_answer(self) -> bool:
        """True if the answer is altered on purpose and must not be checked against the output schema."""
        return self.type in ALTERING


def _options_of_type(kind: str) -> dict[str, ConfigOption]:
    known = options_of(FaultRule)
    return {key: known[key] for key in (*_ALWAYS, *_KEYS[kind])}


def _rule_schema() -> dict[str, Any]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for kind, keys in _KEYS.items():
        groups.setdefault(keys, []).append(kind)
    schemas = []
    for kinds in groups.values():
        properties = {key: option_schema(option) for key, option in _options_of_type(kinds[0]).items()}
        properties["type"] = {"enum": kinds, "description": "Kind of fault."}
        schema = {"type": "object", "additionalProperties": False, "required": ["type"], "properties": properties}
        schemas.append(schema)
    return {"anyOf": schemas}


def read_rule(value: Any, where: str) -> FaultRule:
    """Read one rule; `ConfigError` for keys that its type does not have."""
    if not isinstance(value, Mapping) or "type" not in value:
        raise ConfigError(f"{where}: a fault needs a 'type', one of {', '.join(TYPES)}")
    kind = read_option(FaultRule, "type", value["type"], f"{where}.type")
    made: dict[str, Any] = {"after_call": kind in _LATE}
    if kind == "latency":
        made["seconds"] = _USUAL_LATENCY
    return FaultRule(**made | read_given(_options_of_type(kind), value, where))


class FaultOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Failures, delays and wrong results to inject."""

    seed: Annotated[int, Meta(description="Seed of the random choices; another seed makes other calls fail.")] = 0
    rules: Annotated[
        tuple[Annotated[Any, Meta(extra_json_schema=_rule_schema(), extra={"check": read_rule})], ...],
        Meta(description="Faults to inject; each rule is checked for every call."),
    ]


FAULTS_SCHEMA: dict[str, Any] = options_schema(FaultOptions)
"""JSON Schema of a fault plan; `FaultPlan.read` accepts exactly what it accepts."""


class _Output(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    tool_output: _Output


_read_name = msgspec.json.Decoder(_Named).decode

_WHOLE = 2**64
_PICK = -1
_DRAW = -2
_CATEGORY_MESSAGE = "Tool execution failed"


class FaultPlan:
    """Evaluates all rules independently for each call; if several apply, one of them is chosen.

    The decision depends only on the seed, the session's id and the number of the call in the session, so runs are
    reproducible and `simulate` fails as `execute` would. `every` and `after` count the calls of the session that the
    rule's globs match, including refused ones. Calls without a session are numbered in order of arrival.
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]] = (), *, seed: int = 0) -> None:
        self._set_rules(read_options(FaultOptions, {"rules": rules, "seed": seed}, ""))

    @classmethod
    def read(cls, value: Any, where: str) -> FaultPlan | None:
        """Read a plan from config; returns a `FaultPlan` or None unchanged."""
        if value is None or isinstance(value, FaultPlan):
            return value
        plan = cls()
        plan._set_rules(read_options(FaultOptions, value, where))
        return plan

    def _set_rules(self, options: FaultOptions) -> None:
        rules: tuple[FaultRule, ...] = options.rules
        self.seed = options.seed
        self.rules = rules
        self._matchers = tuple(glob_matcher(rule.tool) for rule in rules)
        # Rules for all tools need no counts: the length of the history is their number of earlier calls.
        self._counted = [number for number, rule in enumerate(rules) if rule.depends_on_count and "*" not in rule.tool]
        self._lock = threading.Lock()
        self._calls_without_session = 0
        self._counts_without_session: Counter[int] = Counter()

    def __repr__(self) -> str:
        return f"FaultPlan({len(self.rules)} rules, seed={self.seed})"

    def decide(self, name: str, session: Session, mode: Mode) -> Fault | None:
        """The fault for the session's next call, if it is of this tool. Only for the batch that holds the turn."""
        matching = [number for number, matches in enumerate(self._matchers) if matches(name)]
        if not matching:
            return None
        session_id = session.key.session_id
        if session_id:
            index = len(session.history)
            counts = session.count_entries(self, self._count_entry) if self._counted else Counter[int]()
        else:
            index, counts = self._number_without_session(name, mode)
        before = {number: counts[number] for number in self._counted}
        fired = [number for number in matching if self._fires(number, before.get(number, index), session_id, index)]
        if not fired:
            return None
        number = fired[self._draw_number(session_id, index, _PICK) % len(fired)] if len(fired) > 1 else fired[0]
        rule = self.rules[number]
        return Fault(rule.type, number, rule, self._draw_number(session_id, index, _DRAW))

    def _fires(self, number: int, before: int, session_id: str, index: int) -> bool:
        rule = self.rules[number]
        if before < rule.after or (before - rule.after + 1) % rule.every:
            return False
        if rule.probability in (0.0, 1.0):
            return rule.probability == 1.0
        return self._draw_number(session_id, index, number) < rule.probability * _WHOLE

    def _draw_number(self, session_id: str, index: int, what: int) -> int:
        text = f"{self.seed}\n{index}\n{what}\n{session_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")

    def _count_entry(self, _place: int, entry: bytes, counts: Counter[int]) -> None:
        self._count_name(_read_name(entry).tool_output.name, counts)

    def _count_name(self, name: str, counts: Counter[int]) -> None:
        for number in self._counted:
            if self._matchers[number](name):
                counts[number] += 1

    def _number_without_session(self, name: str, mode: Mode) -> tuple[int, Counter[int]]:
        """Number and counts for a call without a session, which only the plan counts. Simulations are not counted."""
        with self._lock:
            index, counts = self._calls_without_session, self._counts_without_session.copy()
            if mode == "execute":
                self._calls_without_session += 1
                self._count_name(name, self._counts_without_session)
            return index, counts


class _Category(msgspec.Struct, frozen=True):
    type: FaultType
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    message: Text | None = None


def from_error_categories(value: Any, where: str = "error_categories", *, seed: int = 0) -> FaultPlan:
    """A plan from a list of `{type, probability, message}`; each fault replaces the call if its type allows it."""
    rules = []
    for category in read_value(option_type(tuple[_Category, ...]), value, where):
        rule = FaultRule(type=category.type, probability=category.probability, message=category.message)
        if rule.message is None and rule.type not in ALTERING:
            rule = replace(rule, message=_CATEGORY_MESSAGE)
        rules.append(rule)
    plan = FaultPlan()
    plan._set_rules(FaultOptions(rules=tuple(rules), seed=seed))
    return plan
