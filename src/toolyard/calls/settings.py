"""`Settings`: the limits of an engine for its calls; `Gates` limit how many of them run concurrently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolyard.calls.faults import FAULTS_SCHEMA, FaultPlan
from toolyard.model.names import ToolGlob, glob_matcher
from toolyard.schema.options import Text, check_fields
from toolyard.sessions.gate import Gate

OutputCheck = Literal["off", "warn", "strict"]
Abandoned = Literal["hold", "release"]

MAX_RESULT_BYTES = 8 * 1024 * 1024
_BYTES_OF_VALUE = 32
"""Bytes of `max_result_bytes` per JSON value of a result."""


def count_values(max_bytes: int) -> int:
    """Maximum number of JSON values in a result limited to `max_bytes`."""
    # A value may need only two bytes of text, but about a hundred once decoded.
    return max(max_bytes, MAX_RESULT_BYTES) // _BYTES_OF_VALUE


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an engine's calls, and how they are enforced; validated on construction."""

    timeout: Annotated[float | None, Meta(gt=0, description="Deadline of a call in seconds; null for none.")] = None
    output_check: Annotated[
        OutputCheck, Meta(description="What to do with results that do not match the output schema.")
    ] = "warn"
    max_concurrent_calls: Annotated[
        int | None, Meta(ge=1, description="Concurrent calls of this engine; null for no limit.")
    ] = None
    max_concurrent_calls_per_tool: Annotated[
        int | Mapping[ToolGlob, Annotated[int, Meta(ge=1)]] | None,
        Meta(
            ge=1,
            description="Concurrent calls of one tool: one number for all tools, or a mapping of "
            "name globs to numbers.",
        ),
    ] = None
    max_result_bytes: Annotated[
        int, Meta(ge=1, description="Maximum bytes of a result, and one JSON value for every 32 of them.")
    ] = MAX_RESULT_BYTES
    retries: Annotated[int, Meta(ge=0, description="Number of retries, where a repeat is safe.")] = 0
    retry_delay: Annotated[float, Meta(ge=0, description="Seconds before the first retry.")] = 0.2
    threads: Annotated[int, Meta(ge=1, description="Number of threads for blocking tools.")] = 64
    abandoned: Annotated[
        Abandoned, Meta(description="Whether a call that missed its deadline keeps the session until it ends.")
    ] = "hold"
    namespaces: Annotated[
        Sequence[Text] | None, Meta(description="Namespaces whose tools the engine executes; null for all.")
    ] = None
    faults: Annotated[
        FaultPlan | None,
        Meta(
            description="Failures, delays and wrong results to inject.",
            extra_json_schema={"anyOf": [FAULTS_SCHEMA, {"type": "null"}]},
            extra={"check": FaultPlan.read},
        ),
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def unlimited(self) -> bool:
        """True if there are no gates, retries or injected faults."""
        bounded = self.max_concurrent_calls is not None or self.max_concurrent_calls_per_tool is not None
        return not bounded and not self.retries and self.faults is None


class Gates:
    """Gates that limit the concurrent calls of an engine and of each of its tools."""

    def __init__(self, settings: Settings) -> None:
        most = settings.max_concurrent_calls
        self._engine = None if most is None else Gate(most)
        per_tool = settings.max_concurrent_calls_per_tool
        patterns = {"*": per_tool} if isinstance(per_tool, int) else dict(per_tool or {})
        self._limits = [(glob_matcher([pattern]), limit) for pattern, limit in patterns.items()]
        self._tools: dict[str, Gate | None] = {}

    def of(self, name: str) -> tuple[Gate, ...]:
        """The gates for calls of a tool; its own comes first, so calls that wait for it take no place of the engine."""
        if name not in self._tools:
            limit = next((limit for matches, limit in self._limits if matches(name)), None)
            # `setdefault`: of two threads that get here at once, both must use the same gate.
            self._tools.setdefault(name, None if limit is None else Gate(limit))
        return tuple(gate for gate in (self._tools[name], self._engine) if gate is not None)
