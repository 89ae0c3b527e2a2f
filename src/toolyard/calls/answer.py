"""Letting an engine answer: in which thread or task, within which limits, and how often.

The two halves are the same for sync and async callers; they differ only in how they wait.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from concurrent.futures import Future
from types import CoroutineType
from typing import Any, Protocol

import msgspec

from toolyard.calls.faults.apply import altered, check_time, in_its_place, own_failure_first, wait_of
from toolyard.calls.faults.plan import FaultPlan
from toolyard.calls.faults.rules import Fault
from toolyard.calls.invocation import Invocation
from toolyard.calls.settings import Gates, Settings
from toolyard.loop.threads import Threads
from toolyard.model.errors import CallError, CallTimeout, SyncInAsyncError, Unavailable
from toolyard.model.tool import Effects, Tool
from toolyard.registry.invoke import tool_failed
from toolyard.sessions.gate import Gate
from toolyard.sessions.session import INSIDE, Stay

_GRACE = 0.1
"""Seconds a cancelled coroutine gets to clean up before it is left behind."""
_LONGEST_PAUSE = 60.0
"""Seconds that a call without a deadline is kept waiting for another try; a service may ask for a day."""


class Answerer(Protocol):
    """An engine, as the call path sees it."""

    name: str
    settings: Settings
    gates: Gates
    threads: Threads

    @property
    def idempotent(self) -> bool:
        """True if a call with an id may safely be made twice."""

    def answer(self, invocation: Invocation) -> Any:
        """The value, or a coroutine that gives it."""

    def simulator(self, tool: Tool) -> Answerer:
        """Who answers when the tool is simulated; raises `Denied` if nobody may."""

    def blocks(self, tool: Tool) -> bool:
        """True if `answer` does its work before it returns, so that an event loop must not call it."""


def answer(engine: Answerer, invocation: Invocation, faults: FaultPlan | None = None) -> Any:
    """Have the call answered from this thread; raises `CallError` whatever went wrong with it, `faults` included."""
    fault = None if faults is None else _decided(faults, invocation)
    if fault is None:
        return _answered(engine, invocation)
    wait, late = wait_of(fault, invocation)
    if wait:
        time.sleep(wait)
    check_time(invocation, late)
    if fault.instead:
        return in_its_place(fault, invocation)
    with own_failure_first(invocation):
        value = _answered(engine, invocation)
    return altered(fault, invocation, value, engine.settings.max_result_bytes)


async def aanswer(engine: Answerer, invocation: Invocation, faults: FaultPlan | None = None) -> Any:
    """`answer` for a task: the loop goes on meanwhile."""
    fault = None if faults is None else _decided(faults, invocation)
    if fault is None:
        return await _aanswered(engine, invocation)
    import asyncio

    wait, late = wait_of(fault, invocation)
    if wait:
        await asyncio.sleep(wait)
    check_time(invocation, late)
    if fault.instead:
        return in_its_place(fault, invocation)
    with own_failure_first(invocation):
        value = await _aanswered(engine, invocation)
    return altered(fault, invocation, value, engine.settings.max_result_bytes)


def _decided(faults: FaultPlan, invocation: Invocation) -> Fault | None:
    return faults.decide(invocation.tool.qualified_name, invocation.session, invocation.mode)


def _answered(engine: Answerer, invocation: Invocation) -> Any:
    """With the engine's limits, and as often as they allow."""
    if engine.settings.unlimited:
        return _attempt(engine, invocation)
    gates, arguments = engine.gates.of(invocation.tool.qualified_name), _kept_for_later(engine, invocation)
    while True:
        entered = _Entered(gates, invocation)
        try:
            entered.enter()
            return _attempt(engine, invocation)
        except CallError as error:
            pause = _pause(engine, invocation, error)
            if pause is None:
                raise
        finally:
            entered.leave()
        time.sleep(pause)
        _again(invocation, arguments)


