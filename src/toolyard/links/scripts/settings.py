"""What is asked of workers, and what they say: plain data."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Sandbox = Literal["auto", "bwrap", "landlock", "rlimits"]
Level = Literal["bwrap", "landlock", "rlimits"]

Role = Literal["serve", "declare"]

_MIB = 1 << 20


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How scripts run. Equal settings may share workers."""

    sandbox: Sandbox = "auto"
    workers: int = 2
    """Processes at once; each belongs to one script until another needs its place."""
    memory_bytes: int = 512 * _MIB
    """Of each process. A script that forks has as much for every one of its processes."""
    cpu_seconds: int | None = None
    """Of a worker's whole life; None leaves it to the deadlines of its calls."""
    max_output_bytes: int = _MIB
    """Kept of what a call prints, from its end: one half for stdout, one for stderr."""
    max_printed_bytes: int = 64 * _MIB
    """A call that prints more than this is ended."""
    max_answer_bytes: int = 8 * _MIB
    files: int = 64
    processes: int = 32
    """Processes and threads that scripts may have besides the workers. All workers of one uid share them."""
    file_bytes: int = 64 * _MIB
    """Of each file that a script writes; at level bwrap also of all of them together."""
    calls_per_worker: int = 200
    """1 gives every call a process of its own."""
    env: tuple[str, ...] = ()
    """Names of environment variables that scripts may see."""
    uid: int | None = None
    """Whom scripts run as when the server is root; None: a uid that no account has, one for each server."""
    imports: Literal["site", "stdlib"] = "site"
    start_seconds: float = 10.0
    declare_seconds: float = 5.0
    """For each file, to say what it declares."""


class Code(msgspec.Struct, frozen=True):
    """The bytes of a script, as they were read and hashed."""

    file: str
    sha256: str
    source: bytes

    def __repr__(self) -> str:
        return f"Code(file={self.file!r}, sha256={self.sha256!r}, {len(self.source)} bytes)"


class Answer(msgspec.Struct, frozen=True):
    """What a handler returned, and the end of what was printed meanwhile."""

    value: Any
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


class Declared(msgspec.Struct, frozen=True):
    """The tools of one file.

    Each is a dict of `name`, `description`, `parameters`, `output`, `aliases`, `timeout`, `effects`, `tags`,
    `version`, `flags`, `handler`, `takes_ctx`, `is_async`; what the file does not say is None, or empty.
    """

    file: str
    tools: list[dict[str, Any]]


class ScriptFault(msgspec.Struct, frozen=True):
    """Why a file declares nothing."""

    file: str
    message: str
    kind: Literal["error", "refused", "timeout", "crash", "unavailable"] = "error"
    """It raised; it declares wrongly; it took too long; its process ended; it had none, or lost it with another's."""
    line: int | None = None
    trace: str = ""
    """For the log, not for whoever calls."""


class Ended(msgspec.Struct, frozen=True):
    """How a worker came to its end."""

    status: int | None = None
    """As `subprocess` counts: below 0 a signal; None if nobody knows."""
    clean: bool = True
    """Nothing it started is left."""
    fault: str | None = None
