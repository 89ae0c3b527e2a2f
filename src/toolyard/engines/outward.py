"""`OutwardEngine`: for engines whose calls reach the world outside, which `simulate` must not change."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from toolyard.calls.answerer import Answerer
from toolyard.engines.base import ToolEngine
from toolyard.engines.execute_override import OverridingEngine
from toolyard.engines.options import OutwardOptions
from toolyard.model.errors import ConfigError, Denied
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.sessions.store import Key

Simulate = Literal["read", "live"]
_WAYS = ("read", "live")


class OutwardEngine(ToolEngine):
    """Simulates only what reads; `simulate_with` answers the rest in its place, and `simulate="live"` lets all out.

    In a config `simulate_with` is the name of another engine under `tools.engines`.
    """

    option_structs: ClassVar[tuple[type, ...]] = (OutwardOptions,)

    reaches_out = True

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        simulate: Simulate = "read",
        simulate_with: ToolEngine | str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(registry, **settings)
        if simulate not in _WAYS:
            raise ConfigError(f"simulate must be one of {', '.join(_WAYS)}; not {simulate!r}")
        if isinstance(simulate_with, str):
            raise ConfigError(
                "simulate_with by name works in a config, where engines have names; here, give the engine itself"
            )
        if simulate_with is not None and simulate_with.reaches_out:
            raise ConfigError(f"simulate_with: {simulate_with.name!r} reaches outside itself, so nothing is gained")
        self.simulates: Simulate = simulate
        self.simulate_with = simulate_with
        self._stand_in: Answerer | None = simulate_with
        if simulate_with is not None and simulate_with.overrides.answers_batches:
            self._stand_in = OverridingEngine(simulate_with)

    def only_reads(self, tool: Tool) -> bool:
        """True if calling it changes nothing outside, by all that is known."""
        return tool.effects is Effects.READ

    def simulator(self, tool: Tool) -> Answerer:
        """Who answers when the tool is simulated; `Denied` if nobody may."""
        if self.simulates == "live" or self.only_reads(tool):
            return self
        if self._stand_in is None:
            raise Denied(
                f"{tool.qualified_name} may change something outside, so it is not simulated by calling it",
                hint="give its engine simulate_with: <another engine>, or simulate: live to call it for real",
            )
        return self._stand_in.route(tool) if isinstance(self._stand_in, ToolEngine) else self._stand_in

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """What stands in may keep a session of its own."""
        if isinstance(self._stand_in, OverridingEngine):
            self._stand_in.teardown(Key(owner or "", session_id))
        elif self.simulate_with is not None:
            self.simulate_with.ended(session_id, owner)

    def close(self) -> None:
        """Close what stands in, too."""
        if self.simulate_with is not None:
            self.simulate_with.close()
        super().close()
