"""`Gate`: a fair semaphore with one FIFO queue for threads and tasks.

No lock is held while a caller is inside. A place is an item in a list, taken and returned by single operations that the
interpreter does not interrupt, so a gate without a queue costs next to nothing. A caller that leaves hands its place to
the first waiter. Each waiter has a lock that decides between being granted a place and giving up, so a place is
never lost and never given twice.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from toolyard.loop.threads import loop_runs_here
from toolyard.model.errors import SyncInAsyncError

if TYPE_CHECKING:
    import asyncio


class _Waiter(ABC):
    __slots__ = ("_settled",)

    def __init__(self) -> None:
        self._settled = threading.Lock()

    def grant(self) -> bool:
        """Give the place to this waiter; False if it gave up or can no longer be woken."""
        if not self._settled.acquire(blocking=False):
            return False
        try:
            self._notify()
        except RuntimeError:
            # Its loop is closed. Release, so that the task, when finalised, gives up instead of returning a place.
            self._settled.release()
            return False
        return True

    def give_up(self) -> bool:
        """True if no place was granted, and none will be."""
        return self._settled.acquire(blocking=False)

    @abstractmethod
    def _notify(self) -> None:
        """Wake the waiting thread or task; RuntimeError if its loop is closed."""


class Gate:
    """Admits at most `limit` callers at a time, in order of arrival."""

    __slots__ = ("free", "line")

    def __init__(self, limit: int = 1) -> None:
        self.free = [None] * limit
        self.line: deque[_Waiter] | None = None

    def enter_at_once(self) -> bool:
        """Take a place if one is free and no caller waits."""
        if self.line:
            return False
        try:
            # A statement, not a call: interrupts are handled after calls, and none may come before the caller's `try`.
            del self.free[-1]
        except IndexError:
            return False
        return True

    def enter(self, until: float | None = None, *, twin: str = "the a-twin") -> bool:
        """Wait for a place in this thread, until a monotonic time; False on timeout."""
        if self.enter_at_once():
            return True
        if loop_runs_here():
            # The caller inside may need this very loop to leave.
            raise SyncInAsyncError(f"waiting here would stop the event loop of this thread; await {twin} instead")
        waiter = _Thread()
        self._queue(waiter)
        try:
            if waiter.wait(until):
                return True
        except BaseException:
            self._abandon(waiter)
            raise
        return not self._gave_up(waiter)

    async def aenter(self, until: float | None = None) -> bool:
        """Wait for a place in this task, until a monotonic time; False on timeout."""
        if self.enter_at_once():
            return True
        import asyncio

        waiter = _Task(asyncio.get_running_loop())
        self._queue(waiter)
        try:
            async with asyncio.timeout_at(until):
                await waiter.future
        except TimeoutError:
            return not self._gave_up(waiter)
        except BaseException:
            self._abandon(waiter)
            raise
        return True

    def leave(self) -> None:
        """Return the place, to the first waiter if there is one."""
        self.free.append(None)
        if self.line:
            self.admit_waiters()

    @property
    def busy(self) -> bool:
        """True if `enter_at_once` would fail."""
        return not self.free or bool(self.line)

    def _queue(self, waiter: _Waiter) -> None:
        if self.line is None:
            with _making_lines:
                if self.line is None:
                    self.line = deque()
        self.line.append(waiter)
        # A place returned before the waiter was queued was handed to nobody.
        self.admit_waiters()

    def _gave_up(self, waiter: _Waiter) -> bool:
        """Leave the queue; False if a place was granted in the meantime, which the waiter then has."""
        if not waiter.give_up():
            return False
        # Otherwise waiters that gave up would accumulate while a caller stays inside for long.
        with suppress(ValueError):
            (self.line or deque()).remove(waiter)
        return True

    def _abandon(self, waiter: _Waiter) -> None:
        """Leave the queue and pass on a place that was granted in the meantime."""
        if not self._gave_up(waiter):
            self.leave()

    def admit_waiters(self) -> None:
        """Give free places to waiters; also for callers that append to `free` themselves."""
        line = self.line
        while line:
            try:
                self.free.pop()
            except IndexError:
                return  # the caller that has the place hands it over when leaving
            while True:
                try:
                    waiter = line.popleft()
                except IndexError:
                    self.free.append(None)
                    break  # and check again: a waiter may have joined before the place was returned
                if waiter.grant():
                    break


_making_lines = threading.Lock()


class _Thread(_Waiter):
    __slots__ = ("_wake",)

    def __init__(self) -> None:
        super().__init__()
        self._wake = threading.Lock()
        self._wake.acquire()

    def _notify(self) -> None:
        self._wake.release()

    def wait(self, until: float | None) -> bool:
        if until is None:
            return self._wake.acquire()
        return self._wake.acquire(timeout=min(max(until - time.monotonic(), 0.0), threading.TIMEOUT_MAX))


class _Task(_Waiter):
    __slots__ = ("_loop", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.future: asyncio.Future[None] = loop.create_future()

    def _notify(self) -> None:
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
