"""`SqlRecords`: records in the database that has the sessions, written in the same transactions."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from toolyard.loop.threads import Threads
from toolyard.sessions.records.base import Records
from toolyard.sessions.store import record_tables
from toolyard.sessions.store.base import Key
from toolyard.sessions.store.record_tables import Record
from toolyard.sessions.store.record_writes import ExpireRecords, Outcome, PutRecord, RecordWrite, RemoveRecord
from toolyard.sessions.store.sql import SqlStore

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")

_AT_ONCE = 500
"""Records deleted by one transaction: others wait for it."""
_THREADS = 4


class SqlRecords(Records):
    """Reads where the store is quick are done inline; other reads, and all writes, on threads beside the loop."""

    shared = True

    def __init__(self, store: SqlStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._threads = Threads(_THREADS, "toolyard-records")
        # Counted from a random number: no two objects, in whatever process, give the same stamp.
        self._stamps = itertools.count(secrets.randbits(62))

    def put(self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False) -> bool:
        """See `Records`."""
        return self._write(self._put(kind, owner, name, value, new=new)) == 1

    def get(self, kind: str, owner: str, name: str) -> bytes | None:
        """See `Records`."""
        return self._store.read(lambda run: record_tables.get(run, kind, owner, name))

    def remove(self, kind: str, owner: str, name: str, *, old: bytes | None = None) -> bool:
        """See `Records`."""
        return self._write(RemoveRecord(kind, owner, name, Outcome(), old)) == 1

    def replace(self, kind: str, owner: str, name: str, old: bytes, value: bytes) -> bool:
        """See `Records`."""
        return self._write(self._put(kind, owner, name, value, old=old)) == 1

    def all(self, kind: str, owner: str | None = None) -> list[Record]:
        """See `Records`."""
        return self._store.read(lambda run: record_tables.every(run, kind, owner))

    def version(self, kind: str) -> int:
        """See `Records`."""
        return self._store.read(lambda run: record_tables.version(run, kind))

    def expire(self, kind: str, before: float) -> int:
        """See `Records`."""
        total = 0
        while gone := self._write(ExpireRecords(kind, before, _AT_ONCE, Outcome())):
            total += gone
        return total

    def hold(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return self._store.try_hold(_lock_key(kind, owner, name))

    def release(self, kind: str, owner: str, name: str) -> None:
        """See `Records`."""
        self._store.release(_lock_key(kind, owner, name))

    def holds(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return self._store.still_holds(_lock_key(kind, owner, name))

    async def aput(self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False) -> bool:
        """See `Records`."""
        return await self._awrite(self._put(kind, owner, name, value, new=new)) == 1

    async def aget(self, kind: str, owner: str, name: str) -> bytes | None:
        """See `Records`."""
        return await self._beside(lambda: self.get(kind, owner, name))

    async def aremove(self, kind: str, owner: str, name: str, *, old: bytes | None = None) -> bool:
        """See `Records`."""
        return await self._awrite(RemoveRecord(kind, owner, name, Outcome(), old)) == 1

    async def areplace(self, kind: str, owner: str, name: str, old: bytes, value: bytes) -> bool:
        """See `Records`."""
        return await self._awrite(self._put(kind, owner, name, value, old=old)) == 1

    async def aall(self, kind: str, owner: str | None = None) -> list[Record]:
        """See `Records`."""
        return await self._beside(lambda: self.all(kind, owner))

    async def aversion(self, kind: str) -> int:
        """See `Records`."""
        return await self._beside(lambda: self.version(kind))

    async def aexpire(self, kind: str, before: float) -> int:
        """See `Records`."""
        total = 0
        while gone := await self._awrite(ExpireRecords(kind, before, _AT_ONCE, Outcome())):
            total += gone
        return total

    async def ahold(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return await self._beside(lambda: self.hold(kind, owner, name))

    async def arelease(self, kind: str, owner: str, name: str) -> None:
        """See `Records`."""
        await self._beside(lambda: self.release(kind, owner, name))

    async def aholds(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return await self._beside(lambda: self.holds(kind, owner, name))

    def close(self) -> None:
        """See `Records`."""
        self._threads.close()

    def _put(
        self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False, old: bytes | None = None
    ) -> PutRecord:
        return PutRecord(kind, owner, name, value, self._clock(), next(self._stamps), Outcome(), new, old)

    def _write(self, write: RecordWrite) -> int:
        self._store.write(write)
        return write.outcome.rows

    async def _awrite(self, write: RecordWrite) -> int:
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
                return  # the loop is closed, and nobody waits any more

        self._store.submit(write, done)
        error = await future
        if error is not None:
            raise error
        return write.outcome.rows

    async def _beside(self, work: Callable[[], _T]) -> _T:
        """Do something that may wait for a server."""
        if self._store.quick:
            return work()
        import asyncio

        return await asyncio.wrap_future(self._threads.submit(work))


def _lock_key(kind: str, owner: str, name: str) -> Key:
    # A session's id holds no NUL, so that no session is ever held by this.
    return Key(owner, f"\0{kind}\0{name}")
