"""`SqliteStore`: sessions in one file, for many threads and several processes on one machine.

`SessionLocks` locks sessions between processes with byte-range locks, which the kernel frees when the holder dies.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

from msgspec import Meta

from toolyard.model.errors import SessionError
from toolyard.schema.options import expand_place, locate_file
from toolyard.sessions.store import tables
from toolyard.sessions.store.base import Delete, Key, Run, Write, lock_number
from toolyard.sessions.store.group_commit import StoreFailing
from toolyard.sessions.store.sql import SessionStore

_T = TypeVar("_T")

Durability = Literal["normal", "full"]

_READ_MARKS = (
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "(SELECT count(*) FROM sqlite_master)"
)
_APPLICATION = 0x54597264
"""`TYrd`, which identifies our session files."""

_WORDS = {
    "text": "TEXT",
    "blob": "BLOB",
    "compact": " WITHOUT ROWID",
    "event_id": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "sequence": "SELECT 1",
}

# Open-file-description locks belong to the descriptor, not the process: two stores in one process exclude each
# other, and closing an unrelated descriptor of the file frees nothing. Linux only; for other systems see `_others`.
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)

# Closing a descriptor of a file frees all POSIX locks of this process on it, SQLite's too: open one store at a time.
_opening = threading.Lock()


class SqliteStore(SessionStore):
    """Keeps sessions in a SQLite file. Every write is in the file before it is acknowledged.

    With `durability="normal"` nothing is lost if the process dies, but a power failure may lose the last moments
    (never the file); `"full"` also survives a power failure and waits for the disk at each commit.
    """

    quick = True

    def __init__(
        self,
        path: Annotated[
            str | Path, Meta(min_length=1, description="Path of the file.", extra={"locate": locate_file})
        ] = (".toolyard/sessions.db"),
        *,
        durability: Annotated[
            Durability,
            Meta(
                description="normal: survives a crash of the process. full: also survives a power "
                "failure, by syncing every commit."
            ),
        ] = "normal",
        busy_timeout: Annotated[float, Meta(gt=0, description="Seconds to wait for locks of other processes.")] = 10.0,
    ) -> None:
        if durability not in ("normal", "full"):
            raise SessionError(f"durability is {durability!r}; use 'normal' or 'full'")
        self._path = Path(expand_place(path, "path")).absolute()
        self._busy_timeout = busy_timeout
        self._closed = False
        self._read_lock = threading.Lock()
        self._locks = SessionLocks(self._path.with_name(self._path.name + "-locks"))
        with _opening:
            self._writer, self._reader = self._open(durability)
        super().__init__()

    def __repr__(self) -> str:
        return f"SqliteStore({str(self._path)!r})"

    def try_hold(self, key: Key) -> bool:
        """See `SessionStore`."""
        self._check_process()
        if self._closed:
            raise self._closed_error()
        return self._locks.try_hold(key)

    def release(self, key: Key) -> None:
        """See `SessionStore`."""
        self._locks.release(key)

    def still_holds(self, key: Key) -> bool:
        """See `SessionStore`; the kernel never revokes a lock of a living process."""
        return self._locks.holds(key)

    def close(self) -> None:
        """See `SessionStore`."""
        if not self._is_own_process():
            return
        super().close()
        with self._read_lock:
            self._closed = True
            self._reader.close()
            self._writer.close()
        self._locks.close()

    def _read(self, work: Callable[[Run], _T]) -> _T:
        # A separate connection with one transaction: a consistent view that never blocks writers.
        with self._read_lock:
            if self._closed:
                raise self._closed_error()
            db = self._reader
            try:
                if db.in_transaction:
                    # An interrupt prevented the ROLLBACK below.
                    db.execute("ROLLBACK")
                db.execute("BEGIN")
                return work(db.execute)
            except sqlite3.Error as error:
                raise self._failing(error) from error
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _apply(self, writes: Sequence[Write], receipt: list[object]) -> None:
        db = self._writer
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
            db.execute("BEGIN IMMEDIATE")
            for write in writes:
                if isinstance(write, Delete):
                    tables.delete_session(db.execute, write.key)
                    continue
                for step in tables.write_steps(write):
                    step.check(db.execute(step.sql, step.values).rowcount)
            # A single C call, so that no interrupt can come between the commit and its receipt.
            receipt.extend(map(db.execute, ("COMMIT",)))
        except BaseException as error:
            if not receipt and db.in_transaction:
                # If this fails too, the next transaction begins with a rollback.
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
                raise self._failing(error) from error
            if isinstance(error, sqlite3.Error | OverflowError | UnicodeError):
                raise SessionError(f"{self._path} cannot store this: {error}") from error
            raise

    def _open(self, durability: Durability) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        try:
            with ExitStack() as opened:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                database = open_database(
                    *(self._path, _APPLICATION, tables.VERSION), upgrade=_create_tables, patience=self._busy_timeout
                )
                writer = opened.enter_context(closing(database))
                writer.execute(f"PRAGMA synchronous = {durability.upper()}")
                reader = opened.enter_context(closing(connect_database(self._path, self._busy_timeout)))
                reader.execute("PRAGMA query_only = 1")
                opened.pop_all()
                return writer, reader
        except OSError as error:
            raise SessionError(f"cannot create {self._path}: {error}; choose a path that can be written") from error
        except ForeignDatabaseError as error:
            raise SessionError(f"{self._path}: {error}") from error
        except sqlite3.Error as error:
            raise self._failing(error) from error

    def _failing(self, error: sqlite3.Error) -> SessionError:
        text = str(error)
        if "not a database" in text or "malformed" in text:
            return StoreFailing(f"{self._path} is not an SQLite database or is damaged ({text}); move it away")
        return StoreFailing(
            f"session file {self._path}: {text}; nothing was written."
            " Check the disk, the file's permissions, and that no other program keeps it locked"
        )

    def _closed_error(self) -> SessionError:
        return SessionError(f"session file {self._path} is closed; open a new SqliteStore to go on")


def _create_tables(db: sqlite3.Connection, known: int) -> None:
    for table in tables.missing_tables(known, **_WORDS):
        db.execute(table)


class ForeignDatabaseError(sqlite3.DatabaseError):
    """The file is not a database of the kind that was to be opened, or a newer toolyard wrote it."""


def open_database(
    path: Path, application: int, version: int, *, upgrade: Callable[[sqlite3.Connection, int], object], patience: float
) -> sqlite3.Connection:
    """Connect to a file of ours, which is created if it does not exist, private to the user.

    `application` in its header identifies it. `upgrade` creates the tables that an older version lacks; it gets that
    version, 0 for a new file. Locks of other processes are waited for `patience` seconds.
    """
    # O_EXCL: an existing file is not opened here, since closing it would free this process's locks on it. SQLite gives
    # its side files the same mode.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if not path.is_file():
        raise ForeignDatabaseError("this is not a file; name one")
    db = connect_database(path, patience)
    try:
        known = _read_version(db, application, version)
        # Also for a file with all tables: a copy by VACUUM INTO is in another mode.
        _use_wal(db, patience)
        if known != version:
            db.execute("BEGIN IMMEDIATE")
            # Read again: another process may have created the tables meanwhile.
            upgrade(db, _read_version(db, application, version))
            db.execute(f"PRAGMA application_id = {application}")
            db.execute(f"PRAGMA user_version = {version}")
            db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def connect_database(path: Path, patience: float) -> sqlite3.Connection:
    """Another connection to an open database."""
    return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _read_version(db: sqlite3.Connection, application: int, version: int) -> int:
    # One statement: between two, another process may create the tables.
    found, owner, existing = db.execute(_READ_MARKS).fetchone()
    if owner != application and (owner or found or existing):
        raise ForeignDatabaseError("this is another program's database; choose another file")
    if found > version:
        known = f"version {found}, this one knows {version}"
        raise ForeignDatabaseError(f"a newer toolyard wrote it ({known}); upgrade toolyard, or choose another file")
    return int(found)


def _use_wal(db: sqlite3.Connection, patience: float) -> None:
    """Switch a file to write-ahead logging, retrying for `patience` seconds."""
    # If two processes switch a new file at once, one fails with "locked" immediately, whatever its busy timeout.
    give_up = time.monotonic() + patience
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


class SessionLocks:
    """Locks on a side file. The file stays empty, because byte ranges beyond its end can be locked."""

    _all: ClassVar[weakref.WeakSet[SessionLocks]] = weakref.WeakSet()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: dict[int, Key] = {}
        self._fd: int | None = None
        with self._lock:
            self._all.add(self)

    def try_hold(self, key: Key) -> bool:
        """Lock a session; False if it is locked, here or in another store object or process."""
        at = lock_number(key.owner, key.session_id, bits=62)
        mine = False
        try:
            with self._lock:
                # Two keys may share a number (2**-62): the second then waits for the first, which is slow but safe.
                # Sharing the lock would release both with the first.
                if at in self._held or any(at in other._held for other in self._others()):
                    return False
                if self._set(at, hold=True):
                    self._held[at] = key
                    mine = True
            return mine
        except OSError as error:
            raise SessionError(f"cannot lock {self._path}: {error}; is it on a local disk?") from error
        except BaseException:
            # Interrupted before returning: the caller would not know that it holds the lock.
            if mine:
                self.release(key)
            raise

    def release(self, key: Key) -> None:
        """Unlock a session; does nothing if it is not held."""
        at = lock_number(key.owner, key.session_id, bits=62)
        with self._lock:
            if self._held.get(at) != key:
                return
            # In this order, so that an interrupt in between only leads to a second release.
            self._set(at, hold=False)
            del self._held[at]

    def holds(self, key: Key) -> bool:
        """Whether this object holds the session."""
        with self._lock:
            return self._held.get(lock_number(key.owner, key.session_id, bits=62)) == key

    def close(self) -> None:
        """Release all locks."""
        with self._lock:
            for at in self._held:
                self._set(at, hold=False)
            self._held.clear()
            # Closing the descriptor would free the locks of the others, too.
            if self._fd is not None and not any(other._held for other in self._others()):
                os.close(self._fd)
                self._fd = None

    def _others(self) -> list[SessionLocks]:
        """Other objects of this process on the same file, if locks are per process and so do not exclude them."""
        if _OFD_SETLK is not None:
            return []
        mine, opened = self._file(), [other for other in self._all if other is not self and other._fd is not None]
        # Compare files, not paths: a file may have several paths.
        return [other for other in opened if os.path.samefile(other._file(), mine)]

    def _file(self) -> int:
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._fd

    def _set(self, at: int, *, hold: bool) -> bool:
        kind = fcntl.F_WRLCK if hold else fcntl.F_UNLCK
        try:
            if _OFD_SETLK is None:
                fcntl.lockf(self._file(), fcntl.LOCK_EX | fcntl.LOCK_NB if hold else fcntl.LOCK_UN, 1, at)
            else:
                fcntl.fcntl(self._file(), _OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, at, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True

    @classmethod
    def after_fork(cls) -> None:
        """Give up all locks in a forked child; they belong to the parent."""
        # Close the inherited descriptors: while open, they keep the parent's locks alive after it ends. Replace the
        # mutex, which may have been held by a thread that does not exist in the child.
        cls._lock = threading.Lock()
        for locks in list(cls._all):
            locks._held = {}
            if locks._fd is not None:
                os.close(locks._fd)
                locks._fd = None


os.register_at_fork(after_in_child=SessionLocks.after_fork)
