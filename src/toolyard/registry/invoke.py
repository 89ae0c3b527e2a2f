"""Calling an in-process tool: the callable's own arguments in, its value out, its faults told apart."""

from __future__ import annotations

from collections.abc import Coroutine
from types import CoroutineType
from typing import Any

from toolyard.model.bindings import PythonBinding
from toolyard.model.context import ToolContext
from toolyard.model.errors import (
    CallError,
    InvalidArguments,
    InvalidOutput,
    NoEngine,
    SyncInAsyncError,
    ToolFailed,
    UnknownToolError,
)
from toolyard.model.tool import Tool

CALLERS_FAULTS = (InvalidArguments, UnknownToolError)
"""From inside a tool these are about a call it made itself, not about the one it is answering."""


def call_python(tool: Tool, arguments: Any, ctx: ToolContext | None = None) -> Any:
    """Run a Python tool in this thread; what it awaits runs on the home loop."""
    binding = _binding(tool)
    value = start_python(tool, binding, arguments, ctx)
    if type(value) is CoroutineType:
        value = wait_for(tool, value)
    return value if binding.returns is None else checked_answer(tool, binding.returns, value)


async def acall_python(tool: Tool, arguments: Any, ctx: ToolContext | None = None) -> Any:
    """Run a Python tool on the current loop; a sync one runs inline and blocks it meanwhile."""
    binding = _binding(tool)
    value = start_python(tool, binding, arguments, ctx)
    if type(value) is CoroutineType:
        value = await settle_coroutine(tool, value)
    return value if binding.returns is None else checked_answer(tool, binding.returns, value)


def wait_for(tool: Tool, work: Coroutine[Any, Any, Any]) -> Any:
    """Run what an async tool returned on the home loop, and wait for it."""
    from toolyard.loop.home import home_loop  # brings asyncio, which a registry of sync tools never needs

    try:
        return home_loop.run(settle_coroutine(tool, work), twin="adispatch")
    except SyncInAsyncError:
        work.close()
        raise


def failure_of(tool: Tool, error: BaseException) -> BaseException:
    """What a caller is told of something a tool's function raised.

    Only an interrupt stays itself: a function that is called, and not awaited, raised all else of its own accord.
    """
    if isinstance(error, CallError) and not isinstance(error, CALLERS_FAULTS):
        return error
    if isinstance(error, KeyboardInterrupt):
        return error
    failure = tool_failed(tool, error)
    failure.__cause__ = error
    return failure


def tool_failed(tool: Tool, error: BaseException) -> ToolFailed:
    """A tool's own exception as a call error; the text is the tool's, the type is told too."""
    try:
        text = str(error)
    except Exception as unprintable:  # noqa: BLE001 - the fault to tell about is the other one
        text = f"(its text cannot be shown: {type(unprintable).__name__})"
    if hasattr(error, "error_count") and hasattr(error, "title"):
        # pydantic's text repeats the values it was given.
        text = f"{error.error_count()} errors for {error.title}"
    kind = type(error).__name__
    failure = ToolFailed(f"{tool.qualified_name} failed: {f'{kind}: {text}' if text else kind}")
    failure.unforeseen = True
    return failure


def start_python(tool: Tool, binding: PythonBinding, arguments: Any, ctx: ToolContext | None) -> Any:
    """Call the function: its value, or the coroutine it returned."""
    if binding.prepare is not None:
        args, keywords = binding.prepare(arguments)
    else:
        args, keywords = (), _integral(binding.integers, arguments)
    if binding.takes_ctx:
        keywords = {**keywords, "ctx": ctx if ctx is not None else ToolContext(tool=tool)}
    try:
        return binding.callable(*args, **keywords)
    except BaseException as error:
        failure = failure_of(tool, error)
        if failure is error:
            raise
        raise failure from error


async def settle_coroutine(tool: Tool, work: Coroutine[Any, Any, Any]) -> Any:
    """Await what an async tool returned, its faults told apart."""
    import asyncio

    try:
        return await work
    except CALLERS_FAULTS as error:
        raise tool_failed(tool, error) from error
    except CallError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise tool_failed(tool, error) from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # The last two would end the loop, and with it every other call on it.
        raise tool_failed(tool, error) from error


def _integral(names: tuple[str, ...], arguments: dict[str, Any]) -> dict[str, Any]:
    """3.0 is a valid JSON Schema integer, but no int to a Python function."""
    for name in names:
        value = arguments.get(name)
        if type(value) is float:
            arguments = {**arguments, name: int(value)}
    return arguments


def checked_answer(tool: Tool, wanted: type, value: Any) -> Any:
    """The answer, if it is what the tool promises."""
    if not isinstance(value, wanted):
        raise InvalidOutput(
            f"{tool.qualified_name} returned {type(value).__name__}, but promises {wanted.__name__}",
            hint=f"return an instance of {wanted.__name__}",
        )
    return value


def _binding(tool: Tool) -> PythonBinding:
    binding = tool.binding
    if type(binding) is PythonBinding:
        return binding
    raise NoEngine(
        f"{tool.qualified_name} has no Python function behind it",
        hint="give the call to an engine, or load the tool with PythonToolLoader",
    )
