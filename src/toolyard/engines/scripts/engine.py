"""`ScriptToolEngine`: handlers of script files, in worker processes."""

from __future__ import annotations

from typing import Any

from toolyard.calls.invocation import Invocation
from toolyard.engines.effectful import EffectfulEngine
from toolyard.engines.scripts.runner import ScriptRunner
from toolyard.model.bindings import ScriptBinding
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry


@register_tool_engine("scripts")
class ScriptToolEngine(EffectfulEngine):
    """Calls the handler of a script file, in a process that is kept for the next call and ended when it hangs.

    How scripts are held (sandbox, limits, workers) is said where they are loaded, by `ScriptToolLoader`; each of its
    directories has workers of its own. A call has until its tool's TOOL_TIMEOUT or the caller's own limit, whichever
    comes first: then its process is ended, and nobody knows how far it came. What a script prints is in the trace.
    """

    type_name = "scripts"

    def __init__(self, registry: ToolRegistry | None = None, **settings: Any) -> None:
        super().__init__(registry, **settings)
        self._runner = ScriptRunner()

    def answer(self, invocation: Invocation) -> Any:
        """What the handler returned; where an event loop runs, a coroutine for it."""
        return self._runner.answer(invocation)

    def takes(self, tool: Tool) -> bool:
        """Only handlers of scripts."""
        return type(tool.binding) is ScriptBinding

    def blocks(self, tool: Tool) -> bool:
        """Only what runs in this process."""
        return self._runner.blocks(tool)

    def close(self) -> None:
        """End the workers, too."""
        self._runner.close()
        super().close()

    async def aclose(self) -> None:
        """`close` for async code."""
        await self._runner.aclose()
        super().close()
