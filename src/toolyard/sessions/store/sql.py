"""`SqlStore`: what the stores with tables have in common; how they reach their tables is each one's own matter."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from toolyard.model.errors import SessionError
from toolyard.sessions.store import tables
from toolyard.sessions.store.base import AddRows, Delete, Key, LogRow, SessionInfo, StoredSession, Write
from toolyard.sessions.store.group_commit import GroupCommit, StoreFailing
from toolyard.sessions.store.lazy_rows import LazyRows
from toolyard.sessions.store.steps import Run

_T = TypeVar("_T")


class SqlStore(ABC):
    """A `SessionStore` on the tables of `tables`, with group commit."""

    quick: bool
    """See `SessionStore`."""
    settled = ""
    """A condition, in SQL, for events before which no other can appear any more."""

    def __init__(self) -> None:
        self._group = GroupCommit[Write](self._apply_with_rows)
        self._lazy_rows = LazyRows(lambda: self.write(AddRows()))
        self._process = os.getpid()

    def _here(self) -> bool:
        return self._process == os.getpid()

    def _check_process(self) -> None:
        # A forked child shares the parent's connections and may have inherited a locked mutex.
        if not self._here():
            raise SessionError(f"{self!r} was opened before this process was forked; open another one in the child")

    @abstractmethod
    def _apply(self, writes: Sequence[Write], receipt: list[object]) -> None:
        """All writes in one transaction; see `group_commit.Apply`. Never called by two threads at once."""

    @abstractmethod
    def _read(self, work: Callable[[Run], _T]) -> _T:
        """See `read`."""

    @abstractmethod
    def try_hold(self, key: Key) -> bool:
        """See `SessionStore`."""

    @abstractmethod
    def release(self, key: Key) -> None:
        """See `SessionStore`; nothing happens if it is not held."""

    @abstractmethod
    def still_holds(self, key: Key) -> bool:
        """False if what was held is not held any more, though nobody released it."""

    def write(self, write: Write) -> None:
        """See `SessionStore`; callers in other threads share the transaction."""
        self._check_process()
        self._group.write(write)

    def submit(self, write: Write, done: Callable[[BaseException | None], None]) -> None:
        """See `SessionStore`."""
        self._check_process()
        self._group.submit(write, done)

    def add_lazily(self, row: LogRow) -> None:
        """Have a row of a log written with the next transaction, whoever's it is, or soon. Never waits."""
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
        except Exception as error:  # noqa: BLE001 - whatever it is, it may be the fault of a row, and no write's
            if not receipt:
                self._apply(writes, receipt)
                self._lazy_rows.give_up(error)
        finally:
            if receipt:
                self._lazy_rows.forget(len(rows))

    def read(self, work: Callable[[Run], _T]) -> _T:
        """Let `work` query one consistent view of the tables. It may be called again after a lost connection."""
        self._check_process()
        return self._read(work)

    def load(self, key: Key) -> StoredSession | None:
        """See `SessionStore`."""
        self._check_process()
        return self._read(lambda run: tables.load_session(run, key))

    def newer(self, key: Key, branch: str, seq: int) -> StoredSession | None:
        """See `SessionStore`."""
        self._check_process()
        return self._read(lambda run: tables.load_newer(run, key, branch, seq))

    def sessions(self, owner: str | None = None) -> list[SessionInfo]:
        """See `SessionStore`."""
        self._check_process()
        return self._read(lambda run: tables.list_sessions(run, owner))

    def parents(self, owner: str) -> dict[str, str]:
        """For each of the owner's sessions that is a fork of one that still is: which one."""
        self._check_process()
        return self._read(lambda run: tables.list_parents(run, owner))

    def count(self, owner: str | None = None) -> int:
        """See `SessionStore`."""
        self._check_process()
        return self._read(lambda run: tables.count_sessions(run, owner))

    def expire(self, used_before: float) -> list[Key]:
        """See `SessionStore`."""
        self._check_process()
        unused = self._read(lambda run: tables.list_unused(run, used_before))
        return [key for key in unused if self._expire(key, used_before)]

    def _expire(self, key: Key, used_before: float) -> bool:
        if not self.try_hold(key):
            return False
        try:
            # Looked at again: whoever had it until now may have used it.
            used = self._read(lambda run: tables.last_used(run, key))
            if used is None or used >= used_before:
                return False
            self.write(Delete(key))
        finally:
            self.release(key)
        return True

    def close(self) -> None:
        """See `SessionStore`."""
        self._lazy_rows.close()
        self._group.close()
