"""`Gate`: so many inside at a time, first come first served, for threads and tasks in one line.

No lock is held while somebody is inside. A place is an item in a list, taken and given back by single operations
that the interpreter does not interrupt, so a gate without a queue costs next to nothing. Whoever gives a place
back hands it to the first in line; one who gives up waiting and one who hands over settle it by a lock of the
waiter's own, so a place is never lost and never given twice.
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
        """Give the place to this waiter; False if it gave up, or can no longer be told."""
        if not self._settled.acquire(blocking=False):
            return False
        try:
            self._tell()
        except RuntimeError:
            # Its loop is closed, and with it the task; when that is swept up, it must not give back what it never had.
            self._settled.release()
            return False
        return True

    def give_up(self) -> bool:
        """True if nothing was granted, nor will be."""
        return self._settled.acquire(blocking=False)

    @abstractmethod
    def _tell(self) -> None:
        """Wake whoever waits; RuntimeError if nobody can be woken any more."""


class Gate:
    """At most `limit` inside."""

    __slots__ = ("free", "line")

    def __init__(self, limit: int = 1) -> None:
        self.free = [None] * limit
        self.line: deque[_Waiter] | None = None

    def enter_at_once(self) -> bool:
        """Take a place if one is free and nobody is in line."""
        if self.line:
            return False
        try:
            # Not a call: an interrupt comes after calls, and must not come between this and the caller's `try`.
            del self.free[-1]
        except IndexError:
            return False
        return True

    def enter(self, until: float | None = None, *, twin: str = "the a-twin") -> bool:
        """Wait for a place in this thread, until a monotonic time; False if there was none by then."""
        if self.enter_at_once():
            return True
        if loop_runs_here():
            # Whoever is inside may need this very loop to get out.
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
        """Wait for a place in this task, until a monotonic time; False if there was none by then."""
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
        """Give the place back, to the first in line if there is one."""
        self.free.append(None)
        if self.line:
            self.hand_over()

    @property
    def busy(self) -> bool:
        """True if nobody could enter at once."""
        return not self.free or bool(self.line)

    def _queue(self, waiter: _Waiter) -> None:
        if self.line is None:
            with _making_lines:
                if self.line is None:
                    self.line = deque()
        self.line.append(waiter)
        # A place given back since we looked was given to nobody.
        self.hand_over()

    def _gave_up(self, waiter: _Waiter) -> bool:
        """Leave the line; False if the place was granted at that very moment: then it is granted."""
        if not waiter.give_up():
            return False
        # Behind somebody who stays inside for ever, those who gave up would pile up.
        with suppress(ValueError):
            (self.line or deque()).remove(waiter)
        return True

    def _abandon(self, waiter: _Waiter) -> None:
        """Nobody waits here any more: a place that was granted goes to the next."""
        if not self._gave_up(waiter):
            self.leave()

    def hand_over(self) -> None:
        """Give free places to those in line; for whoever put one back into `free` by hand."""
        line = self.line
        while line:
            try:
                self.free.pop()
            except IndexError:
                return  # whoever has it hands over when leaving
            while True:
                try:
                    waiter = line.popleft()
                except IndexError:
                    self.free.append(None)
                    break  # and look once more: one may have joined before the place was back
                if waiter.grant():
                    break


_making_lines = threading.Lock()


class _Thread(_Waiter):
    __slots__ = ("_wake",)

    def __init__(self) -> None:
        super().__init__()
        self._wake = threading.Lock()
        self._wake.acquire()

    def _tell(self) -> None:
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

    def _tell(self) -> None:
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
