"""Engines whose answers may have an effect, and who answers in their place when a call is only simulated."""

from __future__ import annotations

from threading import Lock
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from toolyard.calls.answerer import SCHEMA_SIMULATOR, Answerer
from toolyard.engines.base import ToolEngine
from toolyard.model.errors import ConfigError, Denied
from toolyard.model.tool import Effects, Tool
from toolyard.plugins import get_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.schema.options import check_kinds, read_arguments

Simulate = Literal["read", "live"]


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Of engines whose calls may have an effect."""

    simulate: Annotated[
        Simulate,
        Meta(
            description="What `simulate` may run: tools without effects, or everything for callers who "
            "may also execute."
        ),
    ]
    simulate_with: Annotated[Any, Meta(description="Engine that answers calls which `simulate` may not run.")]


class EffectfulEngine(ToolEngine):
    """Runs functions and scripts; to simulate a call of one that writes, its answer is made up from its schemas.

    What only reads is run by a simulation, too, and so is what says that it simulates itself. What says nothing of its
    effects is run for callers who may also execute it. `simulate_with` answers the rest in its place, and
    `simulate="live"` runs it, again for callers who may also execute. In a config `simulate_with` is the name of
    another engine under `tools.engines`.
    """

    option_structs: ClassVar[tuple[type, ...]] = (SimulationOptions,)

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        simulate: Simulate = "read",
        simulate_with: ToolEngine | str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(registry, **settings)
        read_arguments(SimulationOptions, simulate=simulate)
        if isinstance(simulate_with, str):
            raise ConfigError(
                "simulate_with by name works in a config, where engines have names; here, give the engine itself"
            )
        check_kinds({"simulate_with": ToolEngine}, simulate_with=simulate_with)
        if simulate_with is not None and simulate_with.reaches_out:
            raise ConfigError(f"simulate_with: {simulate_with.name!r} reaches outside itself, so nothing is gained")
        self.simulates: Simulate = simulate
        self.simulate_with = simulate_with
        self._stand_in = None if simulate_with is None else self._keep_part(simulate_with.as_part())
        self._finding = Lock()

    def only_reads(self, tool: Tool) -> bool:
        """True if calling it changes nothing, by all that is known."""
        return tool.effects is Effects.READ

    def runs_simulated(self, tool: Tool, may_execute: bool) -> bool:
        """True if a simulation may run the tool itself."""
        if self.only_reads(tool) or (may_execute and self.simulates == "live"):
            return True
        if getattr(tool.binding, "simulates", False):
            return True
        return may_execute and tool.effects is Effects.UNKNOWN

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """Who answers when the tool is simulated; `Denied` if nobody may."""
        if self.runs_simulated(tool, may_execute) or not self.takes(tool):
            return self
        return self._find_stand_in(tool).simulator(tool, may_execute)

    def _find_stand_in(self, tool: Tool) -> Answerer:
        with self._finding:
            if self._stand_in is None:
                self._stand_in = self._keep_part(self.make_stand_in(tool).as_part())
        return self._stand_in.route(tool)

    def make_stand_in(self, tool: Tool) -> ToolEngine:
        """Who answers where nobody was named for it; `Denied` if nobody can."""
        engine: ToolEngine = get_tool_engine("lm", registry=self.tool_registry, name=SCHEMA_SIMULATOR)
        return engine


class OutwardEngine(EffectfulEngine):
    """Calls services outside: a simulation runs only what reads, and nobody answers the rest unless named for it."""

    reaches_out = True

    def runs_simulated(self, tool: Tool, may_execute: bool) -> bool:
        """What says nothing of its effects may have any out there."""
        return self.only_reads(tool) or (may_execute and self.simulates == "live")

    def make_stand_in(self, tool: Tool) -> ToolEngine:
        """Nobody: what a service would say cannot be told from here."""
        live = "" if self.simulates == "live" else ", or simulate: live to call it for real"
        raise Denied(
            f"{tool.qualified_name} may change something outside, so it is not simulated by calling it",
            hint=f"give its engine simulate_with: <another engine>{live}",
        )
