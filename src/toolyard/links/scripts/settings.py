"""Data types of requests to workers and of their results."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Level = Literal["bwrap", "landlock", "rlimits"]

Role = Literal["serve", "declare"]


class Code(msgspec.Struct, frozen=True):
    """The content of a script, as it was read and hashed."""

    file: str
    sha256: str
    source: bytes

    def __repr__(self) -> str:
        return f"Code(file={self.file!r}, sha256={self.sha256!r}, {len(self.source)} bytes)"


class Answer(msgspec.Struct, frozen=True):
    """The return value of a handler, and the end of its output."""

    value: Any
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


class DeclaredTools(msgspec.Struct, frozen=True):
    """The tools of one file.

    Each is a dict of `name`, `description`, `parameters`, `output`, `aliases`, `timeout`, `effects`, `tags`, `version`,
    `flags`, `handler`, `takes_ctx`, `is_async`; what the file does not declare is None or empty.
    """

    file: str
    tools: list[dict[str, Any]]


class ScriptFault(msgspec.Struct, frozen=True):
    """Why the declarations of a file could not be read."""

    file: str
    message: str
    kind: Literal["error", "refused", "timeout", "crash", "unavailable"] = "error"
    """error: it raised; refused: it declares wrongly; crash: its process ended; unavailable: it had no process."""
    line: int | None = None
    trace: str = ""
    """For the log only, not for callers."""


class WorkerEnd(msgspec.Struct, frozen=True):
    """How a worker ended."""

    status: int | None = None
    """An exit status as in `subprocess`, negative for a signal; None if unknown."""
    clean: bool = True
    """True if nothing that it started is left."""
    fault: str | None = None
