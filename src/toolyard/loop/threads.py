"""`Threads`: a bounded thread pool for blocking work.

Unlike the standard pool it can write a thread off: work that outlives its deadline cannot be stopped, so its thread is
abandoned and replaced. It never delays the exit of the interpreter. `reset_after_fork` resets objects in a forked
child, where inherited threads, loops and connections do not work.
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
    """A pool that starts up to `size` threads on demand and ends idle ones."""

    def __init__(self, size: int, name: str = "toolyard-worker") -> None:
        self.size = size
        self._name = name
        self._closed = False
        self.reset_in_child()
        reset_after_fork(self)

    def reset_in_child(self) -> None:
        """Reset in a forked child: it has none of the threads, and queued work belongs to the parent."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self.alive = 0
        """Number of existing threads, including those written off."""
        self._idle = 0
        self._written_off: set[Future[Any]] = set()

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
        """Cancel work that has not started; if it runs already, write its thread off."""
        if not future.cancel():
            self.write_off(future)

    def write_off(self, future: Future[Any]) -> None:
        """Stop counting the thread that runs this work, and let another one replace it, until the work ends."""
        with self._lock:
            if not future.running() or future in self._written_off:
                return
            self._written_off.add(future)
            self._start_one_if_needed()
        future.add_done_callback(self._recover)

    def close(self) -> None:
        """Accept no more work and let the threads end after theirs, without waiting for them."""
        with self._lock:
            self._closed = True
            alive = self.alive
        for _ in range(alive):
            self._jobs.put(None)

    def _recover(self, future: Future[Any]) -> None:
        with self._lock:
            self._written_off.discard(future)

    def _start_one_if_needed(self) -> None:
        # `_idle` lags behind by the jobs already queued, so queued jobs count against it.
        if self._jobs.qsize() > self._idle and self.alive - len(self._written_off) < self.size:
            self.alive += 1
            threading.Thread(target=self._run_jobs, name=self._name, daemon=True).start()

    def _run_jobs(self) -> None:
        while True:
            job = self._next_job()
            if job is None:
                return
            _run_job(*job)
            # An idle worker must not keep the values of its last job alive.
            del job

    def _next_job(self) -> _Job | None:
        """The next job; None if this thread should end."""
        with self._lock:
            if self.alive - len(self._written_off) > self.size:
                # This thread was written off and has been replaced.
                self.alive -= 1
                return None
            self._idle += 1
        try:
            job = self._jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            job = None
        with self._lock:
            self._idle -= 1
            if not self._closed:
                # A job that arrived while this thread still counted as idle started no other thread.
                self._start_one_if_needed()
            if job is None and not self._closed and not self._jobs.empty():
                # It arrived while this thread timed out.
                job = self._jobs.get_nowait()
            if job is None:
                self.alive -= 1
            return job


def _run_job(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = work()
    except BaseException as error:  # noqa: BLE001 - passed to the waiter of the future
        future.set_exception(error)
        # The traceback refers to this frame; a reference cycle through the future would keep the work's values alive.
        del future
    else:
        future.set_result(answer)


async def await_future(future: Future[T]) -> T:
    """Await work in a thread; cancelling stops the wait, not the thread."""
    import asyncio

    return await asyncio.wrap_future(future)


async def wait_uncancelled(future: asyncio.Future[Any]) -> BaseException | None:
    """Wait until the future is done even if this task is cancelled meanwhile, and then return the cancellation."""
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
    # If asyncio was not imported, no loop runs; do not import it just for this.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return running is not None and running() is not None


_fork_aware: WeakSet[ForkAware] = WeakSet()
_kept_alive: list[Any] = []


class ForkAware(Protocol):
    """An object that can reset itself in a forked child."""

    def reset_in_child(self) -> None:
        """Called in the child, before any other code there."""

    def __hash__(self) -> int: ...


def reset_after_fork(thing: ForkAware) -> None:
    """Call `thing.reset_in_child()` in every forked child of this process. Keeps only a weak reference."""
    _fork_aware.add(thing)


def keep_alive(*things: Any) -> None:
    """Keep objects inherited from the parent alive: finalising them would close sockets and processes of the parent."""
    _kept_alive.extend(thing for thing in things if thing is not None)


def _reset_all() -> None:
    for thing in list(_fork_aware):
        thing.reset_in_child()


os.register_at_fork(after_in_child=_reset_all)
