"""`Records`: small named values a service must not lose (keys, registered tools, answers to repeated requests).

They live beside its sessions, written in the same transactions, or in memory where nothing is kept.
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
"""Records deleted by one transaction: others wait for it."""


def off_loop(
    method: Callable[Concatenate[Any, _P], _T], *, writes: bool = False
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """The a-twin of a method of `Records`: the same for a task, which must not wait for a store itself."""
    name = method.__name__

    async def twin(self: Records, /, *values: _P.args, **named: _P.kwargs) -> _T:
        work: Callable[[], _T] = partial(getattr(self, name), *values, **named)
        return await self.do_beside(work, writes=writes)

    return twin


class Records(ABC):
    """Values by kind, owner and name, for callers in many threads and, by the a-twins, on an event loop.

    A sync method may wait for a disk or a server; an a-twin never blocks the loop. A raised `SessionError` means that
    nothing was written, unless its text says that nobody knows. An a-twin that is cancelled gives up waiting: what
    it was asked to write may still be written.
    """

    shared: bool
    """True if other processes see the same records; False if they end with this one."""

    clock: Callable[[], float]
    """By which `expire` counts."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock

    def put(self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False) -> bool:
        """Keep a value. With `new`, False if there is one of that name already, which then stays."""
        return self._write(PutRecord(kind, owner, name, value, self.clock(), AffectedRows(), new)) == 1

    def remove(self, kind: str, owner: str, name: str, *, old: bytes | None = None) -> bool:
        """Forget a value, if it is `old` where that is given; False if there was nothing to forget."""
        return self._write(RemoveRecord(kind, owner, name, AffectedRows(), old)) == 1

    def replace(self, kind: str, owner: str, name: str, old: bytes, value: bytes) -> bool:
        """Change a value that is still `old`; False if it is not."""
        return self._write(PutRecord(kind, owner, name, value, self.clock(), AffectedRows(), old=old)) == 1

    def expire(self, kind: str, before: float) -> int:
        """Forget what was written before that; says how many."""
        total = 0
        while gone := self._write(ExpireRecords(kind, before, _AT_ONCE, AffectedRows())):
            total += gone
        return total

    @abstractmethod
    def _write(self, write: RecordWrite) -> int:
        """How many records it changed."""

    @abstractmethod
    def get(self, kind: str, owner: str, name: str) -> bytes | None:
        """The value, or None."""

    @abstractmethod
    def all(self, kind: str, owner: str | None = None) -> list[Record]:
        """Every record of a kind, of one owner or of all, by owner and name."""

    @abstractmethod
    def version(self, kind: str) -> int:
        """Grows with every change of the kind, whichever process makes it, and is read before what it is the version
        of. Kinds that are written all the time (`answer`) have none: always 0.
        """

    @abstractmethod
    def hold(self, kind: str, owner: str, name: str) -> bool:
        """Take a name for this process (there need be no value) unless another has it; one that dies lets go."""

    @abstractmethod
    def release(self, kind: str, owner: str, name: str) -> None:
        """Let go of it; nothing happens if it is not held."""

    @abstractmethod
    def holds(self, kind: str, owner: str, name: str) -> bool:
        """False if it is not held any more, for instance because the connection it went with is gone."""

    async def do_beside(self, work: Callable[[], _T], *, writes: bool) -> _T:
        """Do something that may wait for a store, beside the event loop if it does."""
        return work()

    aput = off_loop(put, writes=True)
    aget = off_loop(get)
    aremove = off_loop(remove, writes=True)
    areplace = off_loop(replace, writes=True)
    aall = off_loop(all)  # noqa: A003 - the method above
    aversion = off_loop(version)
    aexpire = off_loop(expire, writes=True)
    ahold = off_loop(hold)
    arelease = off_loop(release)
    aholds = off_loop(holds)

    def close(self) -> None:  # noqa: B027 - in memory there is nothing to let go of
        """Let go of threads; the store is not ours to close."""


MOST_ANSWERS = 100_000
MOST_APPROVALS = 20_000
MOST_BYTES = 256 * 1024 * 1024
"""Of all values of a bounded kind together."""


class _Kind(msgspec.Struct, eq=False):
    """What there is of one kind: by owner, then by name, oldest first."""

    most: int | None
    owners: dict[str, dict[str, tuple[bytes, float]]] = {}
    count: int = 0
    size: int = 0
    version: int = 0

    def put(self, owner: str, name: str, value: bytes, at: float) -> None:
        names = self.owners.setdefault(owner, {})
        # Out and in again, so that the order stays that of age.
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
        """Drop the oldest until the bounds hold again: of `owner` if they have more than their share, else of
        whoever has most. So one who writes without end pushes out their own.
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
    """Records that end with the process; for one that keeps nothing else either.

    `most` bounds kinds that would grow for ever: the oldest are forgotten.
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
"""Writes that wait at once for the next commit, which they share."""


class SqlRecords(Records):
    """Reads where the store is quick are done inline; other reads, and all writes, on threads beside the loop."""

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

    async def do_beside(self, work: Callable[[], _T], *, writes: bool) -> _T:
        """See `Records`; a write waits for its commit, a read only where the server is not this process."""
        if self._store.quick and not writes:
            return work()
        import asyncio

        return await asyncio.wrap_future(self._threads.submit(work))


def _lock_key(kind: str, owner: str, name: str) -> Key:
    # A session's id holds no NUL, so that no session is ever held by this.
    return Key(owner, f"\0{kind}\0{name}")


def open_records(store: SessionStore | None, *, clock: Callable[[], float] | None = None) -> Records:
    """The records beside these sessions: in the same database, or in memory if there is none."""
    clock = steady_clock(store) if clock is None else clock
    return MemoryRecords(clock=clock) if store is None else SqlRecords(store, clock=clock)
