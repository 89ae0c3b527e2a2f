"""`Settings`: the limits one engine puts on its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from toolyard.calls.blocks import TOOL_GLOB_SCHEMA, glob_matcher, read_tool_globs
from toolyard.calls.faults.plan import FaultPlan
from toolyard.calls.faults.rules import FAULTS_SCHEMA
from toolyard.model.errors import ConfigError
from toolyard.sessions.gate import Gate

OutputCheck = Literal["off", "warn", "strict"]
Abandoned = Literal["hold", "release"]

MAX_RESULT_BYTES = 8 * 1024 * 1024
_CHECKS = ("off", "warn", "strict")
_WAYS = ("hold", "release")
_ONE_OR_MORE: dict[str, Any] = {"type": "integer", "minimum": 1}

SETTINGS_SCHEMA: dict[str, dict[str, Any]] = {
    "timeout": {
        "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}],
        "description": "Seconds a call may take; null for no limit.",
    },
    "output_check": {"enum": list(_CHECKS), "description": "What to do about an answer its schema does not allow."},
    "max_concurrent_calls": {
        "anyOf": [_ONE_OR_MORE, {"type": "null"}],
        "description": "Calls of this engine that run at once; null for no limit.",
    },
    "max_concurrent_calls_per_tool": {
        "anyOf": [
            _ONE_OR_MORE,
            {"type": "object", "propertyNames": TOOL_GLOB_SCHEMA, "additionalProperties": _ONE_OR_MORE},
            {"type": "null"},
        ],
        "description": "Calls of one tool that run at once: one number for all, or globs of names to numbers.",
    },
    "max_result_bytes": {**_ONE_OR_MORE, "description": "Size of the largest answer that is taken."},
    "retries": {"type": "integer", "minimum": 0, "description": "Tries after the first, where a repeat is harmless."},
    "retry_delay": {"type": "number", "minimum": 0, "description": "Seconds before the first repeat."},
    "threads": {**_ONE_OR_MORE, "description": "Threads for tools that block."},
    "abandoned": {"enum": list(_WAYS), "description": "Whether a call that overran its deadline keeps the session."},
    "faults": {
        "anyOf": [FAULTS_SCHEMA, {"type": "null"}],
        "description": "Calls that fail, or are answered wrongly, on purpose.",
    },
}
"""JSON Schema of each setting; `Settings` accepts exactly what they accept."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may take and what is done about it; checked at construction."""

    timeout: float | None = None
    output_check: OutputCheck = "warn"
    max_concurrent_calls: int | None = None
    max_concurrent_calls_per_tool: int | Mapping[str, int] | None = None
    max_result_bytes: int = MAX_RESULT_BYTES
    retries: int = 0
    retry_delay: float = 0.2
    threads: int = 64
    abandoned: Abandoned = "hold"
    faults: FaultPlan | None = None

    def __post_init__(self) -> None:
        _one_of("output_check", self.output_check, _CHECKS)
        _one_of("abandoned", self.abandoned, _WAYS)
        if self.timeout is not None:
            _number("timeout", self.timeout, above=0)
        _number("retry_delay", self.retry_delay)
        _whole("retries", self.retries, 0)
        for name in ("max_result_bytes", "threads"):
            _whole(name, getattr(self, name), 1)
        if self.max_concurrent_calls is not None:
            _whole("max_concurrent_calls", self.max_concurrent_calls, 1)
        if not isinstance(self.faults, FaultPlan | None):
            raise ConfigError(f"faults must be a FaultPlan, not {self.faults!r}")
        per_tool = self.max_concurrent_calls_per_tool
        if isinstance(per_tool, Mapping):
            for pattern, limit in per_tool.items():
                read_tool_globs(pattern, "max_concurrent_calls_per_tool")
                _whole(f"max_concurrent_calls_per_tool[{pattern!r}]", limit, 1)
        elif per_tool is not None:
            _whole("max_concurrent_calls_per_tool", per_tool, 1)

    @property
    def unlimited(self) -> bool:
        """True if a call needs neither to wait for others nor to be tried again, and none is made to fail."""
        bounded = self.max_concurrent_calls is not None or self.max_concurrent_calls_per_tool is not None
        return not bounded and not self.retries and self.faults is None


class Gates:
    """The gates that bound how many calls of an engine, and of each of its tools, run at once."""

    def __init__(self, settings: Settings) -> None:
        most = settings.max_concurrent_calls
        self._engine = None if most is None else Gate(most)
        per_tool = settings.max_concurrent_calls_per_tool
        patterns = {"*": per_tool} if isinstance(per_tool, int) else dict(per_tool or {})
        self._limits = [(glob_matcher([pattern]), limit) for pattern, limit in patterns.items()]
        self._tools: dict[str, Gate | None] = {}

    def of(self, name: str) -> tuple[Gate, ...]:
        """The gates a call of that tool passes, its own first: who waits for the engine blocks no sibling."""
        if name not in self._tools:
            limit = next((limit for matches, limit in self._limits if matches(name)), None)
            # Two threads may both come here; one gate must win.
            self._tools.setdefault(name, None if limit is None else Gate(limit))
        return tuple(gate for gate in (self._tools[name], self._engine) if gate is not None)


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}; not {value!r}")


def _whole(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _number(name: str, value: object, above: float | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ConfigError(f"{name} must be a number of seconds, not {value!r}")
    if above is not None and value <= above:
        raise ConfigError(f"{name} must be more than {above:g} seconds, not {value!r}")
