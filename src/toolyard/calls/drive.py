"""Driving a flow: in a thread, or in a task. The flow says what happens; these two only wait.

A flow yields what it has to wait for, and is sent what came of it, or has thrown into it what went wrong. Each wait
knows how a thread does it (`here`) and how a task does (`there`); that of an engine's answer also knows until when.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import msgspec

from toolyard.calls.answerer import Answerer
from toolyard.calls.invocation import Invocation
from toolyard.calls.settings import count_values
from toolyard.loop.threads import Threads, loop_runs_here, wrapped
from toolyard.model.errors import CallError, CallTimeout, SyncInAsyncError
from toolyard.registry.function_call import await_answer, tool_failed
from toolyard.sessions.gate import Gate
from toolyard.sessions.session import INSIDE, Session, Stay
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.base import Write

_GRACE = 0.1
"""Seconds a cancelled coroutine gets to clean up before it is left behind."""


def on_home_loop(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Any:
    """What a coroutine of an engine gives, for sync code: it runs on the home loop until the deadline."""
    from toolyard.loop.home import home_loop

    # A tool that calls back into its own session would wait for itself.
    stay, outside = Stay(invocation.session.gate), INSIDE.get()
    stay.enter()
    try:
        return home_loop.run(aon_this_loop(work, invocation), twin="aexecute")
    except SyncInAsyncError:
        # Never begun. In any other case it may be running still, and must not be closed under its task.
        work.close()
        raise
    finally:
        stay.over = True
        INSIDE.set(outside)


def check_thread(twin: str) -> None:
    """Refuse to wait on the home loop or that of links, where what is waited for may have to run."""
    # Where it was never imported, or is being imported at this moment, it does not run.
    home = sys.modules.get("toolyard.loop.home")
    for loop, name in (("home_loop", "home loop"), ("link_loop", "loop of links")):
        found = getattr(home, loop, None)
        if found is not None and found.is_here():
            raise SyncInAsyncError(f"this is the {name}, which must not wait; await {twin} instead")


def call_engine(engine: Answerer, invocation: Invocation) -> Any:
    """What the engine answers, or a coroutine for it; raises `CallError` whatever it raised."""
    tool = invocation.tool
    try:
        value = engine.answer(invocation)
        # What is computed while it is gone through has the tool's deadline, too.
        if hasattr(type(value), "__next__"):
            return list(islice(value, count_values(engine.settings.max_result_bytes) + 1))
        return value
    except CallError:
        raise
    except (Exception, SystemExit) as error:
        raise tool_failed(tool, error) from error


def _start_thread(engine: Answerer, invocation: Invocation) -> Future[Any]:
    def work() -> Any:
        invocation.begun = True
        # In a separate context: a tool that calls back into its session would wait for itself.
        stay = Stay(invocation.session.gate)
        stay.enter()
        try:
            return call_engine(engine, invocation)
        except CallError:
            raise
        except BaseException as error:
            # Nothing can interrupt this thread, so whatever stops it is the tool's own doing.
            raise tool_failed(invocation.tool, error) from error
        finally:
            stay.over = True

    return engine.threads.submit(work)


def answer_in_thread(engine: Answerer, invocation: Invocation) -> Any:
    """Have a thread of the engine answer, and wait for it until the deadline."""
    check_thread("aexecute")
    future = _start_thread(engine, invocation)
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


async def aanswer_in_thread(engine: Answerer, invocation: Invocation) -> Any:
    """`answer_in_thread` for a task."""
    import asyncio

    loop, future = asyncio.get_running_loop(), _start_thread(engine, invocation)
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake_from_thread(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nothing waits any more
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(wake_from_thread)
    # Whichever comes first; asyncio's own timeout and shield cost as much again as the thread.
    timer = None if invocation.deadline is None else loop.call_at(invocation.deadline, wake)
    try:
        await woken
    except BaseException:
        _leave_behind(engine, invocation, future)
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if future.done():
        return future.result()
    _leave_behind(engine, invocation, future)
    raise too_late(invocation)


async def aon_this_loop(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Any:
    """Await what an engine returned, until the deadline."""
    import asyncio

    if invocation.deadline is None:
        return await await_answer(invocation.tool, work)
    task = asyncio.get_running_loop().create_task(await_answer(invocation.tool, work))
    try:
        # Most are done by their first step, and need no timer, which the loop would keep for as long as it might run.
        await asyncio.sleep(0)
        if not task.done():
            await asyncio.wait({task}, timeout=invocation.remaining)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await _see_off(task, invocation)
    raise too_late(invocation)


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
        # Whatever becomes of it, nothing waits for it any more; asyncio need not complain.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _leave_behind(engine: Answerer, invocation: Invocation, future: Future[Any]) -> None:
    if future.cancel():
        return  # it had not begun, and now never will
    # It runs, or is just about to.
    invocation.begun = True
    if not future.done():
        invocation.left_behind = future
        engine.threads.write_off(future)


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


class EitherWay(msgspec.Struct, frozen=True):
    """A wait for what can be had in both ways, such as an exchange with a client that has a-twins."""

    here: Callable[[], Any]
    there: Callable[[], Coroutine[Any, Any, Any]]


class TakeTurn(msgspec.Struct, eq=False):
    """The session's turn, in line, and against other processes where there is a store; `taken` once it is."""

    sessions: Sessions
    session: Session
    until: float | None
    twin: str
    taken: bool = False

    def here(self) -> None:
        """Wait in line."""
        check_thread(self.twin)
        self.sessions.enter(self.session, self.until, twin=self.twin)
        self.taken = True

    async def there(self) -> None:
        """Wait in line."""
        await self.sessions.aenter(self.session, self.until)
        self.taken = True


