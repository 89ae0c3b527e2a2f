"""Driving a flow: in a thread, or in a task. The flow says what happens; these two only wait.

A flow yields what it has to wait for, and is sent what came of it, or has thrown into it what went wrong. Each wait
knows how a thread does it (`here`) and how a task does (`there`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
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

    def here(self) -> Any:
        """In this thread."""

    async def there(self) -> Any:
        """In this task."""


Flow = Generator[Wait, Any, Any]


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


class LeaveTurn:
    """Gives the turn back; a store may have to be told."""

    __slots__ = ("session", "sessions")

    def __init__(self, sessions: Sessions, session: Session) -> None:
        self.sessions, self.session = sessions, session

    def here(self) -> None:
        """At once."""
        self.sessions.leave(self.session)

    async def there(self) -> None:
        """Off the loop, where the store may block."""
        await self.sessions.aleave(self.session)


class EnterGate:
    """A place behind a gate; False if there was none in time."""

    __slots__ = ("gate", "until")

    def __init__(self, gate: Gate, until: float | None) -> None:
        self.gate, self.until = gate, until

    def here(self) -> bool:
        """Wait in line."""
        return self.gate.enter(self.until, twin="aexecute")

    async def there(self) -> bool:
        """Wait in line."""
        return await self.gate.aenter(self.until)


class Pause:
    """So many seconds; 0 lets other tasks run."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def here(self) -> None:
        """Sleep."""
        check_thread("aexecute")
        time.sleep(self.seconds)

    async def there(self) -> None:
        """Sleep."""
        import asyncio

        await asyncio.sleep(self.seconds)


class AskApproval:
    """Somebody decides, and takes the time people take."""

    __slots__ = ("check", "threads")

    def __init__(self, threads: Threads, check: Callable[[], None]) -> None:
        self.threads, self.check = threads, check

    def here(self) -> None:
        """Ask."""
        self.check()

    async def there(self) -> None:
        """Ask in a thread."""
        await wrapped(self.threads.submit(self.check))


class AnswerInThread:
    """What an engine answers that blocks: on one of its threads, until the deadline."""

    __slots__ = ("engine", "invocation")

    def __init__(self, engine: Answerer, invocation: Invocation) -> None:
        self.engine, self.invocation = engine, invocation

    def here(self) -> Any:
        """Wait for the thread."""
        check_thread("aexecute")
        return answer_in_thread(self.engine, self.invocation)

    async def there(self) -> Any:
        """Wait for the thread."""
        return await aanswer_in_thread(self.engine, self.invocation)


class AwaitAnswer:
    """What a coroutine of an engine gives, until the deadline."""

    __slots__ = ("invocation", "work")

    def __init__(self, work: Coroutine[Any, Any, Any], invocation: Invocation) -> None:
        self.work, self.invocation = work, invocation

    def here(self) -> Any:
        """On the home loop."""
        return on_home_loop(self.work, self.invocation)

    async def there(self) -> Any:
        """On this loop."""
        return await aon_this_loop(self.work, self.invocation)


class WriteStore:
    """A store has it. A task that is cancelled meanwhile still waits, and the cancellation is what comes of it."""

    __slots__ = ("sessions", "write")

    def __init__(self, sessions: Sessions, write: Write) -> None:
        self.sessions, self.write = sessions, write

    def here(self) -> None:
        """Write."""
        self.sessions.write(self.write)

    async def there(self) -> BaseException | None:
        """Write to the end."""
        return await self.sessions.awrite(self.write)


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


class EitherWay:
    """A wait for what can be had in both ways, such as an exchange with a client that has a-twins."""

    __slots__ = ("here", "there")

    def __init__(self, here: Callable[[], Any], there: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.here = here
        self.there = there


def drive_here(flow: Flow) -> Any:
    """What a flow returns; where an event loop runs, a coroutine for it."""
    return adrive_value(flow) if loop_runs_here() else drive_value(flow)
