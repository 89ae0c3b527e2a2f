"""What a flow waits for: a session's turn, a gate, an engine, a thread, the store.

A flow yields a wait; its driver sends back the value, or throws the exception into the flow. Each wait knows how a
thread waits (`block`) and how a task does (`suspend`); waits for an engine also enforce the deadline of the call.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from toolyard.calls.call_path import Answerer, count_values
from toolyard.calls.invocation import Invocation
from toolyard.loop.threads import Threads, await_future
from toolyard.model.errors import CallError, CallTimeout, SyncInAsyncError
from toolyard.model.tool import Effects
from toolyard.registry.function_call import await_answer, is_cancelled, make_tool_error
from toolyard.sessions.gate import Gate
from toolyard.sessions.session import ENTERED_TURNS, EnteredTurn, Session
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.base import Write

_GRACE = 0.1
"""Seconds that a cancelled coroutine gets to clean up before it is abandoned."""


def run_on_home_loop(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Any:
    """Run an engine's coroutine on the home loop and block this thread for its value, until the deadline."""
    from toolyard.loop.home import home_loop

    # Mark this context as inside the session, so that a tool's call into its own session raises instead of deadlocking.
    turn, outside = EnteredTurn(invocation.session.gate), ENTERED_TURNS.get()
    turn.enter()
    try:
        return home_loop.run(await_within_deadline(work, invocation), twin="aexecute")
    except SyncInAsyncError:
        # It never began. In all other cases a task may still be running it, so it must not be closed.
        work.close()
        raise
    finally:
        turn.is_over = True
        ENTERED_TURNS.set(outside)


def check_thread(twin: str) -> None:
    """Raise `SyncInAsyncError` on the home loop or the loop of links: blocking either could deadlock."""
    # If the module is not, or not fully, imported, its loops do not run yet.
    home = sys.modules.get("toolyard.loop.home")
    for loop, name in (("home_loop", "home loop"), ("link_loop", "loop of links")):
        found = getattr(home, loop, None)
        if found is not None and found.is_here():
            raise SyncInAsyncError(f"this is the {name}, which must not wait; await {twin} instead")


