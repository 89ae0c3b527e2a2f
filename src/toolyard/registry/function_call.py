"""Call the function behind an in-process tool and convert its exceptions to call errors.

Also tracks whether the current code runs inside a simulation, since calls made from there must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import partial
from types import CoroutineType
from typing import Any, NoReturn

from toolyard.model.bindings import PythonBinding
from toolyard.model.call import ToolContext
from toolyard.model.errors import (
    CallError,
    Denied,
    InvalidArguments,
    InvalidOutput,
    NoEngine,
    SyncInAsyncError,
    ToolFailed,
    UnknownToolError,
)
from toolyard.model.tool import Effects, Tool

_SIMULATION: ContextVar[bool | None] = ContextVar("toolyard_simulation", default=None)

current_simulation = _SIMULATION.get
"""None outside a simulation; inside, whether the caller who requested it may also execute."""


def enter_simulation(may_execute: bool) -> Token[bool | None]:
    """Simulate every call made in this context until `leave_simulation`."""
    # A nested simulation has no more rights than the outer one.
    return _SIMULATION.set(may_execute and _SIMULATION.get() is not False)


leave_simulation = _SIMULATION.reset


class simulating:  # noqa: N801 - used like a contextlib function, at a third of the cost
    """Context manager in which every call is simulated, also in threads and tasks that an engine starts from it."""

    __slots__ = ("_may_execute", "_token")

    def __init__(self, may_execute: bool = True) -> None:
        self._may_execute = may_execute

    def __enter__(self) -> None:
        self._token = enter_simulation(self._may_execute)

    def __exit__(self, *_error: object) -> None:
        _SIMULATION.reset(self._token)


def check_dispatch(tool: Tool) -> None:
    """Raise `Denied` for a WRITE tool called from inside a simulation.

    A tool with unknown effects is called: the calling tool has declared its own effects, or its caller may execute.
    """
    if tool.effects is Effects.WRITE and _SIMULATION.get() is not None:
        raise Denied(
            f"{tool.qualified_name} writes, so it is not called from inside a simulation",
            hint="call it through an engine, which has its answer made up, or look at ctx.mode first",
        )


CALLER_ERRORS = (InvalidArguments, UnknownToolError)
"""Errors that, raised inside a tool, concern a call that the tool made, not the call it is answering."""


def function_caller(tool: Tool, binding: Any) -> Callable[[Any, ToolContext | None], Any]:
    """A callable that runs the tool's function with valid arguments and returns its value, or its coroutine.

    It raises a `CallError` for whatever the function raises, and `NoEngine` if the binding has no function.
    """
    if type(binding) is not PythonBinding:
        return partial(_refuse_call, tool)
    function, prepare, integers = binding.callable, binding.prepare, binding.integers

    def call(arguments: Any, ctx: ToolContext | None = None) -> Any:
        args, keywords = ((), integral_arguments(integers, arguments)) if prepare is None else prepare(arguments)
        if binding.takes_ctx:
            keywords = {**keywords, "ctx": ctx if ctx is not None else ToolContext(tool=tool)}
        try:
            value = function(*args, **keywords)
        except BaseException as error:  # noqa: BLE001 - converted and raised again
            raise_failure(tool, error)
        return value if type(value) is CoroutineType else check_return_type(tool, value)

    return call


def plain_function(binding: Any) -> tuple[Callable[..., Any] | None, tuple[str, ...]]:
    """The bare function and its int keywords, if valid JSON arguments can be passed to it directly; else None."""
    if type(binding) is not PythonBinding or binding.prepare is not None:
        return None, ()
    return (None, ()) if binding.takes_ctx or binding.returns is not None else (binding.callable, binding.integers)


def wait_for(tool: Tool, work: Coroutine[Any, Any, Any]) -> Any:
    """Run an async tool's coroutine on the home loop and wait for its value."""
    from toolyard.loop.home import home_loop  # imports asyncio, which a registry of sync tools never needs

    try:
        return home_loop.run(await_function(tool, work), twin="adispatch")
    except SyncInAsyncError:
        work.close()
        raise


