"""Engines whose calls may have effects, and the choice of the engine that simulates such calls."""

from __future__ import annotations

from threading import Lock
from typing import Annotated, Any, Literal

from msgspec import Meta

from toolyard.calls.call_path import SCHEMA_SIMULATOR, Answerer
from toolyard.engines.base import ToolEngine
from toolyard.model.errors import ConfigError, Denied
from toolyard.model.tool import Effects, Tool
from toolyard.plugins import get_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.schema.options import check_kinds, read_arguments

Simulate = Literal["read", "live"]


class EffectfulEngine(ToolEngine):
    """An engine whose calls may have effects; simulated calls that would have some are generated from the schemas.

    `simulate` still runs READ tools and tools that declare that they can simulate themselves, and it runs tools with
    UNKNOWN effects for callers who may also execute. `simulate_with` is the engine that answers all other simulated
    calls; with `simulate="live"` they are run for callers who may also execute. In a config, `simulate_with` is the
    name of another engine under `tools.engines`.
    """

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        simulate: Annotated[
            Simulate,
            Meta(
                description="What `simulate` may run: tools without effects, or everything for callers who "
                "may also execute."
            ),
        ] = "read",
        simulate_with: Annotated[
            ToolEngine | str | None, Meta(description="Engine that answers calls which `simulate` may not run.")
        ] = None,
        **settings: Any,
    ) -> None:
        super().__init__(registry, **settings)
        read_arguments(EffectfulEngine, simulate=simulate)
        if isinstance(simulate_with, str):
            raise ConfigError(
                "simulate_with by name works in a config, where engines have names; here, give the engine itself"
            )
        check_kinds({"simulate_with": ToolEngine}, simulate_with=simulate_with)
        if simulate_with is not None and simulate_with.reaches_out:
            raise ConfigError(
                f"simulate_with: {simulate_with.name!r} has effects itself, so it cannot simulate for another engine"
            )
        self.simulates: Simulate = simulate
        self.simulate_with = simulate_with
        self._stand_in = None if simulate_with is None else self._keep_part(simulate_with.as_part())
        self._finding = Lock()

    def only_reads(self, tool: Tool) -> bool:
        """True if the tool is known to have no effects."""
        return tool.effects is Effects.READ

    def runs_simulated(self, tool: Tool, may_execute: bool) -> bool:
        """True if a simulation may run the tool itself."""
        if self.only_reads(tool) or (may_execute and self.simulates == "live"):
            return True
        if getattr(tool.binding, "simulates", False):
            return True
        return may_execute and tool.effects is Effects.UNKNOWN

    def simulator(self, tool: Tool, may_execute: bool = True) -> Answerer:
        """The engine that answers simulated calls of the tool; raises `Denied` if there is none."""
        if self.runs_simulated(tool, may_execute) or not self.takes(tool):
            return self
        return self._find_stand_in(tool).simulator(tool, may_execute)

    def _find_stand_in(self, tool: Tool) -> Answerer:
        with self._finding:
            if self._stand_in is None:
                self._stand_in = self._keep_part(self.make_stand_in(tool).as_part())
        return self._stand_in.route(tool)

    def make_stand_in(self, tool: Tool) -> ToolEngine:
        """Create the engine that simulates if no `simulate_with` is given; raises `Denied` if there is no default."""
        engine: ToolEngine = get_tool_engine("lm", registry=self.tool_registry, name=SCHEMA_SIMULATOR)
        return engine


class OutwardEngine(EffectfulEngine):
    """An engine that calls external services: only READ tools are simulated by default, by running them."""

    reaches_out = True

    def runs_simulated(self, tool: Tool, may_execute: bool) -> bool:
        """True for READ tools only, unless `simulate="live"`: UNKNOWN effects may reach the outside."""
        return self.only_reads(tool) or (may_execute and self.simulates == "live")

    def make_stand_in(self, tool: Tool) -> ToolEngine:
        """Raise `Denied`: the response of an external service cannot be generated here."""
        live = "" if self.simulates == "live" else ", or simulate: live to call it for real"
        raise Denied(
            f"{tool.qualified_name} may change something outside, so it is not simulated by calling it",
            hint=f"give its engine simulate_with: <another engine>{live}",
        )