def call_engine(engine: Answerer, invocation: Invocation) -> Any:
    """The engine's value, or a coroutine for it. Any exception of the engine becomes a `CallError`."""
    tool = invocation.tool
    try:
        value = engine.answer(invocation)
        # Consume iterators here, so that the work of producing items counts against the deadline.
        if hasattr(type(value), "__next__"):
            return list(islice(value, count_values(engine.settings.max_result_bytes) + 1))
        return value
    except (CallError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise make_tool_error(tool, error) from error


def _start_thread(engine: Answerer, invocation: Invocation) -> Future[Any]:
    def work() -> Any:
        invocation.begun = True
        # Set in the context copied for this thread only; see `run_on_home_loop`.
        turn = EnteredTurn(invocation.session.gate)
        turn.enter()
        try:
            return call_engine(engine, invocation)
        except CallError:
            raise
        except BaseException as error:
            # Nothing else can interrupt this thread, so the exception was raised by the tool.
            raise make_tool_error(invocation.tool, error) from error
        finally:
            turn.is_over = True

    return engine.threads.submit(work)


def answer_in_thread(engine: Answerer, invocation: Invocation) -> Any:
    """Have a thread of the engine answer, and wait for it until the deadline."""
    check_thread("aexecute")
    future = _start_thread(engine, invocation)
    try:
        return future.result(invocation.remaining)
    except TimeoutError:
        if future.done():
            return future.result()  # it finished just as the wait timed out
        _abandon(engine, invocation, future)
        raise deadline_error(invocation) from None
    except CallError:
        raise
    except BaseException:
        # This thread was interrupted; the worker thread cannot be.
        _abandon(engine, invocation, future)
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
        with suppress(RuntimeError):  # the loop is closed, so no task waits any more
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(wake_from_thread)
    # Wait for the result or the deadline. `asyncio.timeout` with `shield` would double the cost of using a thread.
    timer = None if invocation.deadline is None else loop.call_at(invocation.deadline, wake)
    try:
        await woken
    except BaseException:
        _abandon(engine, invocation, future)
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if future.done():
        return future.result()
    _abandon(engine, invocation, future)
    raise deadline_error(invocation)


async def await_within_deadline(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Any:
    """Await the coroutine that an engine returned, until the deadline; then cancel it and raise `CallTimeout`."""
    import asyncio

    if invocation.deadline is None:
        return await await_answer(invocation.tool, work)
    task = asyncio.get_running_loop().create_task(await_answer(invocation.tool, work))
    try:
        # Most are done after their first step and need no timer, which the loop would keep until the deadline.
        await asyncio.sleep(0)
        if not task.done():
            await asyncio.wait({task}, timeout=invocation.remaining)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await _await_cleanup(task, invocation)
    raise deadline_error(invocation)


async def _await_cleanup(task: Any, invocation: Invocation) -> None:
    """Give a cancelled task a short time to end; if it does not, record it in `left_behind`."""
    import asyncio

    try:
        await asyncio.wait({task}, timeout=_GRACE)
    finally:
        if not task.done():
            ended: Future[None] = Future()
            invocation.left_behind = ended
            task.add_done_callback(lambda _: ended.set_result(None))
        # Retrieve its exception, so that asyncio does not log it as never retrieved.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _abandon(engine: Answerer, invocation: Invocation, future: Future[Any]) -> None:
    if future.cancel():
        return  # it had not begun, and never will
    # It is running, or about to.
    invocation.begun = True
    if not future.done():
        invocation.left_behind = future
        engine.threads.write_off(future)


def deadline_error(invocation: Invocation) -> CallTimeout:
    """The error for a call that missed its deadline; its effect is `none` if the call never began."""
    if not invocation.begun:
        return CallTimeout(
            f"{invocation.tool.qualified_name} could not begin before its deadline: all threads are busy", effect="none"
        )
    hint = "it may still be running; find out whether it took effect before you call it again"
    return CallTimeout(
        f"{invocation.tool.qualified_name} did not answer before its deadline",
        hint=None if invocation.tool.effects is Effects.READ else hint,
    )


class WaitPair(msgspec.Struct, frozen=True):
    """A wait given as a pair: a blocking function and its async twin."""

    block: Callable[[], Any]
    suspend: Callable[[], Coroutine[Any, Any, Any]]


class TakeTurn(msgspec.Struct, eq=False):
    """Wait in order for the session's turn, which with a store excludes other processes too. Sets `taken`."""

    sessions: Sessions
    session: Session
    until: float | None
    twin: str
    taken: bool = False

    def block(self) -> None:
        """Wait in this thread."""
        check_thread(self.twin)
        self.sessions.enter(self.session, self.until, twin=self.twin)
        self.taken = True

    async def suspend(self) -> None:
        """Wait in this task."""
        await self.sessions.aenter(self.session, self.until)
        self.taken = True


Wait = WaitPair | TakeTurn
"""Something to wait for, in this thread (`block`) or in this task (`suspend`)."""
Flow = Generator[Wait, Any, Any]


def leave_turn(sessions: Sessions, session: Session) -> Wait:
    """Give the turn back. This may write to a store, which a task does off its loop."""
    return WaitPair(partial(sessions.leave, session), partial(sessions.aleave, session))


def enter_gate(gate: Gate, until: float | None) -> Wait:
    """Take a place in a gate; sends False on timeout."""
    return WaitPair(partial(gate.enter, until, twin="aexecute"), partial(gate.aenter, until))


def pause(seconds: float) -> Wait:
    """Pause for this many seconds; 0 lets other tasks run."""
    return WaitPair(partial(sleep_here, seconds), partial(_asleep, seconds))


def sleep_here(seconds: float) -> None:
    """Sleep in this thread; `SyncInAsyncError` on one of our event loops."""
    check_thread("aexecute")
    time.sleep(seconds)


async def _asleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


def offload(threads: Threads, function: Callable[..., Any], *args: Any) -> Wait:
    """Work too slow for an event loop, or that waits for a person: a thread does it itself, a task uses `threads`."""
    work = partial(function, *args)
    return WaitPair(work, lambda: await_future(threads.submit(work)))


def call_approver(threads: Threads, approver: Callable[[], object]) -> Wait:
    """Call a function that may be async, and wait for its answer; sends an exception that it raised.

    A thread runs its coroutine on the home loop, a task on its own loop, where the futures of the caller belong.
    """

    def block() -> object:
        try:
            answer = approver()
            if not isinstance(answer, Coroutine):
                return answer
            from toolyard.loop.home import home_loop

            return home_loop.run(answer, twin="aexecute")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no yes
            return error

    async def suspend() -> object:
        import asyncio

        try:
            answer = await await_future(threads.submit(approver))
            return await answer if isinstance(answer, Coroutine) else answer
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            return error  # something that the approver awaited was cancelled, not this call
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no yes
            return error

    return WaitPair(block, suspend)


def run_in_thread(engine: Answerer, invocation: Invocation) -> Wait:
    """Have an engine that blocks answer in one of its threads, until the deadline."""
    return WaitPair(partial(answer_in_thread, engine, invocation), partial(aanswer_in_thread, engine, invocation))


def await_coroutine(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Wait:
    """Await an engine's coroutine until the deadline: a thread runs it on the home loop, a task on its own loop."""
    return WaitPair(partial(run_on_home_loop, work, invocation), partial(await_within_deadline, work, invocation))


def write_store(sessions: Sessions, write: Write) -> Wait:
    """Write to the store. A task cancelled meanwhile still waits for the write, and is then sent the cancellation."""
    return WaitPair(partial(sessions.write, write), partial(sessions.awrite, write))
