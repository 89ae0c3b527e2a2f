"""`Toolyard`: a config made real, and let go of as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from toolyard.app.build import ConfigLike, build_parts, read_anything
from toolyard.calls.policy import Approver
from toolyard.engines.base import ToolEngine
from toolyard.model.closing import Closing
from toolyard.plugins import get_tool_sampler
from toolyard.registry import ToolRegistry
from toolyard.sources.domains import DomainToolLoader

if TYPE_CHECKING:
    from toolyard.insight.samplers.base import ToolSampler


class Toolyard(Closing):
    """A registry and the engine that answers its tools.

    with Toolyard.from_config("yard.yaml") as yard:
        yard.tool_engine.setup("s1")
        yard.tool_engine.execute("s1", [ToolCall("desk::split_bill", {"total": 90, "people": 2})])
    """

    def __init__(self, registry: ToolRegistry, engine: ToolEngine) -> None:
        self.tool_registry = registry
        self.tool_engine = engine

    @classmethod
    def from_config(
        cls, config: ConfigLike, *, env: Mapping[str, str] | None = None, approver: Approver | None = None
    ) -> Toolyard:
        """Everything a config names: a file, or a mapping of the same form. Any fault in it raises.

        Relative paths are taken from the config's folder. `approver` decides on calls that the policy asks about.
        """
        registry, engine, _ = build_parts(read_anything(config, env=env), approver)
        return cls(registry, engine)

    @property
    def domains(self) -> frozenset[str]:
        """The namespaces that enabled domains gave; the HTTP wires spell the tools of these by their bare names."""
        loaders = [loader for loader in self.tool_registry.loaders if isinstance(loader, DomainToolLoader)]
        return frozenset[str]().union(*(loader.namespaces for loader in loaders))

    def sampler(self, type: str, **options: Any) -> ToolSampler[Any]:  # noqa: A002 (as a config spells it)
        """A sampler of that registered type over this registry."""
        made: ToolSampler[Any] = get_tool_sampler(type, registry=self.tool_registry, **options)
        return made

    def close(self) -> None:
        """Close engines, sessions, tracing and sources, whatever one of them raises."""
        with ExitStack() as closing:
            closing.callback(self.tool_registry.close)
            closing.callback(self.tool_engine.close)

    async def aclose(self) -> None:
        """`close` for async code."""
        try:
            await self.tool_engine.aclose()
        finally:
            self.tool_registry.close()

    def __repr__(self) -> str:
        return f"Toolyard({self.tool_registry!r}, {self.tool_engine!r})"
