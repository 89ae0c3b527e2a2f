"""`Notices`: the server's messages during a call, delivered in other threads, in order, before the call returns."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from concurrent.futures import Future
from typing import Self

from toolyard.loop.threads import Threads
from toolyard.model.call import Notice, Notify
from toolyard.model.errors import CallError

_log = logging.getLogger("toolyard.mcp")

MAX_QUEUED = 256
"""Maximum number of queued notices for one call."""
LONGEST_DELAY = 5.0
"""Maximum seconds that a result is delayed while notices are delivered."""
_threads = Threads(32, "toolyard-mcp-notices")
"""Threads that deliver notices."""


class Notices:
    """Delivers notices to one caller in order. If the queue is full, the oldest ones are dropped."""

    def __init__(self, notify: Notify, deadline: float | None = None) -> None:
        self._notify = notify
        self._deadline = deadline
        self._lock = threading.Lock()
        self._waiting: deque[Notice] = deque(maxlen=MAX_QUEUED)
        self._runner: Future[None] | None = None
        self._is_over = False

    def __call__(self, notice: Notice) -> None:
        """Queue a notice."""
        with self._lock:
            if self._is_over:
                return
            self._waiting.append(notice)
            if self._runner is None or self._runner.done():
                self._runner = _threads.submit(self._deliver)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until all notices are delivered, unless the call was cancelled or they take too long; then close."""
        runner = self._runner
        try:
            if runner is not None and not runner.done() and (kind is None or issubclass(kind, CallError)):
                left = math.inf if self._deadline is None else self._deadline - asyncio.get_running_loop().time()
                await asyncio.wait({asyncio.wrap_future(runner)}, timeout=max(min(LONGEST_DELAY, left / 2), 0.0))
        finally:
            self.close()

    def close(self) -> None:
        """Deliver nothing more."""
        with self._lock:
            self._is_over = True
            self._waiting.clear()
            runner = self._runner
        if runner is not None and not runner.done():
            _threads.give_up(runner)

    def _deliver(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._runner = None
                    return
                notice = self._waiting.popleft()
            try:
                self._notify(notice)
            except Exception:  # noqa: BLE001 - somebody else's code, and the call goes on
                _log.warning("the progress handler of a call failed", exc_info=True)