Wait = EitherWay | TakeTurn
"""One thing to be waited for, by this thread (`here`) or by this task (`there`)."""
Flow = Generator[Wait, Any, Any]


def leave_turn(sessions: Sessions, session: Session) -> Wait:
    """The turn is given back; a store may have to be told, by a task off its loop."""
    return EitherWay(partial(sessions.leave, session), partial(sessions.aleave, session))


def enter_gate(gate: Gate, until: float | None) -> Wait:
    """A place behind a gate; False if there was none in time."""
    return EitherWay(partial(gate.enter, until, twin="aexecute"), partial(gate.aenter, until))


def pause(seconds: float) -> Wait:
    """So many seconds; 0 lets other tasks run."""
    return EitherWay(partial(sleep_here, seconds), partial(_asleep, seconds))


def sleep_here(seconds: float) -> None:
    """Sleep, in a thread that may."""
    check_thread("aexecute")
    time.sleep(seconds)


async def _asleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


def run_beside(threads: Threads, function: Callable[..., Any], *args: Any) -> Wait:
    """Work that takes longer than a loop may be held, or as long as people take; a task has a thread do it."""
    work = partial(function, *args)
    return EitherWay(work, lambda: wrapped(threads.submit(work)))


def run_in_thread(engine: Answerer, invocation: Invocation) -> Wait:
    """What an engine answers that blocks: on one of its threads, until the deadline."""
    return EitherWay(partial(answer_in_thread, engine, invocation), partial(aanswer_in_thread, engine, invocation))


def await_coroutine(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Wait:
    """What a coroutine of an engine gives, until the deadline; a thread has it run on the home loop."""
    return EitherWay(partial(on_home_loop, work, invocation), partial(aon_this_loop, work, invocation))


def write_store(sessions: Sessions, write: Write) -> Wait:
    """A store has it. A task that is cancelled meanwhile still waits, and the cancellation is what comes of it."""
    return EitherWay(partial(sessions.write, write), partial(sessions.awrite, write))


T = TypeVar("T")


def drive(flow: Flow, results: T) -> T:
    """Run a flow in this thread. One that waits for nothing is over at once."""
    for wait in flow:
        _drive_on(flow, wait)
    return results


def _drive_on(flow: Flow, wait: Wait) -> None:
    got: Any
    try:
        while True:
            try:
                got = wait.here()
            except BaseException as error:  # noqa: BLE001 - it belongs to the flow, interrupts too
                wait = flow.throw(error)
            else:
                wait = flow.send(got)
    except StopIteration:
        return
    finally:
        # An interrupt may come out here, too: the flow hears that its driver is gone.
        flow.close()


async def adrive(flow: Flow, results: T) -> T:
    """Run a flow in this task."""
    for first in flow:
        wait: Wait = first
        try:
            while True:
                try:
                    got = await wait.there()
                except GeneratorExit:
                    raise  # the task itself is thrown away: nothing can be awaited any more
                except BaseException as error:  # noqa: BLE001 - it belongs to the flow, cancellations too
                    wait = flow.throw(error)
                else:
                    wait = flow.send(got)
        except StopIteration:
            return results
        finally:
            flow.close()
    return results


def drive_here(flow: Flow) -> Any:
    """What a flow returns; where an event loop runs, a coroutine for it."""
    values: list[Any] = []
    kept = _keep_value(flow, values)
    return _adrive_value(kept, values) if loop_runs_here() else drive(kept, values)[0]


def _keep_value(flow: Flow, values: list[Any]) -> Flow:
    values.append((yield from flow))


async def _adrive_value(kept: Flow, values: list[Any]) -> Any:
    return (await adrive(kept, values))[0]
