"""Engines, as the call path sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from toolyard.calls.invocation import Invocation
from toolyard.calls.settings import Gates, Settings
from toolyard.loop.threads import Threads
from toolyard.model.tool import Tool
from toolyard.registry.prepared import PreparedTool


class Answerer(Protocol):
    """An engine that answers."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads

    @property
    def idempotent(self) -> bool:
        """True if a call with an id may safely be made twice."""

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine that gives it."""

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """What `answer` comes down to for a tool that needs nothing but its arguments; None if it needs more."""

    def simulator(self, tool: Tool) -> Answerer:
        """Who answers when the tool is simulated; raises `Denied` if nobody may."""

    def blocks(self, tool: Tool) -> bool:
        """True if `answer` does its work before it returns, so that an event loop must not call it."""


class Root(Protocol):
    """The engine that was called; it chooses who answers each tool."""

    settings: Settings
    threads: Threads

    def route(self, tool: Tool) -> Answerer:
        """The engine for a tool; raises `NoEngine` if there is none."""
