"""`EventLog`: the last things that happened, in one order for all who look: calls, approvals, sources.

In memory they are those of this process; in a store those of all that share it. Ids grow, and nothing ever appears
before what was read already.
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Protocol

import msgspec

from toolyard.sessions.call_log import clean_text, new_call_number
from toolyard.sessions.store.base import LogRow, SessionStore
from toolyard.sessions.store.log_tables import read_events, recent_events
from toolyard.sessions.store.sql import SqlStore
from toolyard.sessions.trimmer import Trimmer

KEPT = 10_000
"""Events that can be read again."""
_PAGE = 1000


class Described(Protocol):
    """What an event is about; described when somebody reads it."""

    def to_dict(self) -> dict[str, Any]:
        """As programs see it."""


class Event(msgspec.Struct, frozen=True):
    """One thing that happened."""

    id: int
    kind: str
    """Such as `call.ended`."""
    owner: str
    """Whose it is: the key's; empty for nobody's."""
    namespace: str
    about: Described | bytes

    def to_json(self) -> bytes:
        """What is known of it."""
        return self.about if isinstance(self.about, bytes) else msgspec.json.encode(self.about.to_dict())


class EventLog(ABC):
    """Takes events from many threads, never waiting for a store."""

    epoch: str
    """Ids of another epoch say nothing here: what they counted is gone."""
    inline: bool
    """True if reading is so quick that an event loop may do it."""

    @abstractmethod
    def put(self, kind: str, owner: str, namespace: str, about: Described) -> None:
        """It has happened."""

    def write_row(self, kind: str, owner: str, namespace: str, about: Described) -> LogRow | None:
        """The event for a store, to go along with an entry in place of `put`; None if there is no store."""
        return None

    @abstractmethod
    def read(self, after: int) -> tuple[list[Event], bool]:
        """Some of what came after that id, oldest first; False if some of it is not kept any more."""

    @abstractmethod
    def read_recent(self) -> list[Event]:
        """All that is kept, oldest first."""


class MemoryEventLog(EventLog):
    """The last events of this process."""

    inline = True

    def __init__(self, most: int = KEPT) -> None:
        self.epoch = secrets.token_hex(4)
        self._events: deque[Event] = deque(maxlen=most)
        self._count = 0
        self._lock = threading.Lock()

    def put(self, kind: str, owner: str, namespace: str, about: Described) -> None:
        """See `EventLog`."""
        with self._lock:
            self._count += 1
            self._events.append(Event(self._count, kind, owner, namespace, about))

    def read(self, after: int) -> tuple[list[Event], bool]:
        """See `EventLog`."""
        with self._lock:
            fresh = min(self._count - after, len(self._events))
            return [self._events[-place] for place in range(fresh, 0, -1)], fresh == self._count - after

    def read_recent(self) -> list[Event]:
        """See `EventLog`."""
        with self._lock:
            return list(self._events)


class SqlEventLog(EventLog):
    """The last events of all processes that share a store; they go along with the transactions of others."""

    epoch = "s"

    def __init__(self, store: SqlStore) -> None:
        self.inline = store.quick
        self._store = store
        self._trimmer = Trimmer(store, "events", KEPT)

    def put(self, kind: str, owner: str, namespace: str, about: Described) -> None:
        """See `EventLog`."""
        self._store.add_lazily(self.write_row(kind, owner, namespace, about))

    def write_row(self, kind: str, owner: str, namespace: str, about: Described) -> LogRow:
        """See `EventLog`."""
        self._trimmer.count()
        data = msgspec.json.encode(about.to_dict())
        return LogRow("events", (new_call_number(), kind, clean_text(owner), namespace, data))

    def read(self, after: int) -> tuple[list[Event], bool]:
        """See `EventLog`."""
        settled = self._store.settled
        rows, first = self._store.read(lambda run: read_events(run, after, _PAGE, settled))
        # Where nothing was read yet, ids need not begin with 1; but whatever was trimmed left as many as are kept.
        whole = not after and len(rows) < min(KEPT, _PAGE)
        return _read(rows), whole or first is None or first <= after + 1

    def read_recent(self) -> list[Event]:
        """See `EventLog`."""
        settled = self._store.settled
        return _read(self._store.read(lambda run: recent_events(run, KEPT, settled)))


def _read(rows: list[Any]) -> list[Event]:
    return [Event(int(number), kind, owner, namespace, bytes(data)) for number, kind, owner, namespace, data in rows]


def open_event_log(store: SessionStore | None) -> EventLog:
    """The log beside these sessions: in the same database, or in memory if there is none."""
    return SqlEventLog(store) if isinstance(store, SqlStore) else MemoryEventLog()
