"""`ScriptRunner`: has handlers of scripts run, in worker processes or, where that was chosen, in this one."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.calls.invocation import Invocation
from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import CallError, ConfigError, InvalidArguments, NoEngine, Unavailable
from toolyard.model.tool import Tool

if TYPE_CHECKING:
    from toolyard.engines.scripts.in_process import ScriptModules
    from toolyard.links.scripts import Answer, Code, WorkerPool

_AHEAD, _PART = 0.05, 0.1
"""Seconds, and the part of what is left, by which a script is ended before its caller stops waiting."""

Place = tuple[str, Any]
"""A directory and how its workers are made."""


class ScriptRunner:
    """A pool of workers for each directory and its settings, made when first needed."""

    def __init__(self) -> None:
        self._pools: dict[Place, WorkerPool] = {}
        self._modules: ScriptModules | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def blocks(self, tool: Tool) -> bool:
        """Only a function that runs in this process; workers are waited for as the caller waits."""
        binding = tool.binding
        return isinstance(binding, ScriptBinding) and binding.isolation == "inprocess" and not binding.is_async

    def answer(self, invocation: Invocation) -> Any:
        """What the handler returned; where an event loop runs, a coroutine for it."""
        binding = _script_binding(invocation)
        if binding.isolation == "inprocess":
            return self._own_modules().answer(invocation, binding)
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            looping = False
        else:
            looping = True
        # Outside of the handler, whose exception would pass for the cause of whatever goes wrong now.
        return self._acall_worker(invocation, binding) if looping else self._call_worker(invocation, binding)

    def close(self) -> None:
        """End every worker."""
        for pool in self._close_pools():
            pool.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        for pool in self._close_pools():
            await pool.aclose()

    def _call_worker(self, invocation: Invocation, binding: ScriptBinding) -> Any:
        pool, code = self._pool_for(binding), code_of(binding)
        try:
            found = pool.call(
                code,
                binding.handler,
                invocation.arguments,
                ctx=_script_context(invocation, binding),
                deadline=invocation.deadline,
            )
        except CallError as error:
            _keep_what_failed_printed(invocation, error)
            raise
        return _take_value(invocation, found)

    async def _acall_worker(self, invocation: Invocation, binding: ScriptBinding) -> Any:
        pool = self._pools.get((binding.directory, binding.settings))
        if pool is None:
            import asyncio

            # To find out what this machine can do takes a moment, the first time.
            pool = await asyncio.to_thread(self._pool_for, binding)
        code, deadline = code_of(binding), invocation.deadline
        if deadline is not None:
            # Before the caller stops waiting: then what was printed is not lost.
            deadline -= min(_AHEAD, _PART * max(deadline - time.monotonic(), 0))
        try:
            found = await pool.acall(
                code, binding.handler, invocation.arguments, ctx=_script_context(invocation, binding), deadline=deadline
            )
        except CallError as error:
            _keep_what_failed_printed(invocation, error)
            raise
        return _take_value(invocation, found)

    def _pool_for(self, binding: ScriptBinding) -> WorkerPool:
        key = (binding.directory, binding.settings)
        found = self._pools.get(key)
        if found is not None:
            return found
        from toolyard.links.scripts import WorkerPool, WorkerSettings

        # Callers may be anywhere, so they learn what the directory is called, and not where it is.
        label = os.path.basename(binding.directory.rstrip("/")) or "scripts"
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"{label}: the engine is closed", retryable=False)
            if key not in self._pools:
                try:
                    self._pools[key] = WorkerPool(binding.settings or WorkerSettings(), label)
                except ConfigError as error:
                    raise Unavailable(f"{label}: {error}", retryable=False) from None
            return self._pools[key]

    def _own_modules(self) -> ScriptModules:
        with self._lock:
            if self._modules is None:
                from toolyard.engines.scripts.in_process import ScriptModules

                self._modules = ScriptModules()
            return self._modules

    def _close_pools(self) -> list[WorkerPool]:
        with self._lock:
            self._is_closed = True
            pools = list(self._pools.values())
            self._pools.clear()
            if self._modules is not None:
                self._modules.close()
        return pools


def code_of(binding: ScriptBinding) -> Code:
    """The bytes that were loaded."""
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
            hint="leave it out; the script is told about its call by who runs it",
            details={"violations": [{"pointer": "/ctx", "keyword": "properties", "message": "is not an argument"}]},
        )
    return binding


def _script_context(invocation: Invocation, binding: ScriptBinding) -> Mapping[str, Any] | None:
    if not binding.takes_ctx:
        return None
    given = {
        "call_id": invocation.call.call_id,
        "session_id": invocation.session_id or None,
        "context": invocation.context,
        "trace": invocation.trace,
    }
    if invocation.context or invocation.trace:
        try:
            msgspec.json.encode(given)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            # Before anything has begun: objects of the caller's process mean nothing in another.
            raise InvalidArguments(
                f"the context of the call cannot be sent to a script: {error}", hint="send plain JSON along"
            ) from None
    return given


def _take_value(invocation: Invocation, found: Answer) -> Any:
    if found.stdout or found.stderr:
        invocation.printed = (found.stdout, found.stderr)
    return found.value


def _keep_what_failed_printed(invocation: Invocation, error: CallError) -> None:
    from toolyard.links.scripts import ScriptFailed, ScriptTimeout

    if isinstance(error, ScriptFailed | ScriptTimeout):
        gap = "" if not error.stderr or error.stderr.endswith("\n") else "\n"
        invocation.printed = (error.stdout, f"{error.stderr}{gap}{error.trace}" if error.trace else error.stderr)
