"""`PostgresStore`: sessions in a database shared by many machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta

from toolyard.model.errors import SessionError
from toolyard.plugins import missing_extra
from toolyard.sessions.store.base import Key, Run, Write, lock_number
from toolyard.sessions.store.group_commit import StoreFailing
from toolyard.sessions.store.sql import SessionStore

if TYPE_CHECKING:
    from toolyard.sessions.store.postgres_connection import Connection

_T = TypeVar("_T")


class PostgresStore(SessionStore):
    """Keeps sessions in Postgres. Connects at first use and reconnects after a restart of the server.

    It has three connections: one writes, one reads, and one holds the locks of sessions in use. If the last is lost,
    another node may take those sessions; the numbering of entries then rejects writes that come too late.
    """

    quick = False

    def __init__(
        self,
        dsn: Annotated[str, Meta(min_length=1, description="URL of the database, such as ${DATABASE_URL}.")],
        *,
        schema: Annotated[str, Meta(min_length=1, description="Database schema of the tables.")] = "toolyard",
        connect_timeout: Annotated[float, Meta(gt=0, description="Seconds to wait for the database.")] = 10.0,
    ) -> None:
        try:
            from toolyard.sessions.store import postgres_connection
        except ImportError as error:
            raise SessionError(str(missing_extra("postgres", "a Postgres store", "psycopg"))) from error
        self._address = postgres_connection.PostgresAddress(dsn, schema, connect_timeout)
        self._runner = postgres_connection.runner
        self.settled = postgres_connection.SETTLED
        self._writer = postgres_connection.Writer(self._address)
        self._reader = postgres_connection.Link(self._address, prepare=postgres_connection.one_view)
        self._locks = postgres_connection.Link(self._address)
        self._held: dict[int, tuple[Key, int]] = {}
        self._held_lock = threading.Lock()
        super().__init__()

    def __repr__(self) -> str:
        return f"PostgresStore({self._address.place})"

    def write(self, write: Write) -> None:
        """See `SessionStore`; callers in other threads share the transaction."""
        # psycopg loses its protocol state and swallows the interrupt if Ctrl-C comes while statements are in flight.
        # Only the main thread is interrupted, and the cost of another thread is small beside the round trip.
        self._check_process()
        self._group.write_on_thread(write)

    def try_hold(self, key: Key) -> bool:
        """See `SessionStore`."""
        self._check_process()
        at = self._number(key)
        with self._held_lock:
            return self._locks.use(lambda conn: self._try_hold(conn, at, key))

    def _try_hold(self, conn: Connection, at: int, key: Key) -> bool:
        # Checked here first, because the server lets a connection take a lock twice. Two keys that share a number
        # (2**-63) exclude each other, which is slow but safe.
        held = self._held.get(at)
        if held is not None and held[1] == self._locks.generation:
            return False
        try:
            row = conn.execute("SELECT pg_try_advisory_lock(%s)", (at,)).fetchone()
            taken = row is not None and bool(row[0])
            if taken:
                self._held[at] = (key, self._locks.generation)
        except (KeyboardInterrupt, SystemExit):
            # The caller would not know that it holds the lock and never release it.
            self._held.pop(at, None)
            with suppress(Exception):
                conn.execute("SELECT pg_advisory_unlock(%s)", (at,))
            raise
        return taken

    def release(self, key: Key) -> None:
        """See `SessionStore`; a lock lost with its connection counts as released."""
        at = self._number(key)
        with self._held_lock:
            held = self._held.get(at)
            if held is None or held[0] != key or not self._is_own_process():
                return
            del self._held[at]
            with self._locks.lock:
                if held[1] != self._locks.generation or not self._locks.alive:
                    return
                try:
                    self._locks.use(lambda conn: conn.execute("SELECT pg_advisory_unlock(%s)", (at,)))
                except StoreFailing:
                    # If the connection is gone, so is the lock.
                    if self._locks.alive:
                        raise

    def still_holds(self, key: Key) -> bool:
        """See `SessionStore`; queries the server, since a broken connection is noticed only then."""
        self._check_process()
        at = self._number(key)
        with self._held_lock, self._locks.lock:
            self._locks.use(lambda conn: conn.execute("SELECT 1"))
            held = self._held.get(at)
            return held is not None and held == (key, self._locks.generation)

    def close(self) -> None:
        """See `SessionStore`."""
        if not self._is_own_process():
            return
        super().close()
        self._writer.close()
        self._reader.close()
        with self._held_lock, self._locks.lock:
            if self._held and self._locks.alive:
                # Unlock explicitly: the server may notice the closed connection late, and others may want the sessions.
                with suppress(StoreFailing):
                    self._locks.use(lambda conn: conn.execute("SELECT pg_advisory_unlock_all()"))
            self._held.clear()
            self._locks.close()

    def _apply(self, writes: Sequence[Write], receipt: list[object]) -> None:
        self._writer.apply(writes, receipt)

    def _read(self, work: Callable[[Run], _T]) -> _T:
        def read(conn: Connection) -> _T:
            with conn.transaction():
                return work(self._runner(conn))

        return self._reader.use(read)

    def now(self) -> float:
        """The time of the server's clock, which may differ from this machine's."""
        return float(self._read(lambda run: run("SELECT extract(epoch FROM clock_timestamp())", ()).fetchone()[0]))

    def _number(self, key: Key) -> int:
        return lock_number(self._address.schema, key.owner, key.session_id, bits=63)
