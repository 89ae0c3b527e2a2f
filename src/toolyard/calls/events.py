"""`CallEvent`: what is told about one call, once, to every sink."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from toolyard.model.errors import Effect

Mode = Literal["execute", "simulate"]


class CallEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answered call. Arguments and result are there only if tracing was told to include them."""

    time: float
    """Seconds since the epoch when the call began."""
    latency: float
    """Seconds it took, waiting for its turn not included."""
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
    result_bytes: int | None = None
    stdout: str | None = None
    """The end of what a script printed; None if it was nothing, or the tool is no script."""
    stderr: str | None = None
    """Likewise; where the script raised, its traceback comes last."""
    notes: dict[str, Any] | None = None
    """What the engine says about how it answered, such as how much of a long history it looked at."""
    arguments: Any = msgspec.UNSET
    result: Any = msgspec.UNSET


def json_bytes(value: Any) -> bytes:
    """One line of JSON for a log or a span; never refuses what a call can carry.

    The fast encoder has no form for numbers over 64 bits and for half a surrogate pair; the slow one has.
    """
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")
