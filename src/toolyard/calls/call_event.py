"""`CallEvent`: the record of a finished call that the tracer sends to its sinks."""

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
    """Duration in seconds, without the wait for the turn and, if calls are logged, without the write to the store."""
    mode: Mode
    session_id: str
    name: str
    """Qualified name; the caller's spelling if no such tool exists."""
    call_id: str | None = None
    owner: str | None = None
    seq: int | None = None
    """Number of the history entry."""
    engine: str | None = None
    tool_version: str | None = None
    definition_hash: str | None = None
    generation: int = 0
    """Generation of the registry snapshot that the call was bound on."""
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
    """Id of the approval that it ran with, or waits for."""
    argument_bytes: int | None = None
    result_bytes: int | None = None
    request_id: str | None = None
    """Id of the remote request that contained the call."""
    number: int | None = None
    """Number of the call in the call log, if there is one."""
    stdout: str | None = None
    """The end of a script's output; None if it printed nothing or the tool is not a script."""
    stderr: str | None = None
    """Likewise; it ends with the traceback if the script raised."""
    notes: dict[str, Any] | None = None
    """Notes of the engine about its answer, such as how much of a long history it used."""
    arguments: Any = msgspec.UNSET
    result: Any = msgspec.UNSET
    steps: tuple[float, ...] = ()
    """Seconds of each step that the call reached: bind, policy, run, check."""


def json_bytes(value: Any) -> bytes:
    """One line of JSON for a log or a span.

    Falls back to the slow encoder for integers over 64 bits and lone surrogates, which calls may contain.
    """
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")
