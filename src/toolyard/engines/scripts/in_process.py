"""`ScriptModules`: scripts that run in this process, because somebody chose that they should."""

from __future__ import annotations

import itertools
import re
import sys
import threading
from types import CoroutineType, ModuleType
from typing import Any

from toolyard.calls.invocation import Invocation
from toolyard.model.bindings import PythonBinding, ScriptBinding
from toolyard.model.errors import CallError, ToolFailed
from toolyard.registry.function_call import function_caller, settle_coroutine, tool_failed

_ENTRY = re.compile(r"TOOLS\[(\d+)\]")
_numbers = itertools.count(1)


class ScriptModules:
    """What was executed so far: each file once for its bytes, under a name that is nobody else's."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str, str | None], dict[str, PythonBinding]] = {}
        self._modules: dict[tuple[str, str, str | None], ModuleType] = {}
        self._lock = threading.RLock()

    def answer(self, invocation: Invocation, binding: ScriptBinding) -> Any:
        """The handler's value, or a coroutine for it. Nothing holds it, and nothing can end it."""
        tool = invocation.tool
        try:
            handler = self._handler_of(binding)
        except (CallError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise tool_failed(tool, error) from error
        ctx = invocation.tool_context() if handler.takes_ctx else None
        value = function_caller(tool, handler)(invocation.arguments, ctx)
        return settle_coroutine(tool, value) if type(value) is CoroutineType else value

    def close(self) -> None:
        """Forget them; what still runs keeps what it has."""
        with self._lock:
            for module in self._modules.values():
                sys.modules.pop(module.__name__, None)
            self._modules.clear()
            self._handlers.clear()

    def _handler_of(self, binding: ScriptBinding) -> PythonBinding:
        key = (binding.directory, binding.file, binding.sha256)
        with self._lock:
            known = self._handlers.setdefault(key, {})
            if binding.handler not in known:
                function = _find_handler(self._execute_module(key, binding), binding)
                known[binding.handler] = PythonBinding(function, binding.is_async, binding.takes_ctx)
            return known[binding.handler]

    def _execute_module(self, key: tuple[str, str, str | None], binding: ScriptBinding) -> ModuleType:
        if key not in self._modules:
            stem = re.sub(r"\W", "_", binding.file.removesuffix(".py"))
            module = ModuleType(f"toolyard_script_{next(_numbers)}_{stem}")
            module.__file__ = f"{binding.directory}/{binding.file}"
            # Dataclasses and the like look their module up; no other module has such a name.
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
    entry = _ENTRY.fullmatch(binding.handler)
    try:
        found = module.TOOLS[int(entry[1])]["handler"] if entry else getattr(module, binding.handler)
    except (AttributeError, IndexError, KeyError, TypeError):
        found = None
    if not callable(found):
        raise ToolFailed(f"{binding.file}: {binding.handler} is not a function there", effect="none")
    return found
