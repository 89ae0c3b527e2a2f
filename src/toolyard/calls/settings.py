"""`Settings`: the limits that an engine puts on its calls; `Gates` bound how many of them run at once."""

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
"""What an answer of many values must be allowed for each of them."""


def count_values(max_bytes: int) -> int:
    """How many values an answer may have that may take so many bytes of JSON."""
    # A value takes two bytes of text, but a hundred once it is read.
    return max(max_bytes, MAX_RESULT_BYTES) // _BYTES_OF_VALUE


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may take and what is done about it; checked at construction."""

    timeout: Annotated[float | None, Meta(gt=0, description="Seconds a call may take; null for no limit.")] = None
    output_check: Annotated[OutputCheck, Meta(description="What to do about an answer its schema does not allow.")] = (
        "warn"
    )
    max_concurrent_calls: Annotated[
        int | None, Meta(ge=1, description="Calls of this engine that run at once; null for no limit.")
    ] = None
    max_concurrent_calls_per_tool: Annotated[
        int | Mapping[ToolGlob, Annotated[int, Meta(ge=1)]] | None,
        Meta(ge=1, description="Calls of one tool that run at once: one number for all, or globs of names to numbers."),
    ] = None
    max_result_bytes: Annotated[
        int, Meta(ge=1, description="Size of the largest answer that is taken; of many values, one for every 32 bytes.")
    ] = MAX_RESULT_BYTES
    retries: Annotated[int, Meta(ge=0, description="Tries after the first, where a repeat is harmless.")] = 0
    retry_delay: Annotated[float, Meta(ge=0, description="Seconds before the first repeat.")] = 0.2
    threads: Annotated[int, Meta(ge=1, description="Threads for tools that block.")] = 64
    abandoned: Annotated[Abandoned, Meta(description="Whether a call that overran its deadline keeps the session.")] = (
        "hold"
    )
    namespaces: Annotated[
        Sequence[Text] | None, Meta(description="Namespaces whose tools the engine answers; null for all.")
    ] = None
    faults: Annotated[
        FaultPlan | None,
        Meta(
            description="Calls that fail, or are answered wrongly, on purpose.",
            extra_json_schema={"anyOf": [FAULTS_SCHEMA, {"type": "null"}]},
            extra={"check": FaultPlan.read},
        ),
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)

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
