"""Driving a flow: in a thread, or in a task. The flow says what happens; these two only wait.

A flow yields what it has to wait for, and is sent what came of it, or has thrown into it what went wrong. Each wait
knows how a thread does it (`here`) and how a task does (`there`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol, TypeVar

from toolyard.calls.deadline import aanswer_in_thread, answer_in_thread, aon_this_loop, check_thread, on_home_loop
from toolyard.calls.invocation import Invocation
from toolyard.calls.plan import Answerer
from toolyard.loop.threads import Threads, loop_runs_here, wrapped
from toolyard.sessions.gate import Gate
from toolyard.sessions.session import Session
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store import Write


class Wait(Protocol):
    """One thing to be waited for."""

    @property
    def here(self) -> Callable[[], Any]:
        """How this thread waits."""

    @property
    def there(self) -> Callable[[], Coroutine[Any, Any, Any]]:
        """How this task waits."""


Flow = Generator[Wait, Any, Any]


class EitherWay:
    """A wait for what can be had in both ways, such as an exchange with a client that has a-twins."""

    __slots__ = ("here", "there")

    def __init__(self, here: Callable[[], Any], there: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.here = here
        self.there = there


class TakeTurn:
    """The session's turn, in line, and against other processes where there is a store; True once it is taken."""

    __slots__ = ("session", "sessions", "taken", "twin", "until")

    def __init__(self, sessions: Sessions, session: Session, until: float | None, twin: str) -> None:
        self.sessions, self.session, self.until, self.twin = sessions, session, until, twin
        self.taken = False

    def here(self) -> None:
        """Wait in line."""
        check_thread(self.twin)
        self.sessions.enter(self.session, self.until, twin=self.twin)
        self.taken = True

    async def there(self) -> None:
        """Wait in line."""
        await self.sessions.aenter(self.session, self.until)
        self.taken = True


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


def ask_approval(threads: Threads, ask: Callable[[], object]) -> Wait:
    """Somebody decides, and takes the time people take; a task has them asked in a thread."""
    return EitherWay(ask, lambda: wrapped(threads.submit(ask)))


def run_beside(threads: Threads, function: Callable[..., Any], *args: Any) -> Wait:
    """Work of our own that takes longer than a loop may be held; a task has a thread do it."""
    work = partial(function, *args)
    return EitherWay(work, lambda: wrapped(threads.submit(work)))


def run_in_thread(engine: Answerer, invocation: Invocation) -> Wait:
    """What an engine answers that blocks: on one of its threads, until the deadline."""
    return EitherWay(partial(answer_in_thread, engine, invocation), partial(aanswer_in_thread, engine, invocation))


def await_answer(work: Coroutine[Any, Any, Any], invocation: Invocation) -> Wait:
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
        # An interrupt may come out here, too: the flow hears that nobody drives it any more.
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


def drive_value(flow: Flow) -> Any:
    """Run a flow in this thread, and give what it returns."""
    values: list[Any] = []
    drive(_keep_value(flow, values), values)
    return values[0]


async def adrive_value(flow: Flow) -> Any:
    """`drive_value` for a task."""
    values: list[Any] = []
    await adrive(_keep_value(flow, values), values)
    return values[0]


def _keep_value(flow: Flow, values: list[Any]) -> Flow:
    values.append((yield from flow))


def drive_here(flow: Flow) -> Any:
    """What a flow returns; where an event loop runs, a coroutine for it."""
    return adrive_value(flow) if loop_runs_here() else drive_value(flow)
