"""The file of a cache: how a damaged one makes way, and how one is read where nothing can be written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

Identity = tuple[int, int]


def identify_file(path: Path) -> Identity | None:
    """Which file has that name now; None if none has."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that the file is none of its own, or no longer whole."""
    import sqlite3

    # Of an extended code, the last byte is the kind. What is raised for another program's database has none.
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def is_read_only(path: Path) -> bool:
    """Whether the file is there, and nothing can be written to it or beside it."""
    return os.path.isfile(path) and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def set_aside(path: Path, seen: Identity) -> Path | None:
    """Give a damaged file another name, if it is still the one that was seen; None if somebody else has done it.

    Whoever still has it open goes on with the old one, under its new name. `OSError` if it cannot be renamed.
    """
    # The folder, one at a time: closing the file itself would end the locks that SQLite has on it.
    number = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(ImportError, OSError):  # not everywhere, and not on every disk in a network
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX)
        if identify_file(path) != seen:
            return None
        target = path.with_name(f"{path.name}.broken-{time.time_ns():x}")
        # The file itself last: the log of an old file beside a new one would be played into it.
        for ending in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{ending}", f"{target}{ending}")
        os.rename(path, target)
        return target
    finally:
        os.close(number)


@contextmanager
def read_only(path: Path, check: Callable[[sqlite3.Connection], object]) -> Iterator[sqlite3.Connection]:
    """Open a file that cannot be written; `check` says whether it may be used.

    A file in WAL mode has two more beside it while it is open, which SQLite makes even for one who only reads. Where
    they cannot be made it must be told that the file is `immutable`: it then looks at nothing but the file. That is all
    there is to see if the log is not there or empty, as whoever closes the file last leaves it. A log with content may
    hold what the file lacks, or what a checkpoint has copied into it by half; such a file is not read that way, and
    neither is one that somebody who may write has changed meanwhile, since no lock has held him off.
    """
    import sqlite3

    before = None if os.access(path.parent, os.W_OK) else _at_rest(path)
    how = "mode=ro" if before is None else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)) as db:
        check(db)
        yield db
    if before is not None and _at_rest(path) != before:
        raise sqlite3.OperationalError("it was changed while it was read")


def _at_rest(path: Path) -> tuple[int, int, int] | None:
    """What tells one state of a file from the next; None if there is more of it in its log."""
    with suppress(FileNotFoundError):
        if os.stat(f"{path}-wal").st_size:
            return None
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
