"""What is asked of workers, and what they say: plain data."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Level = Literal["bwrap", "landlock", "rlimits"]

Role = Literal["serve", "declare"]


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
