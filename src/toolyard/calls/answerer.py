"""`Answerer`: the interface of engines to the call path; `SimulatedAnswerer` replaces it for simulated calls.

`Root` is the engine that was called; it chooses the answerer for each tool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import CoroutineType
from typing import Any, Protocol

from toolyard.calls.invocation import Invocation
from toolyard.calls.settings import Gates, Settings
from toolyard.loop.threads import Threads
from toolyard.model.tool import Effects, Tool
from toolyard.registry.function_call import enter_simulation, leave_simulation, simulating
from toolyard.registry.prepared import PreparedTool

_THE_TOOL = "the tool itself"
SCHEMA_SIMULATOR = "schema simulator"
"""Name of the engine that by default answers simulated calls of functions and scripts."""


class Answerer(Protocol):
    """An engine that answers calls."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads

    @property
    def idempotent(self) -> bool:
        """True if a call with an id may safely be repeated."""

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine for it."""

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """The function to call instead of `answer` for a tool that needs only its arguments; else None."""

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """The engine for simulated calls of the tool; `may_execute`: the caller may also execute it.

        Returns itself if its normal answer changes nothing; raises `Denied` if no engine may answer.
        """

    def blocks(self, tool: Tool) -> bool:
        """True if `answer` blocks, so that it must not be called on an event loop."""


class Root(Protocol):
    """The engine that was called; it chooses the engine for each tool."""

    settings: Settings
    threads: Threads

    def route(self, tool: Tool) -> Answerer:
        """The engine for a tool; raises `NoEngine` if there is none."""


class SimulatedAnswerer:
    """Answers simulated calls. Calls made by the tool's code are simulated, too, and the result names what answered."""

    def __init__(self, routed: Answerer, tool: Tool, may_execute: bool) -> None:
        self._answerer = routed.simulator(tool, may_execute)
        self._may_execute = may_execute
        self.stands_in = self._answerer is not routed
        itself = _THE_TOOL if getattr(tool.binding, "simulates", False) else None
        self._maker = self._answerer.name if self.stands_in else itself
        self.name, self.settings = self._answerer.name, self._answerer.settings
        self.gates, self.threads = self._answerer.gates, self._answerer.threads
        self.idempotent = self._answerer.idempotent

    def name_predictor(self, tool: Tool) -> str | None:
        """What makes the preview, in words; None if the answer would be invented or might have effects."""
        if self.stands_in:
            return None if self.name == SCHEMA_SIMULATOR else f"{self.name} (simulate_with)"
        if tool.effects is Effects.READ:
            return f"{_THE_TOOL}, which only reads"
        if self._maker is not None:
            return self._maker
        return f"{self.name}, which will answer it" if getattr(self._answerer, "foreseeable", False) else None

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine for it."""
        invocation.simulated_by = self._maker
        return self._simulate(self._answerer.answer, invocation)

    def _simulate(self, work: Callable[[Any], Any], argument: Any) -> Any:
        # Without the context manager `simulating`, which would take as long as the rest of a quick call.
        token = enter_simulation(self._may_execute)
        try:
            value = work(argument)
        finally:
            leave_simulation(token)
        return self._await_answer(value) if type(value) is CoroutineType else value

    async def _await_answer(self, work: Awaitable[Any]) -> Any:
        with simulating(self._may_execute):
            return await work

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """The answerer's function, if the result need not name what answered; else None."""
        function = self._answerer.function_for(prepared) if self._maker is None else None
        return None if function is None else partial(self._simulate, function)

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """Itself."""
        return self

    def blocks(self, tool: Tool) -> bool:
        """As for the engine that answers."""
        return self._answerer.blocks(tool)
