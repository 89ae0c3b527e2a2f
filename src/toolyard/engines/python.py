"""`PythonToolEngine`: in-process functions, sync or async."""

from __future__ import annotations

from types import CoroutineType
from typing import Any

from toolyard.calls.invocation import Invocation
from toolyard.calls.quick import quick_runner
from toolyard.engines.base import ToolEngine
from toolyard.model.bindings import PythonBinding
from toolyard.model.errors import NoEngine
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.registry.invoke import checked_answer, settle_coroutine, start_python


@register_tool_engine("python")
class PythonToolEngine(ToolEngine):
    """Calls the function behind a tool.

    From sync code a sync tool runs in the caller's thread, an async one on the home loop. From async code an
    async tool runs on the caller's loop, a sync one on the engine's threads, since it may block; one that is
    marked `blocking=False` runs where it is called, and no deadline can cut it short.
    """

    type_name = "python"

    def __init__(self, registry: ToolRegistry | None = None, **settings: Any) -> None:
        super().__init__(registry, **settings)
        unlimited = self.settings.unlimited and self.settings.timeout is None
        if unlimited and self._path.quiet and type(self) is PythonToolEngine:
            self._quick = quick_runner(self._path, self, "execute"), quick_runner(self._path, self, "simulate")

    def answer(self, invocation: Invocation) -> Any:
        """The function's value, or a coroutine for it."""
        tool = invocation.tool
        binding = tool.binding
        if type(binding) is not PythonBinding:
            raise NoEngine(
                f"{tool.qualified_name} has no Python function behind it",
                hint="load the tool with PythonToolLoader, or give its source another engine",
            )
        ctx = invocation.tool_context() if binding.takes_ctx else None
        value = start_python(tool, binding, invocation.arguments, ctx)
        if type(value) is CoroutineType:
            return _answered(tool, binding, value)
        return _finished(tool, binding, value)

    def takes(self, tool: Tool) -> bool:
        """Only what has a function behind it."""
        return type(tool.binding) is PythonBinding

    def blocks(self, tool: Tool) -> bool:
        """Async functions do not, nor those that say so; what any other function does, nobody knows."""
        binding = tool.binding
        return not (type(binding) is PythonBinding and (binding.is_async or not binding.blocking))


async def _answered(tool: Tool, binding: PythonBinding, work: Any) -> Any:
    return _finished(tool, binding, await settle_coroutine(tool, work))


def _finished(tool: Tool, binding: PythonBinding, value: Any) -> Any:
    if binding.returns is not None:
        checked_answer(tool, binding.returns, value)
    # A plain answer is made JSON, if it is not yet, where it is recorded.
    return value if binding.plain or binding.finish is None else binding.finish(value)
