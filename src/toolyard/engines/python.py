"""`PythonToolEngine`: in-process functions, sync or async."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from toolyard.calls.invocation import Invocation
from toolyard.calls.plan import Answerer
from toolyard.engines.base import ToolEngine
from toolyard.engines.effectful import EffectfulEngine
from toolyard.model.bindings import PythonBinding, ScriptBinding
from toolyard.model.errors import ConfigError, NoEngine
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.registry.function_call import plain_function, raise_failure, settle_function
from toolyard.registry.prepared import PreparedTool

if TYPE_CHECKING:
    from toolyard.engines.scripts.runner import ScriptRunner


@register_tool_engine("python")
class PythonToolEngine(EffectfulEngine):
    """Calls the function behind a tool.

    From sync code a sync tool runs in the caller's thread, an async one on the home loop. From async code an
    async tool runs on the caller's loop, a sync one on the engine's threads, since it may block; one that is
    marked `blocking=False` runs where it is called, and no deadline can cut it short. Handlers of script files run
    in worker processes, as with `ScriptToolEngine`.
    """

    type_name = "python"

    def __init__(self, registry: ToolRegistry | None = None, **settings: Any) -> None:
        super().__init__(registry, **settings)
        self._others: dict[type, Callable[[], ToolEngine]] = {}
        self._made: dict[type, ToolEngine] = {}
        self._making = Lock()
        self._runner: ScriptRunner | None = None

    def let_answer(self, binding: type, make: Callable[[], ToolEngine]) -> None:
        """Tools with another binding are answered by what `make` gives, once there are any."""
        self._others[binding] = make
        self._path.forget_plans()

    def route(self, tool: Tool) -> Answerer:
        """Itself for functions; for others whoever was named for their binding."""
        return self._other_engine(tool) or self

    def part(self, name: str) -> ToolEngine:
        """The engine of that name, itself or one for another binding."""
        for binding in self._others:
            self._make_engine(binding)
        found = {engine.name: engine for engine in (self, *self._made.values())}
        if name not in found:
            raise ConfigError(f"no engine here is called {name!r}; there are {', '.join(sorted(found))}")
        return found[name]

    def _other_engine(self, tool: Tool) -> ToolEngine | None:
        kind = type(tool.binding)
        if kind not in self._others:
            return None
        return self._made.get(kind) or self._make_engine(kind)

    def _make_engine(self, kind: type) -> ToolEngine:
        with self._making:
            if kind not in self._made:
                self._made[kind] = engine = self._others[kind]()
                engine.joined(self)
                for secret in engine.secrets:
                    self._path.redactor.add(secret)
            return self._made[kind]

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
        """The function, where `answer` would do nothing else but call it."""
        binding = prepared.tool.binding
        if type(binding) is not PythonBinding or type(self).answer is not PythonToolEngine.answer:
            return None
        return None if binding.takes_ctx else _answering_function(prepared, binding)

    def takes(self, tool: Tool) -> bool:
        """What has a function behind it, and what others were named for."""
        other = self._other_engine(tool)
        return type(tool.binding) in (PythonBinding, ScriptBinding) if other is None else other.takes(tool)

    def blocks(self, tool: Tool) -> bool:
        """Async functions do not, nor those that say so; what any other function does, nobody knows."""
        binding = tool.binding
        if type(binding) is ScriptBinding:
            return self._script_runner().blocks(tool)
        return not (type(binding) is PythonBinding and (binding.is_async or not binding.blocking))

    def _script_runner(self) -> ScriptRunner:
        with self._making:
            if self._runner is None:
                from toolyard.engines.scripts.runner import ScriptRunner

                self._runner = ScriptRunner()
            return self._runner

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """Tell those who answer others."""
        super().ended(session_id, owner)
        for engine in self._made.values():
            engine.ended(session_id, owner)

    def close(self) -> None:
        """Close those who answer others, too."""
        for engine in self._made.values():
            engine.close()
        if self._runner is not None:
            self._runner.close()
        super().close()

    async def aclose(self) -> None:
        """`close` for async code."""
        for engine in self._made.values():
            await engine.aclose()
        if self._runner is not None:
            await self._runner.aclose()
        super().close()


async def _settle_answer(tool: Tool, binding: PythonBinding, work: Any) -> Any:
    return _finish_answer(binding, await settle_function(tool, work))


def _finish_answer(binding: PythonBinding, value: Any) -> Any:
    # A plain answer is made JSON, if it is not yet, where it is recorded.
    return value if binding.plain or binding.finish is None else binding.finish(value)


def _answering_function(prepared: PreparedTool, binding: PythonBinding) -> Callable[[Any], Any]:
    tool, call, finish = prepared.tool, prepared.call_function, None if binding.plain else binding.finish
    # Its arguments were bound for it, so that what wants to be an int is one.
    function, _ = plain_function(binding)

    def answer(arguments: Any) -> Any:
        if function is None:
            value = call(arguments, None)
        else:
            try:
                value = function(**arguments)
            except BaseException as error:  # noqa: BLE001 - told apart and raised again
                raise_failure(tool, error)
        if type(value) is CoroutineType:
            return _settle_answer(tool, binding, value)
        return value if finish is None else finish(value)

    return answer
