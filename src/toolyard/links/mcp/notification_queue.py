"""`Notices`: what a server says during a call, told outside of the loop of links, in order, before the call returns."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from toolyard.loop.forking import renewed_in_child
from toolyard.loop.threads import Threads, wrapped
from toolyard.model.context import Notice, Notify, Progress

T = TypeVar("T")

MOST = 256
"""Notices of one call that may wait to be told."""
PATIENCE = 5.0
"""Seconds that an answer waits, at most, for who is still being told."""
_TELLERS, _HANDLERS = 32, 64
_log = logging.getLogger("toolyard.mcp")


class Aside:
    """Threads for code that is not ours: it may take its time, or never come back."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._threads = Threads(size, name)
        renewed_in_child(self)

    def forked(self) -> None:
        """In the child of a fork there are none yet."""
        self._threads = Threads(self._size, self._name)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have it done; nobody waits here."""
        return self._threads.submit(work)

    def give_up(self, future: Future[T]) -> None:
        """Count no more on what was submitted; its thread is replaced."""
        if not future.cancel():
            self._threads.write_off(future)

    async def run(self, work: Callable[[], T]) -> T:
        """Have it done and wait for it; cancelled, it is not waited for any more."""
        future = self.submit(work)
        try:
            return await wrapped(future)
        except asyncio.CancelledError:
            self.give_up(future)
            raise


HANDLERS = Aside(_HANDLERS, "toolyard-mcp-handler")
"""For what servers ask for, which a person, or a model, may take minutes to answer."""
TELLERS = Aside(_TELLERS, "toolyard-mcp-notices")
"""For what servers say meanwhile."""


class Notices:
    """Tells one caller, one notice after the other. What is too much is dropped, progress first, eldest first."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: deque[Notice] = deque()
        self._runner: Future[None] | None = None
        self._is_over = False
        self.dropped = 0

    def __call__(self, notice: Notice) -> None:
        """Have it told, soon."""
        with self._lock:
            if self._is_over:
                self.dropped += 1
                return
            if len(self._waiting) >= MOST:
                self._make_room()
            self._waiting.append(notice)
            if self._runner is None or self._runner.done():
                self._runner = TELLERS.submit(self._tell)

    async def told(self, seconds: float) -> None:
        """Wait until all of it was told, at most so long; from then on nothing is."""
        runner = self._runner
        if runner is not None and not runner.done():
            await asyncio.wait({asyncio.wrap_future(runner)}, timeout=max(seconds, 0.0))
        self.close()

    def close(self) -> None:
        """Tell nothing any more."""
        with self._lock:
            self._is_over = True
            self.dropped += len(self._waiting)
            self._waiting.clear()
            runner = self._runner
        if runner is not None and not runner.done():
            TELLERS.give_up(runner)

    def _make_room(self) -> None:
        self.dropped += 1
        eldest = next((notice for notice in self._waiting if isinstance(notice, Progress)), None)
        if eldest is None:
            self._waiting.popleft()
        else:
            with suppress(ValueError):
                self._waiting.remove(eldest)

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._runner = None
                    return
                notice = self._waiting.popleft()
            try:
                self._notify(notice)
            except Exception:  # noqa: BLE001 - somebody else's code, and the call goes on
                _log.warning("who is told of a call's progress failed", exc_info=True)
