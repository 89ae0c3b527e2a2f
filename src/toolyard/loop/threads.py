"""`Threads`: a sized pool for blocking work that async code, or a deadline, must not wait for.

Unlike the standard pool it can write a thread off: work that outlives its deadline cannot be stopped, so it is
left behind and another thread takes its place. And it never keeps the interpreter from ending.
In the child of a fork threads, loops and connections are still the parent's: `renewed_in_child` makes them anew.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from toolyard.model.errors import SessionError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_IDLE_SECONDS = 10.0
_Job = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """Starts threads when there is work for them, up to `size`, and lets idle ones go."""

    def __init__(self, size: int, name: str = "toolyard-worker") -> None:
        self.size = size
        self._name = name
        self._closed = False
        self.forked()
        renewed_in_child(self)

    def forked(self) -> None:
        """In the child of a fork there are no threads yet, and nothing that they were to do is wanted there."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._alive = 0
        self._idle = 0
        self._lost: set[Future[Any]] = set()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread, in a copy of the caller's context."""
        future: Future[T] = Future()
        context = copy_context()
        with self._lock:
            if self._closed:
                raise SessionError("the engine is closed; it runs no further calls")
            self._jobs.put((future, lambda: context.run(work)))
            self._start_one_if_needed()
        return future

    def give_up(self, future: Future[Any]) -> None:
        """Have it not begun any more; if it runs already, write its thread off."""
        if not future.cancel():
            self.write_off(future)

    def write_off(self, future: Future[Any]) -> None:
        """Stop counting the thread that runs this, until it comes back: it may never."""
        with self._lock:
            if not future.running() or future in self._lost:
                return
            self._lost.add(future)
            self._start_one_if_needed()
        future.add_done_callback(self._found)

    def close(self) -> None:
        """Take no more work and let threads end when theirs is done; nobody waits for them."""
        with self._lock:
            self._closed = True
            alive = self._alive
        for _ in range(alive):
            self._jobs.put(None)

    @property
    def alive(self) -> int:
        """Threads that exist now, written-off ones included."""
        return self._alive

    def _found(self, future: Future[Any]) -> None:
        with self._lock:
            self._lost.discard(future)

    def _start_one_if_needed(self) -> None:
        # `_idle` lags behind by the jobs already queued, so queued jobs count against it.
        if self._jobs.qsize() > self._idle and self._alive - len(self._lost) < self.size:
            self._alive += 1
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            job = self._next()
            if job is None:
                return
            _run(*job)
            # A worker that waits for its next job must not keep the last one's values alive.
            del job

    def _next(self) -> _Job | None:
        """The next job; None if this thread is to end."""
        with self._lock:
            if self._alive - len(self._lost) > self.size:
                # Back from being written off, and replaced meanwhile.
                self._alive -= 1
                return None
            self._idle += 1
        try:
            job = self._jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            job = None
        with self._lock:
            self._idle -= 1
            if not self._closed:
                # A job that came while this thread still counted as idle found nobody.
                self._start_one_if_needed()
            if job is None and not self._closed and not self._jobs.empty():
                # It came while this thread was giving up.
                job = self._jobs.get_nowait()
            if job is None:
                self._alive -= 1
            return job


def _run(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = work()
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the future
        future.set_exception(error)
        # Its traceback knows this frame: with the future in it, all that the work held would wait to be collected.
        del future
    else:
        future.set_result(answer)


async def wrapped(future: Future[T]) -> T:
    """Await work in a thread; cancelling gives up waiting, the thread goes on."""
    import asyncio

    return await asyncio.wrap_future(future)


async def outlast(future: asyncio.Future[Any]) -> BaseException | None:
    """Wait until it is done even if this task is cancelled meanwhile; the cancellation that came, if one did."""
    import asyncio

    cancelled: BaseException | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def loop_runs_here() -> bool:
    """True if this thread runs an event loop, so that it must not block."""
    # Without asyncio in the process no loop runs, and importing it is not free.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return running is not None and running() is not None


_KNOWN: WeakSet[Forked] = WeakSet()
_LEFT: list[Any] = []


class Forked(Protocol):
    """What knows how to begin again in a child."""

    def forked(self) -> None:
        """Called in the child, before anything else happens there."""

    def __hash__(self) -> int: ...


def renewed_in_child(thing: Forked) -> None:
    """Have `thing.forked()` called in every child of this process, for as long as there is the thing."""
    _KNOWN.add(thing)


def leave(*things: Any) -> None:
    """Keep for good what belongs to the parent: tidied up here, its sockets and processes would be lost there, too."""
    _LEFT.extend(thing for thing in things if thing is not None)


def _in_child() -> None:
    for thing in list(_KNOWN):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)
