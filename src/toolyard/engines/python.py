"""`PythonToolEngine`: in-process functions, sync or async. `ScriptToolEngine`: handlers of script files only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from toolyard.calls.answerer import Answerer
from toolyard.calls.invocation import Invocation
from toolyard.engines.effectful import EffectfulEngine
from toolyard.model.bindings import PythonBinding, ScriptBinding
from toolyard.model.errors import NoEngine
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.registry.function_call import CALLER_ERRORS, await_answer, await_function, plain_function, raise_failure
from toolyard.registry.prepared import PreparedTool

if TYPE_CHECKING:
    from toolyard.engines.script_runner import ScriptRunner


@register_tool_engine("python")
class PythonToolEngine(EffectfulEngine):
    """Calls the function behind a tool.

    From sync code, a sync tool runs in the caller's thread and an async one on the home loop. From async code, an
    async tool runs on the caller's loop and a sync one on the engine's threads, since it may block; one marked
    `blocking=False` runs on the caller's loop, and no deadline can interrupt it. Handlers of script files run in worker
    processes, as with `ScriptToolEngine`.
    """

    type_name = "python"

    def __init__(self, registry: ToolRegistry | None = None, **settings: Any) -> None:
        super().__init__(registry, **settings)
        self._runner: ScriptRunner | None = None

    def route(self, tool: Tool) -> Answerer:
        """The engine registered for the tool's binding, else this one."""
        return self._engine_for(type(tool.binding)) or self

    def answer(self, invocation: Invocation) -> Any:
        """The function's value, or a coroutine for it."""
        tool = invocation.tool
        binding = tool.binding
        if type(binding) is ScriptBinding:
            return self._script_runner().answer(invocation)
        if type(binding) is not PythonBinding:
            raise NoEngine(
                f"{tool.qualified_name} has no Python function behind it",
                hint="load the tool with PythonToolLoader, or give its source another engine",
            )
        ctx = invocation.tool_context() if binding.takes_ctx else None
        value = invocation.bound.prepared.call_function(invocation.arguments, ctx)
        if type(value) is CoroutineType:
            return _settle_answer(tool, binding, value)
        return _finish_answer(binding, value)

    def function_for(self, prepared: PreparedTool) -> Callable[[Any], Any] | None:
        """The function, if `answer` would only call it; else None."""
        binding = prepared.tool.binding
        if type(binding) is not PythonBinding or type(self).answer is not PythonToolEngine.answer:
            return None
        return None if binding.takes_ctx else _answering_function(prepared, binding)

    def takes(self, tool: Tool) -> bool:
        """True for functions and scripts, and for tools that an engine registered for their binding takes."""
        other = self._engine_for(type(tool.binding))
        return type(tool.binding) in (PythonBinding, ScriptBinding) if other is None else other.takes(tool)

    def blocks(self, tool: Tool) -> bool:
        """True unless the function is async or marked `blocking=False`."""
        binding = tool.binding
        if type(binding) is ScriptBinding:
            return self._script_runner().blocks(tool)
        return not (type(binding) is PythonBinding and (binding.is_async or not binding.blocking))

    def _script_runner(self) -> ScriptRunner:
        with self._making:
            if self._runner is None:
                from toolyard.engines.script_runner import ScriptRunner

                self._runner = self._keep_part(ScriptRunner())
            return self._runner


@register_tool_engine("scripts")
class ScriptToolEngine(PythonToolEngine):
    """Runs scripts in worker processes, which are reused, and killed if they hang.

    Sandbox, limits and workers are configured in `ScriptToolLoader`; each directory has its own workers. A call is
    limited by the tool's TOOL_TIMEOUT or by the caller's timeout, whichever is shorter; its process is then killed, and
    its effect is unknown. The output of a script is in the trace.
    """

    type_name = "scripts"

    def answer(self, invocation: Invocation) -> Any:
        """The value that the handler returned; if an event loop is running, a coroutine for it."""
        return self._script_runner().answer(invocation)

    def takes(self, tool: Tool) -> bool:
        """True for handlers of scripts only."""
        return type(tool.binding) is ScriptBinding


async def _settle_answer(tool: Tool, binding: PythonBinding, work: Any) -> Any:
    return _finish_answer(binding, await await_function(tool, work))


def _finish_answer(binding: PythonBinding, value: Any) -> Any:
    # A plain value is converted to JSON, if needed, when it is recorded.
    return value if binding.plain or binding.finish is None else binding.finish(value)


def _answering_function(prepared: PreparedTool, binding: PythonBinding) -> Callable[[Any], Any]:
    tool, call, finish = prepared.tool, prepared.call_function, None if binding.plain else binding.finish
    # The arguments were bound and coerced for this function already.
    function, _ = plain_function(binding)
    bare = function is not None and finish is None
    settle = partial(await_answer, tool, faults=CALLER_ERRORS) if bare else partial(_settle_answer, tool, binding)

    def answer(arguments: Any) -> Any:
        if function is None:
            value = call(arguments, None)
        else:
            try:
                value = function(**arguments)
            except BaseException as error:  # noqa: BLE001 - converted and raised again
                raise_failure(tool, error)
        if type(value) is CoroutineType:
            return settle(value)
        try:
            return value if finish is None else finish(value)
        except BaseException as error:  # noqa: BLE001 - converting the value may run the tool's code
            raise_failure(tool, error)

    return answer
