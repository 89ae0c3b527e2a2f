"""Letting an engine answer: in which thread or task, and until when."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from toolyard.calls.invocation import Invocation
from toolyard.calls.plan import Answerer
from toolyard.model.errors import CallError, CallTimeout, SyncInAsyncError
from toolyard.registry.function_call import await_answer, tool_failed
from toolyard.sessions.session import INSIDE, Stay

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
        return engine.answer(invocation)
    except CallError:
        raise
    except (Exception, SystemExit) as error:
        raise tool_failed(tool, error) from error


def _start_thread(engine: Answerer, invocation: Invocation) -> Future[Any]:
    def work() -> Any:
        invocation.begun = True
        # In a context of its own: a tool that calls back into its session would wait for itself.
        stay = Stay(invocation.session.gate)
        stay.enter()
        try:
            return call_engine(engine, invocation)
        except CallError:
            raise
        except BaseException as error:
            # Nobody can interrupt this thread, so whatever stops it is the tool's own doing.
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

    future = _start_thread(engine, invocation)
    waiting = asyncio.wrap_future(future)
    try:
        async with asyncio.timeout_at(invocation.deadline):
            return await asyncio.shield(waiting)
    except CallError:
        raise
    except TimeoutError:
        _leave_behind(engine, invocation, future)
        _ignore_outcome(waiting)
        raise too_late(invocation) from None
    except BaseException:
        _leave_behind(engine, invocation, future)
        _ignore_outcome(waiting)
        raise


async def aon_this_loop(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Any:
    """Await what an engine returned, until the deadline."""
    import asyncio

    if invocation.deadline is None:
        return await await_answer(invocation.tool, work)
    task = asyncio.ensure_future(await_answer(invocation.tool, work))
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
        _ignore_outcome(task)


def _leave_behind(engine: Answerer, invocation: Invocation, future: Future[Any]) -> None:
    if future.cancel():
        return  # it had not begun, and now never will
    # It runs, or is just about to.
    invocation.begun = True
    if not future.done():
        invocation.left_behind = future
        engine.threads.write_off(future)


def _ignore_outcome(future: Any) -> None:
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
