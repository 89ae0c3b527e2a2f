"""`FaultRule`: one way of failing and when it happens; read strictly, as everything in a config is."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from toolyard.calls.blocks import (
    TOOL_GLOBS_SCHEMA,
    listed,
    read_choice,
    read_count,
    read_flag,
    read_list,
    read_mapping,
    read_text,
    read_tool_globs,
)
from toolyard.model.errors import ConfigError

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

_SECONDS: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": _LONGEST}
_PROPERTIES: dict[str, dict[str, Any]] = {
    "tool": {**TOOL_GLOBS_SCHEMA, "description": "Globs of qualified names; every tool if not given."},
    "probability": {"type": "number", "minimum": 0, "maximum": 1, "description": "Of each call; 1 if not given."},
    "every": {"type": "integer", "minimum": 1, "description": "Only every so many of the session's matching calls."},
    "after": {"type": "integer", "minimum": 0, "description": "Not the first so many matching calls of a session."},
    "message": {"type": "string", "minLength": 1, "description": "What the caller is told."},
    "seconds": {**_SECONDS, "description": "How long the call takes before that."},
    "retry_after": {**_SECONDS, "description": "Seconds after which to try again, as the error says."},
    "after_call": {"type": "boolean", "description": "True: the tool is called, and then its answer is lost."},
}


def _rule_schema() -> dict[str, Any]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for kind, keys in _KEYS.items():
        groups.setdefault(keys, []).append(kind)
    return {
        "anyOf": [
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["type"],
                "properties": {
                    "type": {"enum": kinds},
                    **{key: _PROPERTIES[key] for key in (*_ALWAYS[1:], *keys)},
                },
            }
            for keys, kinds in groups.items()
        ]
    }


FAULTS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["rules"],
    "properties": {
        "seed": {"type": "integer", "description": "Another seed, other calls that fail; 0 if not given."},
        "rules": {"type": "array", "items": _rule_schema(), "description": "Each is tried on every call."},
    },
}
"""JSON Schema of a fault plan; `FaultPlan.read` accepts exactly what it accepts."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault happens and what it is; `read_rule` makes one."""

    type: str
    tool: tuple[str, ...] = ("*",)
    probability: float = 1.0
    every: int = 1
    after: int = 0
    message: str | None = None
    seconds: float = 0.0
    retry_after: float | None = None
    after_call: bool = False
    """True if the tool is called first; only of types that leave the choice."""

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


def read_rules(value: Any, where: str) -> tuple[FaultRule, ...]:
    """The rules of a plan."""
    return tuple(read_rule(item, f"{where}[{number}]") for number, item in enumerate(read_list(value, where)))


def read_rule(value: Any, where: str) -> FaultRule:
    """One rule; what its type does not know is an error that names the nearest key."""
    if not isinstance(value, dict) or "type" not in value:
        raise ConfigError(f"{where}: a fault needs a 'type', one of {', '.join(TYPES)}")
    kind = read_choice(value["type"], TYPES, f"{where}.type")
    given = read_mapping(value, (*_ALWAYS, *_KEYS[kind]), f"{where} ({kind})")
    made: dict[str, Any] = {"after_call": kind in _LATE}
    if kind == "latency":
        made["seconds"] = _USUAL_LATENCY
    for key, item in given.items():
        if key != "type":
            made[key] = _READERS[key](item, f"{where}.{key}")
    return FaultRule(type=kind, **made)


def _read_number(value: Any, where: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ConfigError(f"{where}: must be a number from 0 to {most:g}, not {value!r}")
    return float(value)


_READERS: dict[str, Any] = {
    "tool": lambda value, where: read_tool_globs(listed(value) if isinstance(value, tuple) else value, where),
    "probability": lambda value, where: _read_number(value, where, 1.0),
    "every": lambda value, where: read_count(value, where, least=1),
    "after": lambda value, where: read_count(value, where, least=0),
    "message": read_text,
    "seconds": lambda value, where: _read_number(value, where, _LONGEST),
    "retry_after": lambda value, where: _read_number(value, where, _LONGEST),
    "after_call": read_flag,
}
