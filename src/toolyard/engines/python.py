"""`PythonToolEngine`: in-process functions, sync or async. `ScriptToolEngine`: handlers of script files only.

`ScriptRunner` runs handlers of scripts in worker processes, or in this process with `isolation: inprocess`;
`ScriptModules` holds the scripts that run in this process.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CoroutineType, ModuleType
from typing import TYPE_CHECKING, Any

from toolyard.calls.call_path import Answerer
from toolyard.calls.flow import drive_or_await
from toolyard.calls.invocation import Invocation
from toolyard.calls.waits import Flow, WaitPair
from toolyard.engines.effectful import EffectfulEngine
from toolyard.model.bindings import PythonBinding, ScriptBinding
from toolyard.model.errors import CallError, ConfigError, InvalidArguments, NoEngine, ToolFailed, Unavailable
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry.function_call import (
    CALLER_ERRORS,
    await_answer,
    await_function,
    function_caller,
    make_tool_error,
    plain_function,
    raise_failure,
)
from toolyard.registry.prepared import PreparedTool
from toolyard.words.redactor import credential_finder

if TYPE_CHECKING:
    from toolyard.links.scripts import Code, ScriptPool


@register_tool_engine("python")
class PythonToolEngine(EffectfulEngine):
    """Calls the function behind a tool.

    From sync code, a sync tool runs in the caller's thread and an async one on the home loop. From async code, an
    async tool runs on the caller's loop and a sync one on the engine's threads, since it may block; one marked
    `blocking=False` runs on the caller's loop, and no deadline can interrupt it. Handlers of script files run in worker
    processes, as with `ScriptToolEngine`.
    """

    type_name = "python"

    _runner: ScriptRunner | None = None

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


_AHEAD, _PART = 0.05, 0.1
"""Seconds, and fraction of the remaining time, by which a script is ended before its caller stops waiting."""

Place = tuple[str, Any]
"""A directory and the settings of its workers."""


class ScriptRunner:
    """A pool of workers for each directory and its settings, created on first use."""

    def __init__(self) -> None:
        self._pools: dict[Place, ScriptPool] = {}
        self._modules = ScriptModules()
        self._lock = threading.Lock()
        self._is_closed = False

    def blocks(self, tool: Tool) -> bool:
        """True for sync functions that run in this process; waiting for a worker does not block the loop."""
        binding = tool.binding
        return isinstance(binding, ScriptBinding) and binding.isolation == "inprocess" and not binding.is_async

    def answer(self, invocation: Invocation) -> Any:
        """The value that the handler returned; if an event loop is running, a coroutine for it."""
        binding = _script_binding(invocation)
        if binding.isolation == "inprocess":
            return self._modules.answer(invocation, binding)
        return drive_or_await(self._call_worker(invocation, binding))

    def close(self) -> None:
        """End all workers."""
        for pool in self._close_pools():
            pool.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        for pool in self._close_pools():
            await pool.aclose()

    def _call_worker(self, invocation: Invocation, binding: ScriptBinding) -> Flow:
        import asyncio

        pool = self._pools.get((binding.directory, binding.settings))
        if pool is None:
            # Probing which sandboxes this machine supports takes a moment the first time.
            pool = yield WaitPair(lambda: self._pool_for(binding), lambda: asyncio.to_thread(self._pool_for, binding))
        called = (_code_of(binding), binding.handler, invocation.arguments)
        ctx, deadline = _script_context(invocation, binding), invocation.deadline
        invocation.secrets = pool.credentials
        try:
            found = yield WaitPair(
                lambda: pool.call(*called, ctx=ctx, deadline=deadline),
                lambda: pool.acall(*called, ctx=ctx, deadline=_before_deadline(deadline)),
            )
        except CallError as error:
            from toolyard.links.scripts import ScriptFailed, ScriptTimeout

            if isinstance(error, ScriptFailed | ScriptTimeout):
                gap = "" if not error.stderr or error.stderr.endswith("\n") else "\n"
                said = f"{error.stderr}{gap}{error.trace}" if error.trace else error.stderr
                _keep_printed(invocation, error.stdout, said)
            raise
        if found.stdout or found.stderr:
            _keep_printed(invocation, found.stdout, found.stderr)
        return found.value

    def _pool_for(self, binding: ScriptBinding) -> ScriptPool:
        from toolyard.links.scripts import ScriptPool, WorkerSettings

        # Callers may be remote, so messages show only the directory's name, not its path.
        label = os.path.basename(binding.directory.rstrip("/")) or "scripts"
        key = (binding.directory, binding.settings)
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"{label}: the engine is closed", retryable=False)
            if key not in self._pools:
                try:
                    self._pools[key] = ScriptPool(binding.settings or WorkerSettings(), label)
                except ConfigError as error:
                    raise Unavailable(f"{label}: {error}", retryable=False) from None
            return self._pools[key]

    def _close_pools(self) -> list[ScriptPool]:
        with self._lock:
            self._is_closed = True
            pools = list(self._pools.values())
            self._pools.clear()
            self._modules.close()
        return pools


def _code_of(binding: ScriptBinding) -> Code:
    """The bytes that were loaded, as sent to workers."""
    from toolyard.links.scripts import Code

    return Code(binding.file, binding.sha256 or hashlib.sha256(binding.code).hexdigest(), binding.code)


def _script_binding(invocation: Invocation) -> ScriptBinding:
    tool, binding = invocation.tool, invocation.tool.binding
    if type(binding) is not ScriptBinding or not binding.code:
        raise NoEngine(
            f"{tool.qualified_name} has no script behind it",
            hint="load the tool with ScriptToolLoader, or give its source another engine",
        )
    if binding.takes_ctx and "ctx" in invocation.arguments:
        raise InvalidArguments(
            f"{tool.qualified_name} takes no argument 'ctx'",
            hint="leave it out; the engine passes ctx to the script",
            details={"violations": [{"pointer": "/ctx", "keyword": "properties", "message": "is not an argument"}]},
        )
    return binding


def _script_context(invocation: Invocation, binding: ScriptBinding) -> Mapping[str, Any] | None:
    if not binding.takes_ctx:
        return None
    return {
        "call_id": invocation.call.call_id,
        "session_id": invocation.session_id or None,
        "mode": invocation.mode,
        "context": invocation.context,
        "trace": invocation.trace,
    }


def _before_deadline(deadline: float | None) -> float | None:
    """Slightly before the deadline, so that the output is received before the task stops waiting."""
    return None if deadline is None else deadline - min(_AHEAD, _PART * max(deadline - time.monotonic(), 0))


def _keep_printed(invocation: Invocation, stdout: str, stderr: str) -> None:
    hide = credential_finder(invocation.secrets).text
    invocation.printed = (hide(stdout), hide(stderr))


_numbers = itertools.count(1)


class ScriptModules:
    """Scripts executed in this process: each version of a file once, as a module with a unique name."""

    def __init__(self) -> None:
        self._modules: dict[tuple[str, str, str | None], ModuleType] = {}
        self._lock = threading.RLock()

    def answer(self, invocation: Invocation, binding: ScriptBinding) -> Any:
        """The handler's value, or a coroutine for it. It runs without a sandbox and cannot be interrupted."""
        tool = invocation.tool
        try:
            handler = self._handler_of(binding)
        except (CallError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise make_tool_error(tool, error) from error
        ctx = invocation.tool_context() if handler.takes_ctx else None
        value = function_caller(tool, handler)(invocation.arguments, ctx)
        return await_answer(tool, value, CALLER_ERRORS) if type(value) is CoroutineType else value

    def close(self) -> None:
        """Forget the modules; handlers still running keep their references."""
        with self._lock:
            for module in self._modules.values():
                sys.modules.pop(module.__name__, None)
            self._modules.clear()

    def _handler_of(self, binding: ScriptBinding) -> PythonBinding:
        with self._lock:
            function = _find_handler(self._load_module(binding), binding)
        return PythonBinding(function, binding.is_async, binding.takes_ctx)

    def _load_module(self, binding: ScriptBinding) -> ModuleType:
        key = (binding.directory, binding.file, binding.sha256)
        if key not in self._modules:
            stem = re.sub(r"\W", "_", binding.file.removesuffix(".py"))
            module = ModuleType(f"toolyard_script_{next(_numbers)}_{stem}")
            module.__file__ = f"{binding.directory}/{binding.file}"
            # Dataclasses and others look up their module in `sys.modules`.
            sys.modules[module.__name__] = module
            try:
                code = compile(binding.code, module.__file__, "exec", dont_inherit=True)
                exec(code, module.__dict__)  # noqa: S102 - `isolation: inprocess` asks for it
            except BaseException:
                del sys.modules[module.__name__]
                raise
            self._modules[key] = module
        return self._modules[key]


def _find_handler(module: ModuleType, binding: ScriptBinding) -> Any:
    from toolyard.links.scripts.inside.serving import ScriptRefused, find_handler

    try:
        return find_handler(module, binding.handler)
    except (ScriptRefused, LookupError, TypeError) as error:
        raise ToolFailed(f"{binding.file}: {error}", effect="none") from None


def weakest_level(tools: Iterable[Tool]) -> str:
    """The weakest sandbox level in force: `inprocess` for scripts without a sandbox, `none` if there are no scripts."""
    ways = {
        "inprocess" if binding.isolation == "inprocess" else getattr(binding.settings, "sandbox", "auto")
        for binding in (tool.binding for tool in tools)
        if type(binding) is ScriptBinding
    }
    if not ways or "inprocess" in ways:
        return "inprocess" if ways else "none"
    from toolyard.links.scripts import LEVELS, probe_level

    found: list[str] = []
    for way in ways:
        try:
            found.append(probe_level(way))
        except ConfigError:
            # This sandbox is unavailable here, so none of its scripts can run.
            continue
    return max(found, key=lambda level: [str(each) for each in LEVELS].index(level), default="none")