def raise_failure(tool: Tool, error: BaseException) -> NoReturn:
    """Convert an exception from a tool's function to a call error and raise it.

    Of other exceptions only `KeyboardInterrupt` passes unchanged: a sync function raised all others itself.
    """
    if isinstance(error, CallError | KeyboardInterrupt) and not isinstance(error, CALLER_ERRORS):
        raise error
    raise make_tool_error(tool, error) from error


def make_tool_error(tool: Tool, error: BaseException) -> ToolFailed:
    """The call error for a tool's own exception, with its type and message."""
    try:
        text = str(error)
    except Exception as unprintable:  # noqa: BLE001 - the error to report is the other one
        text = f"(its text cannot be shown: {type(unprintable).__name__})"
    if hasattr(error, "error_count") and hasattr(error, "title"):
        # A pydantic message repeats the input values.
        text = f"{error.error_count()} errors for {error.title}"
    kind = type(error).__name__
    failure = ToolFailed(f"{tool.qualified_name} failed: {f'{kind}: {text}' if text else kind}")
    failure.unforeseen, failure.raised_in = True, tool
    return failure


async def await_function(tool: Tool, work: Coroutine[Any, Any, Any]) -> Any:
    """Await an async function's coroutine, convert its exceptions, and check its value as `check_return_type` does."""
    return check_return_type(tool, await await_answer(tool, work, CALLER_ERRORS))


async def await_answer(tool: Tool, work: Coroutine[Any, Any, Any], faults: tuple[type[CallError], ...] = ()) -> Any:
    """Await the coroutine of a tool or engine. Exceptions other than `CallError` become `ToolFailed`.

    So do `CallError`s of the classes in `faults`.
    """
    import asyncio

    # Only its identity: the task keeps the error, whose traceback refers to this frame.
    runner = id(asyncio.current_task())
    try:
        return await work
    except CallError as error:
        if not isinstance(error, faults):
            raise
        raise make_tool_error(tool, error) from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        # This call was not cancelled; something that it awaited was.
        raise make_tool_error(tool, error) from error
    except BaseException as error:
        if isinstance(error, GeneratorExit) and _find_runner() != runner:
            raise  # this coroutine is being closed, from outside of the task that ran it
        # Some, such as SystemExit, would end the loop and every other call on it; all would end the batch.
        raise make_tool_error(tool, error) from error


def is_cancelled() -> bool:
    """True if the current task is being cancelled itself, not only something that it awaited."""
    import asyncio

    # Not in the frame of the caller: the task keeps the error, whose traceback refers to that frame.
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _find_runner() -> int | None:
    import asyncio

    with suppress(RuntimeError):  # no loop is running
        return id(asyncio.current_task())
    return None


def integral_arguments(names: tuple[str, ...], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with floats such as 3.0, which JSON Schema accepts as integers, converted for int parameters."""
    for name in names:
        value = arguments.get(name)
        if type(value) is float:
            arguments = {**arguments, name: int(value)}
    return arguments


def check_return_type(tool: Tool, value: Any) -> Any:
    """Return the value; `InvalidOutput` if it is not an instance of the class that the function declares."""
    promised = tool.binding.returns if type(tool.binding) is PythonBinding else None
    if promised is not None and not isinstance(value, promised):
        raise InvalidOutput(
            f"{tool.qualified_name} returned {type(value).__name__}, but promises {promised.__name__}",
            hint=f"return an instance of {promised.__name__}",
        )
    return value


def _refuse_call(tool: Tool, arguments: Any, ctx: ToolContext | None = None) -> Any:
    raise NoEngine(
        f"{tool.qualified_name} has no Python function behind it",
        hint="give the call to an engine, or load the tool with PythonToolLoader",
    )
