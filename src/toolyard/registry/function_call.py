"""Calling an in-process tool: the callable's own arguments in, its value out, its faults told apart.

And whether that happens inside a simulation: what is called from there must change nothing either.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
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
"""None outside a simulation; inside, whether whoever asked for it may also execute."""


def enter_simulation(may_execute: bool) -> Token[bool | None]:
    """From now on calls are simulated, however they are made; until `leave_simulation`."""
    # One simulation inside another has no more rights than that.
    return _SIMULATION.set(may_execute and _SIMULATION.get() is not False)


leave_simulation = _SIMULATION.reset


class simulating:  # noqa: N801 - it stands behind `with`, like the functions of contextlib, and costs a third of them
    """Within it, and in threads and tasks begun from it by an engine, calls are simulated, however they are made."""

    __slots__ = ("_may_execute", "_token")

    def __init__(self, may_execute: bool = True) -> None:
        self._may_execute = may_execute

    def __enter__(self) -> None:
        self._token = enter_simulation(self._may_execute)

    def __exit__(self, *_error: object) -> None:
        _SIMULATION.reset(self._token)


def check_dispatch(tool: Tool) -> None:
    """Refuse to call a function that writes from inside a simulation.

    One whose effects are unknown is called: whoever calls it has said what it does itself, or may be run for real.
    """
    if tool.effects is Effects.WRITE and _SIMULATION.get() is not None:
        raise Denied(
            f"{tool.qualified_name} writes, so it is not called from inside a simulation",
            hint="call it through an engine, which has its answer made up, or look at ctx.mode first",
        )


CALLERS_FAULTS = (InvalidArguments, UnknownToolError)
"""From inside a tool these are about a call it made itself, not about the one it is answering."""


def function_caller(tool: Tool, binding: Any) -> Callable[[Any, ToolContext | None], Any]:
    """Calls the function with valid arguments: its value, or the coroutine it returned; its faults told apart.

    Where there is no function behind the tool, that is what the call raises.
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
        except BaseException as error:  # noqa: BLE001 - told apart and raised again
            raise_failure(tool, error)
        return value if type(value) is CoroutineType else check_promise(tool, value)

    return call


def plain_function(binding: Any) -> tuple[Callable[..., Any] | None, tuple[str, ...]]:
    """The function itself and which keywords it wants as int, where valid JSON is otherwise its keywords as it is."""
    if type(binding) is not PythonBinding or binding.prepare is not None:
        return None, ()
    return (None, ()) if binding.takes_ctx or binding.returns is not None else (binding.callable, binding.integers)


def wait_for(tool: Tool, work: Coroutine[Any, Any, Any]) -> Any:
    """Run what an async tool returned on the home loop, and wait for it."""
    from toolyard.loop.home import home_loop  # brings asyncio, which a registry of sync tools never needs

    try:
        return home_loop.run(settle_function(tool, work), twin="adispatch")
    except SyncInAsyncError:
        work.close()
        raise


def raise_failure(tool: Tool, error: BaseException) -> NoReturn:
    """Raise what a caller is told of something a tool's function raised.

    Only an interrupt stays itself: a function that is called, and not awaited, raised all else of its own accord.
    """
    if isinstance(error, CallError | KeyboardInterrupt) and not isinstance(error, CALLERS_FAULTS):
        raise error
    raise tool_failed(tool, error) from error


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
    failure.unforeseen, failure.raised_in = True, tool
    return failure


async def settle_function(tool: Tool, work: Coroutine[Any, Any, Any]) -> Any:
    """Await what an async function returned, its faults told apart, and check what the tool promises."""
    return check_promise(tool, await await_answer(tool, work, CALLERS_FAULTS))


async def await_answer(tool: Tool, work: Coroutine[Any, Any, Any], faults: tuple[type[CallError], ...] = ()) -> Any:
    """Await what a tool or its engine returned; whatever it raises that is no `CallError` is the tool's failure.

    So are those `CallError`s that are among `faults`.
    """
    import asyncio

    try:
        return await work
    except CallError as error:
        if not isinstance(error, faults):
            raise
        raise tool_failed(tool, error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        cancelled = task is not None and task.cancelling()
        # The task keeps the error, whose traceback knows this frame: arguments would wait to be collected.
        del task
        if cancelled:
            raise
        # Nobody cancelled this call: something that was awaited for it was.
        raise tool_failed(tool, error) from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # The last two would end the loop, and with it every other call on it.
        raise tool_failed(tool, error) from error


def integral_arguments(names: tuple[str, ...], arguments: dict[str, Any]) -> dict[str, Any]:
    """3.0 is a valid JSON Schema integer, but no int to a Python function."""
    for name in names:
        value = arguments.get(name)
        if type(value) is float:
            arguments = {**arguments, name: int(value)}
    return arguments


def check_promise(tool: Tool, value: Any) -> Any:
    """The answer, if it is what the tool's function promises."""
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
