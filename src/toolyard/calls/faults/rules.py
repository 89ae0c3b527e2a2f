"""`FaultRule`: one way of failing and when it happens; read strictly, as everything in a config is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from toolyard.calls.globs import ToolGlobs
from toolyard.model.errors import ConfigError
from toolyard.schema.options import (
    ConfigOption,
    Text,
    option_schema,
    options_of,
    options_schema,
    read_given,
    read_option,
)

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
"""Types that put another value in place of the answer."""
_LATE = frozenset({"unparseable_result", "schema_violation"})
"""Types for which the tool is called, unless the rule says otherwise."""
_ERROR = ("message", "seconds", "retry_after")
_ALWAYS = ("type", "tool", "probability", "every", "after")
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("network_error", "timeout", "schema_violation"), (*_ERROR, "after_call")),
    **dict.fromkeys(("rate_limit", "auth", "not_found"), _ERROR),
    "unparseable_result": ("message", "seconds", "after_call"),
    **dict.fromkeys(("partial_result", "stale_read", "latency"), ("seconds",)),
}
"""What a rule may say beside its conditions, by its type."""
_USUAL_LATENCY = 1.0
_LONGEST = 86_400.0


class FaultRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault happens and what it is; `read_rule` makes one."""

    type: Annotated[FaultType, Meta(description="What goes wrong.")]
    tool: Annotated[ToolGlobs, Meta(description="Globs of qualified names; every tool if not given.")] = ("*",)
    probability: Annotated[float, Meta(ge=0, le=1, description="Of each call.")] = 1.0
    every: Annotated[int, Meta(ge=1, description="Only every so many of the session's matching calls.")] = 1
    after: Annotated[int, Meta(ge=0, description="Not the first so many matching calls of a session.")] = 0
    message: Annotated[Text | None, Meta(description="What the caller is told.")] = None
    seconds: Annotated[float, Meta(ge=0, le=_LONGEST, description="How long the call takes before that.")] = 0.0
    retry_after: Annotated[
        float | None, Meta(ge=0, le=_LONGEST, description="Seconds after which to try again, as the error says.")
    ] = None
    after_call: Annotated[
        bool, Meta(description="True: the tool is called, and then its answer is lost. Some types leave no choice.")
    ] = False

    @property
    def instead(self) -> bool:
        """True if the tool is not called at all."""
        return not self.after_call and self.type not in ("partial_result", "stale_read", "latency")

    @property
    def counts(self) -> bool:
        """True if it matters how many calls there were before."""
        return self.every > 1 or self.after > 0


class Fault(msgspec.Struct, frozen=True):
    """A fault that befell one call. `draw` is a number to make choices with, the same for the same call."""

    type: str
    number: int
    """Of the rule in its plan, the first being 0."""
    rule: FaultRule | None = None
    """None if it is known from a recording."""
    draw: int = 0

    @property
    def instead(self) -> bool:
        """True if the tool is not called at all."""
        return self.rule is not None and self.rule.instead

    @property
    def told(self) -> dict[str, Any]:
        """What stands under `fault` in the metadata of the result."""
        return {"type": self.type, "rule": self.number}

    @property
    def unchecked(self) -> bool:
        """True if the answer is wrong on purpose, so that its schema does not matter."""
        return self.type in ALTERING


def _options_of_type(kind: str) -> dict[str, ConfigOption]:
    known = options_of(FaultRule)
    return {key: known[key] for key in (*_ALWAYS, *_KEYS[kind])}


def _rule_schema() -> dict[str, Any]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for kind, keys in _KEYS.items():
        groups.setdefault(keys, []).append(kind)
    return {"anyOf": [_schema_of_types(kinds) for kinds in groups.values()]}


def _schema_of_types(kinds: list[str]) -> dict[str, Any]:
    properties = {key: option_schema(option) for key, option in _options_of_type(kinds[0]).items()}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["type"],
        "properties": {**properties, "type": {"enum": kinds, "description": "What goes wrong."}},
    }


def read_rule(value: Any, where: str) -> FaultRule:
    """One rule; what its type does not know is an error that names the nearest key."""
    if not isinstance(value, Mapping) or "type" not in value:
        raise ConfigError(f"{where}: a fault needs a 'type', one of {', '.join(TYPES)}")
    kind = read_option(FaultRule, "type", value["type"], f"{where}.type")
    made: dict[str, Any] = {"after_call": kind in _LATE}
    if kind == "latency":
        made["seconds"] = _USUAL_LATENCY
    return FaultRule(**made | read_given(_options_of_type(kind), value, where))


class FaultOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that fail, or are answered wrongly, on purpose."""

    seed: Annotated[int, Meta(description="Another seed, other calls that fail.")] = 0
    rules: Annotated[
        tuple[Annotated[Any, Meta(extra_json_schema=_rule_schema(), extra={"check": read_rule})], ...],
        Meta(description="The faults there are to be; each is tried on every call."),
    ]


FAULTS_SCHEMA: dict[str, Any] = options_schema(FaultOptions)
"""JSON Schema of a fault plan; `FaultPlan.read` accepts exactly what it accepts."""
