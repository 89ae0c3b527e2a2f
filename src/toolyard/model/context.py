"""`ToolContext`: what a tool may know about the call it is answering, and what it may say meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from toolyard.model.call import Mode
from toolyard.model.tool import Tool

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Progress(msgspec.Struct, frozen=True):
    """How far a call has got, out of `total` if that is known."""

    progress: float
    total: float | None = None
    message: str | None = None


class LogLine(msgspec.Struct, frozen=True):
    """Something a tool wants its caller to know before it has answered."""

    data: Any
    level: Level = "info"
    logger: str | None = None


Notice = Progress | LogLine
"""What may be said while a call runs."""

Notify = Callable[[Notice], None]
"""Passes a notice on. It returns at once and may be called from any thread."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Handed to a tool that declares a `ctx` parameter; models never see or set it."""

    tool: Tool
    call_id: str | None = None
    session_id: str | None = None
    mode: Mode = "execute"
    """A tool that says it simulates itself is called to be simulated, too, and must change nothing then."""
    context: Mapping[str, Any] = {}
    """What the caller sent along with the call (flow state, locale, ...)."""
    trace: Mapping[str, Any] = {}
    """Correlation ids of the caller."""
    notify: Notify | None = None
    """Who is told of progress; None if nobody asked."""

    def report(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the call has got; nothing happens if nobody asked."""
        if self.notify is not None:
            self.notify(Progress(progress, total, message))

    def log(self, data: Any, level: Level = "info", logger: str | None = None) -> None:
        """Tell the caller something, before the answer; nothing happens if nobody asked."""
        if self.notify is not None:
            self.notify(LogLine(data, level, logger))
