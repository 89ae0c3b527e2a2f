"""`CallEvent`: what is known of one call when it is over, as every sink of the tracer gets it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from toolyard.model.call import Mode
from toolyard.model.errors import Effect


class CallEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finished call. Arguments and result are included only if tracing is configured to."""

    time: float
    """Seconds since the epoch when the call began."""
    latency: float
    """Seconds it took, waiting for its turn not included; nor, where calls are logged, for the store."""
    mode: Mode
    session_id: str
    name: str
    """Qualified name; what the caller wrote, if no tool has it."""
    call_id: str | None = None
    owner: str | None = None
    seq: int | None = None
    """Number of the history entry."""
    engine: str | None = None
    tool_version: str | None = None
    definition_hash: str | None = None
    generation: int = 0
    """Of the registry the call was bound on."""
    coercions: int = 0
    attempts: int = 1
    code: str | None = None
    """Error code; None for success."""
    error: str | None = None
    effect: Effect | None = None
    """Of a failed call; None for success."""
    effects: str | None = None
    """What the tool does: read, write or unknown."""
    approval: str | None = None
    """Id of the approval that it ran by, or waits for."""
    argument_bytes: int | None = None
    result_bytes: int | None = None
    request_id: str | None = None
    """Of the request that brought the call over a wire."""
    number: int | None = None
    """Of the call in the call log, if there is one."""
    stdout: str | None = None
    """The end of what a script printed; None if it was nothing, or the tool is no script."""
    stderr: str | None = None
    """Likewise; where the script raised, its traceback comes last."""
    notes: dict[str, Any] | None = None
    """What the engine says about how it answered, such as how much of a long history it looked at."""
    arguments: Any = msgspec.UNSET
    result: Any = msgspec.UNSET
    steps: tuple[float, ...] = ()
    """Seconds of each step that it came to: bind, policy, run, check."""


def json_bytes(value: Any) -> bytes:
    """One line of JSON for a log or a span; never refuses what a call can carry.

    The fast encoder has no form for numbers over 64 bits and for half a surrogate pair; the slow one has.
    """
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")
