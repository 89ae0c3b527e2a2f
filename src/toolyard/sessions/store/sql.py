"""`SessionStore`: durable sessions in SQL tables; subclasses connect to a database.

`LazyRows` holds log rows until the next transaction, so that they do not need separate ones.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from toolyard.model.errors import SessionError
from toolyard.sessions.store import tables
from toolyard.sessions.store.base import (
    AddRows,
    AffectedRows,
    Delete,
    Key,
    LogRow,
    LogTable,
    Run,
    SessionInfo,
    StoredSession,
    TrimLog,
    Write,
)
from toolyard.sessions.store.group_commit import GroupCommit, StoreFailing

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")

LATEST = 0.1
"""Seconds that a log row waits for another write's transaction."""
_ADDED_AT_ONCE = 1000
_MOST = 20_000
"""Most rows that wait while the store does not work; further ones are dropped and counted."""
_PAUSE = 1.0

_TRIMMED_AT_ONCE = 500

_log = logging.getLogger(__name__)


class LazyRows:
    """A queue of log rows: any thread adds, the committing thread takes. `flush` starts a transaction for them."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._rows: deque[LogRow] = deque()
        self._due = threading.Event()
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.lost = 0

    def add(self, row: LogRow) -> None:
        """Queue a row; it is dropped and counted if the queue is full or closed."""
        if len(self._rows) >= _MOST or self._stop.is_set():
            self.lost += 1
            return
        self._rows.append(row)
        if not self._due.is_set():
            self._due.set()
            if self._thread is None:
                self._start()

    def waiting(self) -> tuple[LogRow, ...]:
        """The next rows to write. Read by index, since other threads add meanwhile."""
        return tuple(self._rows[place] for place in range(min(len(self._rows), _ADDED_AT_ONCE)))

    def forget(self, count: int) -> None:
        """Remove the first `count` rows, which are written."""
        for _ in range(count):
            self._rows.popleft()

    def give_up(self, error: Exception) -> None:
        """Log that the store rejected the rows although it works; the caller removes them."""
        self.lost += 1
        _log.warning("rows of a log were left out, because the store does not take them: %s", error)

    def close(self) -> None:
        """Write the remaining rows and stop."""
        self._stop.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()
        try:
            while self._rows:
                self._flush()
        except SessionError as error:
            _log.warning("%d rows of logs were lost: %s", len(self._rows), error)
        if self.lost:
            _log.warning("%d rows of logs were lost while the store did not work", self.lost)

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
                    _log.warning("log rows are delayed, because the store does not work: %s", error)
                failing = True
                self._due.set()
                self._stop.wait(_PAUSE)


class SessionStore(ABC):
    """Durable sessions in the schema of `tables`. Thread-safe. A raised error means that nothing was written."""

    quick: bool
    """True if reading and locking are fast enough to run inline on an event loop."""
    settled = ""
    """SQL condition for events before which no other event can appear any more."""

    def __init__(self) -> None:
        self._group = GroupCommit[Write](self._apply_with_rows)
        self._lazy_rows = LazyRows(lambda: self.write(AddRows()))
        self._process = os.getpid()

    def _is_own_process(self) -> bool:
        return self._process == os.getpid()

    def _check_process(self) -> None:
        # A forked child shares the parent's connections and may have inherited a locked mutex.
        if not self._is_own_process():
            raise SessionError(f"{self!r} was opened before this process was forked; open another one in the child")

    @abstractmethod
    def _apply(self, writes: Sequence[Write], receipt: list[object]) -> None:
        """Perform all writes in one transaction; see `group_commit.Apply`. Never called concurrently."""

    @abstractmethod
    def _read(self, work: Callable[[Run], _T]) -> _T:
        """See `read`."""

    @abstractmethod
    def try_hold(self, key: Key) -> bool:
        """Lock the session for this store object; False if it is locked, here or in another process.

        Locks end with the process. Not re-entrant: callers of one store object must take turns first.
        """

    @abstractmethod
    def release(self, key: Key) -> None:
        """Unlock a session; does nothing if it is not held."""

    @abstractmethod
    def still_holds(self, key: Key) -> bool:
        """Whether a lock is still held; False if it was lost without a release."""

    def write(self, write: Write) -> None:
        """Write, and return once it is as durable as configured; callers in other threads share the transaction.

        Raises `SessionExistsError` if the key of a `Create` is taken, and `SessionError` if the number of an `Append`
        or `Intend` is taken or its session is gone.
        """
        self._check_process()
        self._group.write(write)

    def submit(self, write: Write, done: Callable[[BaseException | None], None]) -> None:
        """`write` without waiting: `done` is called once, from any thread, with None or the error."""
        self._check_process()
        self._group.submit(write, done)

    def add_lazily(self, row: LogRow) -> None:
        """Write a log row with the next transaction, or soon. Never waits."""
        self._check_process()
        self._lazy_rows.add(row)

    def _apply_with_rows(self, writes: Sequence[Write], receipt: list[object]) -> None:
        rows = self._lazy_rows.waiting()
        if not rows:
            self._apply(writes, receipt)
            return
        try:
            self._apply([AddRows(rows), *writes], receipt)
        except StoreFailing:
            raise
        except Exception as error:  # noqa: BLE001 - any error may be caused by a row instead of a write
            if not receipt:
                self._apply(writes, receipt)
                self._lazy_rows.give_up(error)
        finally:
            if receipt:
                self._lazy_rows.forget(len(rows))

    def read(self, work: Callable[[Run], _T]) -> _T:
        """Run queries on one consistent view of the tables. `work` may be called twice if the connection is lost."""
        self._check_process()
        return self._read(work)

    def load(self, key: Key) -> StoredSession | None:
        """The session, or None."""
        return self.read(lambda run: tables.load_session(run, key))

    def newer(self, key: Key, branch: str, seq: int) -> StoredSession | None:
        """The entries after `seq`, written by any process, without initial `changes`.

        None if the session is gone or now names another branch.
        """
        return self.read(lambda run: tables.load_newer(run, key, branch, seq))

    def sessions(self, owner: str | None = None) -> list[SessionInfo]:
        """Stored sessions of one owner or of all, sorted by owner and id."""
        return self.read(lambda run: tables.list_sessions(run, owner))

    def parents(self, owner: str) -> dict[str, str]:
        """The owner's forked sessions to their parents; forks of deleted sessions are omitted."""
        return self.read(lambda run: tables.list_parents(run, owner))

    def count(self, owner: str | None = None) -> int:
        """Number of sessions of one owner or of all."""
        return self.read(lambda run: tables.count_sessions(run, owner))

    def expire(self, used_before: float) -> list[Key]:
        """Delete sessions that are not held and were last used before a time; returns their keys."""
        unused = self.read(lambda run: tables.list_unused(run, used_before))
        return [key for key in unused if self._expire(key, used_before)]

    def _expire(self, key: Key, used_before: float) -> bool:
        if not self.try_hold(key):
            return False
        try:
            # Read again: a previous holder may have used it in the meantime.
            used = self._read(lambda run: tables.last_used(run, key))
            if used is None or used >= used_before:
                return False
            self.write(Delete(key))
        finally:
            self.release(key)
        return True

    def now(self) -> float:
        """The time by the clock that all processes share through this store."""
        return time.time()

    def close(self) -> None:
        """Finish pending writes and release all resources. Idempotent."""
        self._lazy_rows.close()
        self._group.close()