async def _aanswered(engine: Answerer, invocation: Invocation) -> Any:
    if engine.settings.unlimited:
        return await _aattempt(engine, invocation)
    import asyncio

    gates, arguments = engine.gates.of(invocation.tool.qualified_name), _kept_for_later(engine, invocation)
    while True:
        entered = _Entered(gates, invocation)
        try:
            await entered.aenter()
            return await _aattempt(engine, invocation)
        except CallError as error:
            pause = _pause(engine, invocation, error)
            if pause is None:
                raise
        finally:
            entered.leave()
        await asyncio.sleep(pause)
        _again(invocation, arguments)


def _attempt(engine: Answerer, invocation: Invocation) -> Any:
    if invocation.deadline is not None and engine.blocks(invocation.tool):
        value = _in_a_thread(engine, invocation)
    else:
        invocation.begun = True
        value = _call(engine, invocation)
    return awaited(invocation, value)


def awaited(invocation: Invocation, value: Any) -> Any:
    """What an engine returned to sync code; a coroutine is run on the home loop and waited for."""
    if type(value) is not CoroutineType:
        return value
    from toolyard.loop.home import home_loop

    # A tool that calls back into its own session would wait for itself.
    stay, outside = Stay(invocation.session.gate), INSIDE.get()
    stay.enter()
    try:
        return home_loop.run(_within(value, invocation), twin="aexecute")
    except SyncInAsyncError:
        # Never begun. In any other case it may be running still, and must not be closed under its task.
        value.close()
        raise
    finally:
        stay.over = True
        INSIDE.set(outside)


async def _aattempt(engine: Answerer, invocation: Invocation) -> Any:
    if engine.blocks(invocation.tool):
        value = await _in_a_thread_for_a_task(engine, invocation)
    else:
        invocation.begun = True
        value = _call(engine, invocation)
    if type(value) is CoroutineType:
        value = await _within(value, invocation)
    return value


def _call(engine: Answerer, invocation: Invocation) -> Any:
    tool = invocation.tool
    try:
        return engine.answer(invocation)
    except CallError:
        raise
    except (Exception, SystemExit) as error:
        raise tool_failed(tool, error) from error


def _start(engine: Answerer, invocation: Invocation) -> Future[Any]:
    def work() -> Any:
        invocation.begun = True
        # In a context of its own: a tool that calls back into its session would wait for itself.
        stay = Stay(invocation.session.gate)
        stay.enter()
        try:
            return _call(engine, invocation)
        except CallError:
            raise
        except BaseException as error:
            # Nobody can interrupt this thread, so whatever stops it is the tool's own doing.
            raise tool_failed(invocation.tool, error) from error
        finally:
            stay.over = True

    return engine.threads.submit(work)


def _in_a_thread(engine: Answerer, invocation: Invocation) -> Any:
    future = _start(engine, invocation)
    try:
        return future.result(invocation.remaining)
    except TimeoutError:
        if future.done():
            return future.result()  # answered at the last moment
        _leave_behind(engine, invocation, future)
        raise too_late(invocation) from None
    except CallError:
        raise
    except BaseException:
        # This thread is being stopped; the other cannot be.
        _leave_behind(engine, invocation, future)
        raise


async def _in_a_thread_for_a_task(engine: Answerer, invocation: Invocation) -> Any:
    import asyncio

    future = _start(engine, invocation)
    waiting = asyncio.wrap_future(future)
    try:
        async with asyncio.timeout_at(invocation.deadline):
            return await asyncio.shield(waiting)
    except CallError:
        raise
    except TimeoutError:
        _leave_behind(engine, invocation, future)
        _ignore(waiting)
        raise too_late(invocation) from None
    except BaseException:
        _leave_behind(engine, invocation, future)
        _ignore(waiting)
        raise


