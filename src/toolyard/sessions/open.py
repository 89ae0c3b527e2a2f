"""Which records go with which store of sessions."""

from __future__ import annotations

import time
from collections.abc import Callable

from toolyard.model.errors import SessionError
from toolyard.sessions.records import MemoryRecords, Records
from toolyard.sessions.store.base import SessionStore


def open_records(store: SessionStore | None, *, clock: Callable[[], float] = time.time) -> Records:
    """The records beside these sessions: in the same database, or in memory if there is none."""
    if store is None:
        return MemoryRecords(clock=clock)
    from toolyard.sessions.records.sql import SqlRecords
    from toolyard.sessions.store.sql import SqlStore

    if not isinstance(store, SqlStore):
        raise SessionError(f"{type(store).__name__} keeps sessions but no records; use SQLite or Postgres")
    return SqlRecords(store, clock=clock)
