"""`Records`: small named values that a service must not lose (API keys, registered tools, idempotent responses).

They are kept beside its sessions and written in the same transactions, or in memory if there is no store.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from toolyard.loop.threads import Threads
from toolyard.sessions.store.base import AffectedRows, ExpireRecords, Key, PutRecord, RecordWrite, RemoveRecord
from toolyard.sessions.store.sql import SessionStore, steady_clock
from toolyard.sessions.store.tables import UNWATCHED, Record, get_record, list_records, record_version

_P = ParamSpec("_P")
_T = TypeVar("_T")

_AT_ONCE = 500
"""Most records deleted in one transaction, since others wait for it."""


def async_twin(
    method: Callable[Concatenate[Any, _P], _T], *, writes: bool = False
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """The async twin of a method of `Records`, for tasks, which must not block on a store."""
    name = method.__name__

    async def twin(self: Records, /, *values: _P.args, **named: _P.kwargs) -> _T:
        work: Callable[[], _T] = partial(getattr(self, name), *values, **named)
        return await self.run_off_loop(work, writes=writes)

    return twin


class Records(ABC):
    """Values by kind, owner and name. Thread-safe; the async twins are for event loops.

    A sync method may wait for a disk or a server; an async twin never blocks the loop. A `SessionError` means that
    nothing was written, unless its message says that the outcome is unknown. A cancelled async twin stops waiting,
    but its write may still happen.
    """

    shared: bool
    """True if other processes see the same records; False if they end with this process."""

    clock: Callable[[], float]
    """Source of the times that `expire` compares with."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock

    def put(self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False) -> bool:
        """Write a value. With `new`, returns False and changes nothing if the name exists."""
        return self._write(PutRecord(kind, owner, name, value, self.clock(), AffectedRows(), new)) == 1

    def remove(self, kind: str, owner: str, name: str, *, old: bytes | None = None) -> bool:
        """Delete a value, only if it equals `old` if given; False if nothing was deleted."""
        return self._write(RemoveRecord(kind, owner, name, AffectedRows(), old)) == 1

    def replace(self, kind: str, owner: str, name: str, old: bytes, value: bytes) -> bool:
        """Compare and swap: replace the value if it still equals `old`; False if it does not."""
        return self._write(PutRecord(kind, owner, name, value, self.clock(), AffectedRows(), old=old)) == 1

    def expire(self, kind: str, before: float) -> int:
        """Delete records written before a time; returns their number."""
        total = 0
        while gone := self._write(ExpireRecords(kind, before, _AT_ONCE, AffectedRows())):
            total += gone
        return total

    @abstractmethod
    def _write(self, write: RecordWrite) -> int:
        """Perform the write; returns the number of records changed."""

    @abstractmethod
    def get(self, kind: str, owner: str, name: str) -> bytes | None:
        """The value, or None if there is none."""

    @abstractmethod
    def all(self, kind: str, owner: str | None = None) -> list[Record]:
        """All records of a kind, of one owner or of all, sorted by owner and name."""

    @abstractmethod
    def version(self, kind: str) -> int:
        """A number that grows with every change of the kind by any process. Read it before the records themselves.

        Always 0 for kinds that are written constantly (`answer`).
        """

    @abstractmethod
    def hold(self, kind: str, owner: str, name: str) -> bool:
        """Lock a name for this process; False if it is locked already. Needs no value. Freed if the process dies."""

    @abstractmethod
    def release(self, kind: str, owner: str, name: str) -> None:
        """Unlock a name; does nothing if it is not held."""

    @abstractmethod
    def holds(self, kind: str, owner: str, name: str) -> bool:
        """Whether the lock is still held; it may have been lost, for instance with its connection."""

    async def run_off_loop(self, work: Callable[[], _T], *, writes: bool) -> _T:
        """Run work that may wait for a store, off the event loop if it would block."""
        return work()

    aput = async_twin(put, writes=True)
    aget = async_twin(get)
    aremove = async_twin(remove, writes=True)
    areplace = async_twin(replace, writes=True)
    aall = async_twin(all)  # noqa: A003 - the method above
    aversion = async_twin(version)
    aexpire = async_twin(expire, writes=True)
    ahold = async_twin(hold)
    arelease = async_twin(release)
    aholds = async_twin(holds)

    def close(self) -> None:  # noqa: B027 - records in memory have nothing to release
        """Stop the threads. Does not close the store."""


MOST_ANSWERS = 100_000
MOST_APPROVALS = 20_000
MOST_BYTES = 256 * 1024 * 1024
"""Most bytes of all values of one bounded kind."""


class _Kind(msgspec.Struct, eq=False):
    """Records of one kind in memory: by owner, then by name, oldest first."""

    most: int | None
    owners: dict[str, dict[str, tuple[bytes, float]]] = {}
    count: int = 0
    size: int = 0
    version: int = 0

    def put(self, owner: str, name: str, value: bytes, at: float) -> None:
        names = self.owners.setdefault(owner, {})
        # Remove and insert again, so that the order stays that of age.
        before = names.pop(name, None)
        names[name] = (value, at)
        self.count += before is None
        self.size += len(value) - (0 if before is None else len(before[0]))
        self.version += 1

    def drop(self, owner: str, name: str) -> None:
        names = self.owners[owner]
        self.size -= len(names.pop(name)[0])
        self.count -= 1
        self.version += 1
        if not names:
            del self.owners[owner]

    def make_room(self, owner: str, name: str) -> None:
        """Drop the oldest records until the limits hold: of `owner` if it has more than its share, else of the owner
        with the most. An owner that writes without end thus displaces its own records.
        """
        if self.most is None:
            return
        while self.count > self.most or (self.size > MOST_BYTES and self.count > 1):
            own = self.owners[owner]
            crowded = len(own) * len(self.owners) >= self.count and len(own) > 1
            whose = owner if crowded else max(self.owners, key=lambda each: len(self.owners[each]))
            oldest = next(iter(self.owners[whose]))
            if (whose, oldest) == (owner, name):
                return
            self.drop(whose, oldest)