async def _within(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Any:
    """Await what an engine returned, until the deadline."""
    import asyncio

    if invocation.deadline is None:
        return await _settled(work, invocation)
    task = asyncio.ensure_future(_settled(work, invocation))
    try:
        await asyncio.wait({task}, timeout=invocation.remaining)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await _see_off(task, invocation)
    raise too_late(invocation)


async def _settled(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Any:
    import asyncio

    try:
        return await work
    except CallError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody cancelled this call: something that the engine awaited was.
        raise tool_failed(invocation.tool, error) from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # The last two would end the loop, and with it every other call on it.
        raise tool_failed(invocation.tool, error) from error


async def _see_off(task: Any, invocation: Invocation) -> None:
    """Let a cancelled task end; if it will not, remember that it is still there."""
    import asyncio

    try:
        await asyncio.wait({task}, timeout=_GRACE)
    finally:
        if not task.done():
            ended: Future[None] = Future()
            invocation.left_behind = ended
            task.add_done_callback(lambda _: ended.set_result(None))
        _ignore(task)


def _leave_behind(engine: Answerer, invocation: Invocation, future: Future[Any]) -> None:
    if future.cancel():
        return  # it had not begun, and now never will
    # It runs, or is just about to.
    invocation.begun = True
    if not future.done():
        invocation.left_behind = future
        engine.threads.write_off(future)


def _ignore(future: Any) -> None:
    """Whatever becomes of it, nobody is waiting any more; asyncio need not complain."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())


def too_late(invocation: Invocation) -> CallTimeout:
    """What is said of a call whose deadline has passed."""
    if not invocation.begun:
        return CallTimeout(
            f"{invocation.tool.qualified_name} could not begin before its deadline: all threads are busy", effect="none"
        )
    return CallTimeout(
        f"{invocation.tool.qualified_name} did not answer before its deadline",
        hint="it may still be running; find out whether it took effect before you call it again",
    )


def _pause(engine: Answerer, invocation: Invocation, error: CallError) -> float | None:
    """Seconds to wait before another try; None if there must not be one."""
    settings = engine.settings
    if not error.info.retryable or invocation.attempt > settings.retries or invocation.left_behind is not None:
        return None
    keyed = engine.idempotent and invocation.idempotency_key is not None
    if invocation.tool.effects is not Effects.READ and not keyed:
        return None
    after = error.info.retry_after
    pause = settings.retry_delay * 2 ** (invocation.attempt - 1) if after is None else after
    remaining = invocation.remaining
    most = _LONGEST_PAUSE if remaining is None else remaining
    return None if pause >= most else pause


def _kept_for_later(engine: Answerer, invocation: Invocation) -> bytes:
    """The arguments as they are now: a try may change its own, and the next must not see that."""
    return msgspec.json.encode(invocation.arguments) if engine.settings.retries else b""


def _again(invocation: Invocation, arguments: bytes) -> None:
    invocation.attempt += 1
    invocation.arguments = msgspec.json.decode(arguments)
    invocation.kept = None


class _Entered:
    """The gates one try is inside of; a call that is left behind stays inside until it ends."""

    def __init__(self, gates: tuple[Gate, ...], invocation: Invocation) -> None:
        self._gates = gates
        self._invocation = invocation
        self._inside: list[Gate] = []

    def enter(self) -> None:
        for gate in self._gates:
            if not gate.enter(self._invocation.deadline, twin="aexecute"):
                raise self._full()
            self._inside.append(gate)

    async def aenter(self) -> None:
        for gate in self._gates:
            if not await gate.aenter(self._invocation.deadline):
                raise self._full()
            self._inside.append(gate)

    def leave(self) -> None:
        inside, self._inside = self._inside, []
        left = self._invocation.left_behind
        if left is None:
            _leave_all(inside)
        else:
            left.add_done_callback(lambda _: _leave_all(inside))

    def _full(self) -> Unavailable:
        return Unavailable(
            f"{self._invocation.tool.qualified_name} waited past its deadline: as many calls as allowed are running",
            hint="try again later, or raise max_concurrent_calls",
        )


def _leave_all(gates: list[Gate]) -> None:
    for gate in reversed(gates):
        gate.leave()
