"""`LazyRows`: rows of logs that wait for a transaction to go along with, so that they cost none of their own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from toolyard.model.errors import SessionError
from toolyard.sessions.store.base import LogRow

LATEST = 0.1
"""Seconds that a row waits for somebody else's transaction."""
_AT_ONCE = 1000
_MOST = 20_000
"""Rows that wait while the store does not work; what comes then is lost, and counted."""
_PAUSE = 1.0

log = logging.getLogger(__name__)


class LazyRows:
    """Added to by any thread, taken by whoever commits, one at a time. `flush` is a transaction for want of another."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._rows: deque[LogRow] = deque()
        self._due = threading.Event()
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.lost = 0

    def add(self, row: LogRow) -> None:
        """Have it written soon."""
        if len(self._rows) >= _MOST or self._stop.is_set():
            self.lost += 1
            return
        self._rows.append(row)
        if not self._due.is_set():
            self._due.set()
            if self._thread is None:
                self._start()

    def waiting(self) -> tuple[LogRow, ...]:
        """Those that are next. By index: others add meanwhile."""
        return tuple(self._rows[place] for place in range(min(len(self._rows), _AT_ONCE)))

    def forget(self, count: int) -> None:
        """They are written."""
        for _ in range(count):
            self._rows.popleft()

    def give_up(self, error: Exception) -> None:
        """The store works, but does not take them: they are as good as written."""
        self.lost += 1
        log.warning("rows of a log were left out, because the store does not take them: %s", error)

    def close(self) -> None:
        """Write what is left and stop."""
        self._stop.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()
        try:
            while self._rows:
                self._flush()
        except SessionError as error:
            log.warning("%d rows of logs were lost: %s", len(self._rows), error)
        if self.lost:
            log.warning("%d rows of logs were lost while the store did not work", self.lost)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="toolyard-log-rows", daemon=True)
                thread.start()
                self._thread = thread

    def _serve(self) -> None:
        failing = False
        while not self._stop.is_set():
            self._due.wait()
            self._stop.wait(LATEST)
            self._due.clear()
            try:
                while self._rows and not self._stop.is_set():
                    self._flush()
                failing = False
            except SessionError as error:
                if not failing:
                    log.warning("logs wait, because the store does not work: %s", error)
                failing = True
                self._due.set()
                self._stop.wait(_PAUSE)
