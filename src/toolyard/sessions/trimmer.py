"""`Trimmer`: keeps a log of a store within its bounds, beside those who write to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal

from toolyard.model.errors import SessionError
from toolyard.sessions.store.base import AffectedRows, TrimLog
from toolyard.sessions.store.log_tables import find_surplus, has_rows_before
from toolyard.sessions.store.sql import SqlStore

_AT_ONCE = 500

log = logging.getLogger(__name__)


class Trimmer:
    """Looks at the first row, and then each time that a hundredth of what is kept was added here."""

    def __init__(
        self,
        store: SqlStore,
        table: Literal["calls", "events"],
        most: int,
        find_oldest: Callable[[], int] = lambda: 0,
    ) -> None:
        self._store = store
        self._table = table
        self._most = most
        self._find_oldest = find_oldest
        self._slack = most // 100 + 100
        self._added = self._slack
        self._trimming = threading.Lock()

    def count(self) -> None:
        """A row was added."""
        self._added += 1
        if self._added > self._slack:
            self._added = 0
            threading.Thread(target=self._trim, name="toolyard-trim", daemon=True).start()

    def _trim(self) -> None:
        """Delete what is too much or too old, a little at a time: others write meanwhile."""
        if not self._trimming.acquire(blocking=False):
            return
        try:
            surplus = self._store.read(lambda run: find_surplus(run, self._table, self._most))
            before = max(self._find_oldest(), surplus or 0)
            while self._store.read(lambda run: has_rows_before(run, self._table, before)):
                self._store.write(TrimLog(self._table, before, _AT_ONCE, AffectedRows()))
        except SessionError as error:
            log.warning("the log of %s could not be trimmed: %s", self._table, error)
        finally:
            self._trimming.release()