def submit_write(store: SessionStore, write: Write) -> asyncio.Future[BaseException | None]:
    """`submit` for a task: a future of None or the error. Cancelling the future does not stop the write."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[BaseException | None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if not future.done():
            future.set_result(error)

    def done(error: BaseException | None) -> None:
        try:
            loop.call_soon_threadsafe(settle, error)
        except RuntimeError:
            return  # the loop is closed, so nobody waits

    store.submit(write, done)
    return future


def steady_clock(store: SessionStore | None, *, dated: bool = False) -> Callable[[], float]:
    """A monotonic clock, unaffected by changes of the system time.

    Without a store it has no defined epoch unless `dated`. With a store it starts at the store's time, which other
    processes share, and then runs by this machine's monotonic clock.
    """
    if store is None and not dated:
        return time.monotonic
    ahead = (time.time() if store is None else store.now()) - time.monotonic()
    return lambda: time.monotonic() + ahead


class LogTrimmer:
    """Keeps a log within its limits. Checks at the first row, then each time it has grown by about one percent."""

    def __init__(
        self, store: SessionStore, table: LogTable, most: int, find_oldest: Callable[[], int] = lambda: 0
    ) -> None:
        self._store = store
        self._table: LogTable = table
        self._most = most
        self._find_oldest = find_oldest
        self._added = self._slack = most // 100 + 100
        self._trimming = threading.Lock()

    def count(self) -> None:
        """Count one added row, and start trimming if it is due."""
        self._added += 1
        if self._added > self._slack:
            self._added = 0
            threading.Thread(target=self._trim, name="toolyard-trim", daemon=True).start()

    def _trim(self) -> None:
        """Delete surplus and old rows in small transactions, since others write meanwhile."""
        if not self._trimming.acquire(blocking=False):
            return
        table = self._table
        try:
            surplus = self._store.read(lambda run: tables.find_surplus(run, table, self._most))
            before = max(self._find_oldest(), surplus)
            while self._store.read(lambda run: tables.has_rows_before(run, table, before)):
                self._store.write(TrimLog(table, before, _TRIMMED_AT_ONCE, AffectedRows()))
        except SessionError as error:
            _log.warning("the log of %s could not be trimmed: %s", table, error)
        finally:
            self._trimming.release()