class MemoryRecords(Records):
    """Records in memory, for processes without a store.

    `most` limits the number of records of kinds that would grow without end; the oldest are dropped.
    """

    shared = False

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        most: Mapping[str, int] = MappingProxyType({"answer": MOST_ANSWERS, "approval": MOST_APPROVALS}),
    ) -> None:
        super().__init__(clock)
        self._most = most
        self._kinds: dict[str, _Kind] = {}
        self._held: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()

    def _write(self, write: RecordWrite) -> int:
        with self._lock:
            known = self._kind(write.kind)
            if isinstance(write, ExpireRecords):
                # Not only the oldest: the clock may have been set back in between.
                owners, before = known.owners.items(), write.before
                old = [(owner, name) for owner, names in owners for name, (_, at) in names.items() if at < before]
                for owner, name in old:
                    known.drop(owner, name)
                return len(old)
            value = self._value(known, write.owner, write.name)
            if write.old is not None and value != write.old:
                return 0
            if isinstance(write, RemoveRecord):
                if value is None:
                    return 0
                known.drop(write.owner, write.name)
            else:
                if write.new and value is not None:
                    return 0
                known.put(write.owner, write.name, write.value, write.at)
                known.make_room(write.owner, write.name)
            return 1

    def get(self, kind: str, owner: str, name: str) -> bytes | None:
        """See `Records`."""
        known = self._kinds.get(kind)
        return None if known is None else self._value(known, owner, name)

    def all(self, kind: str, owner: str | None = None) -> list[Record]:
        """See `Records`."""
        with self._lock:
            owners = self._kind(kind).owners
            found = sorted(owners.items()) if owner is None else [(owner, owners.get(owner, {}))]
            return [
                Record(whose, name, value, at) for whose, names in found for name, (value, at) in sorted(names.items())
            ]

    def version(self, kind: str) -> int:
        """See `Records`."""
        return 0 if kind in UNWATCHED else self._kind(kind).version

    def hold(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        with self._lock:
            if (kind, owner, name) in self._held:
                return False
            self._held.add((kind, owner, name))
            return True

    def release(self, kind: str, owner: str, name: str) -> None:
        """See `Records`."""
        with self._lock:
            self._held.discard((kind, owner, name))

    def holds(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return (kind, owner, name) in self._held

    def _kind(self, kind: str) -> _Kind:
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds.setdefault(kind, _Kind(self._most.get(kind)))
        return known

    @staticmethod
    def _value(known: _Kind, owner: str, name: str) -> bytes | None:
        names = known.owners.get(owner)
        found = None if names is None else names.get(name)
        return None if found is None else found[0]


_THREADS = 16
"""Most writes that wait at the same time for the next, shared commit."""


class SqlRecords(Records):
    """Records in a session store. Async reads run inline if the store is quick; other async work runs in threads."""

    shared = True

    def __init__(self, store: SessionStore, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._store = store
        self._threads = Threads(_THREADS, "toolyard-records")

    def _write(self, write: RecordWrite) -> int:
        self._store.write(write)
        return write.outcome.rows

    def get(self, kind: str, owner: str, name: str) -> bytes | None:
        """See `Records`."""
        return self._store.read(lambda run: get_record(run, kind, owner, name))

    def all(self, kind: str, owner: str | None = None) -> list[Record]:
        """See `Records`."""
        return self._store.read(lambda run: list_records(run, kind, owner))

    def version(self, kind: str) -> int:
        """See `Records`."""
        return self._store.read(lambda run: record_version(run, kind))

    def hold(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return self._store.try_hold(_lock_key(kind, owner, name))

    def release(self, kind: str, owner: str, name: str) -> None:
        """See `Records`."""
        self._store.release(_lock_key(kind, owner, name))

    def holds(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return self._store.still_holds(_lock_key(kind, owner, name))

    def close(self) -> None:
        """See `Records`."""
        self._threads.close()

    async def run_off_loop(self, work: Callable[[], _T], *, writes: bool) -> _T:
        """See `Records`; a write waits for its commit, a read blocks only if the store is a server."""
        if self._store.quick and not writes:
            return work()
        import asyncio

        return await asyncio.wrap_future(self._threads.submit(work))


def _lock_key(kind: str, owner: str, name: str) -> Key:
    # Session ids contain no NUL, so this never collides with the lock of a session.
    return Key(owner, f"\0{kind}\0{name}")


def open_records(store: SessionStore | None, *, clock: Callable[[], float] | None = None) -> Records:
    """Records in the database of `store`, or in memory if it is None."""
    clock = steady_clock(store) if clock is None else clock
    return MemoryRecords(clock=clock) if store is None else SqlRecords(store, clock=clock)
