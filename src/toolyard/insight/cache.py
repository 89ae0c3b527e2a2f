"""`ItemCache`: what was computed for one item (a text, a schema), kept in a file by everything that matters for it.

Adding one tool to ten thousand computes one. Any number of threads and processes may share the file; what one of them
has finished is there for all, and stays if it is killed. A cache that cannot be used is never an error: it is said
once, and everything is computed. Arrays derived from a whole set of tools are items too, found by a hash of all
definitions.
"""

from __future__ import annotations

import functools
import io
import json
import logging
import os
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import blake2b, sha256
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.base import track_progress
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc

CACHE_DIR_VARIABLE = "TOOLYARD_CACHE_DIR"
FILE = "enrichments.db"
CHUNK = 256
"""Items that are computed, and then committed, at a time."""

_APPLICATION = 0x746F6F63
_VERSION = 1
_BUSY_SECONDS = 30.0
_AT_ONCE = 500
"""Keys asked for in one statement."""
_TABLE = """
CREATE TABLE IF NOT EXISTS items (kind TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, key))
"""
_WRITE = "INSERT OR REPLACE INTO items (kind, key, value) VALUES (?, ?, ?)"
_MAKE_ROOM = """
DELETE FROM items WHERE rowid IN (
  SELECT rowid FROM (
    SELECT rowid, sum(length(value)) OVER (ORDER BY rowid DESC) AS total FROM items WHERE kind = ?
  ) WHERE total > ?
)
"""

_log = logging.getLogger(__name__)

CacheOption = str | Path | bool | None
"""What the option `cache` of an enrichment takes: a folder, False for none, True or None for the usual one."""


def item_key(kind: str, version: int | str, *parts: Any) -> bytes:
    """The key of one item: a hash of its kind, the version of the code, and all it is computed from.

    Parts are plain JSON. Mappings that differ only in the order of their keys are the same part; where the order
    matters, give the text.
    """
    return blake2b(_encode_canonical((kind, version, parts)), digest_size=20).digest()


def _encode_canonical(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:
        # Half a surrogate pair: no UTF-8 has it, an escape does.
        return json.dumps(value, sort_keys=True).encode()


def cache_folder(option: CacheOption = None) -> Path | None:
    """The folder of everything that is kept between runs; None if nothing is to be kept.

    `option` names it, else `$TOOLYARD_CACHE_DIR`, else `toolyard` in the user's cache folder.
    """
    if option is False:
        return None
    if isinstance(option, str | Path) and str(option):
        return _expand_folder(option)
    if not isinstance(option, str | Path | bool | None):
        raise ConfigError(f"cache must be a folder or false, not {type(option).__name__}")
    own = os.environ.get(CACHE_DIR_VARIABLE)
    if own:
        return _expand_folder(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return Path(shared) / "toolyard"
    try:
        return Path.home() / ".cache" / "toolyard"
    except RuntimeError:
        return None


def force_option(force: object, who: str) -> bool:
    """What the option `force` of an enrichment says; `ConfigError` if it is no yes or no."""
    if not isinstance(force, bool):
        raise ConfigError(f"force of {who} must be true or false, not {force!r}")
    return force


def _expand_folder(given: str | Path) -> Path:
    try:
        os.fsencode(given)
        if "\0" in str(given):
            raise ValueError("a path has no null character")
        return Path(given).expanduser()
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"cache: {str(given)!r} is no folder: {error}") from None


def say_once(what: str, *values: object) -> None:
    """Log a warning that this process has not logged before."""
    _say(what % values)


@functools.cache
def _say(text: str) -> None:
    _log.warning("%s", text)


class ItemCache:
    """Values by kind and key, in one SQLite file of a folder.

    Nothing is held open between two calls, so that a cache may be made before a fork, and used by any thread.
    """

    def __init__(self, option: CacheOption = None) -> None:
        folder = cache_folder(option)
        self.path = None if folder is None else folder / FILE

    def get_many(self, kind: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values that are there, by key."""
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, bytes] = {}

        def read(db: sqlite3.Connection) -> None:
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ", ".join("?" * len(some))
                rows = db.execute(f"SELECT key, value FROM items WHERE kind = ? AND key IN ({marks})", (kind, *some))  # noqa: S608
                found.update(rows)

        if self.path is not None and os.path.exists(self.path) and not self._use_file(self.path, read):
            # What was read before something was found to be wrong may be wrong, too.
            found.clear()
        return found

    def put_many(self, kind: str, items: Iterable[tuple[bytes, bytes]], *, limit: int | None = None) -> None:
        """Keep values; all of them are committed when this returns.

        With a `limit` in bytes, the values of this kind that were written first go where all are more than that.
        """
        rows = [(kind, key, value) for key, value in items]

        def write(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(_WRITE, rows)
            if limit is not None:
                db.execute(_MAKE_ROOM, (kind, limit))
            db.execute("COMMIT")

        if rows and self.path is not None:
            self._use_file(self.path, write)

    def fill(
        self,
        kind: str,
        keys: Sequence[bytes],
        compute: Callable[[list[int]], Sequence[bytes]],
        *,
        chunk: int = CHUNK,
        force: bool = False,
        label: str = "",
    ) -> list[bytes]:
        """The value of every key, in order. What is not there is computed once, `chunk` at a time, and kept.

        `compute` gets places in `keys` (the first of each key that lacks) and returns their values. A chunk is
        committed before the next is begun. `force` computes all again.
        """
        found = {} if force else self.get_many(kind, keys)
        lacking: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            if key not in found and key not in lacking:
                lacking[key] = place
        todo = list(lacking.items())
        starts = range(0, len(todo), chunk)
        for start in track_progress(starts, label or kind, total=len(starts)):
            some = todo[start : start + chunk]
            values = compute([place for _, place in some])
            fresh = dict(zip((key for key, _ in some), values, strict=True))
            self.put_many(kind, fresh.items())
            found.update(fresh)
        return [found[key] for key in keys]

    def _use_file(self, path: Path, work: Callable[[sqlite3.Connection], object]) -> bool:
        """Open the file for some work; whatever is wrong with it ends the work, not the caller. Whether it was done."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_connect_database(path)) as db:
                work(db)
        except (sqlite3.Error, OSError) as error:
            advice = "; if it is damaged, delete it" if isinstance(error, sqlite3.DatabaseError) else ""
            say_once("the cache %s cannot be used, so everything is computed: %s%s", path, error, advice)
            return False
        return True


def _connect_database(path: Path) -> sqlite3.Connection:
    # Descriptions of private tools are nobody else's to read. A file that is there is not opened: closing it again
    # would end the locks that other threads have on it.
    if not path.exists():
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        if _read_marks(db) != (_APPLICATION, _VERSION):
            _prepare_database(db)
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


_MARKS: Mapping[str, int] = {"application_id": _APPLICATION, "user_version": _VERSION}


def _read_marks(db: sqlite3.Connection) -> tuple[int, int]:
    application, version = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in _MARKS)
    return application, version


def _prepare_database(db: sqlite3.Connection) -> None:
    from toolyard.sessions.store.sqlite import use_wal

    _check_ownership(db)
    use_wal(db, _BUSY_SECONDS)
    db.execute("BEGIN IMMEDIATE")
    db.execute(_TABLE)
    for name, value in _MARKS.items():
        db.execute(f"PRAGMA {name} = {value}")
    db.execute("COMMIT")


def _check_ownership(db: sqlite3.Connection) -> None:
    """Refuse what is not ours."""
    # In one transaction: another process may be making the tables and their marks right now.
    db.execute("BEGIN")
    tables = int(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    application, version = _read_marks(db)
    db.execute("COMMIT")
    if application not in (0, _APPLICATION) or (application == 0 and (version or tables)):
        raise sqlite3.DatabaseError("it is another program's database; name another folder")
    if version > _VERSION:
        raise sqlite3.DatabaseError("a newer toolyard wrote it; name another folder")


Array = NDArray[Any]

LIMIT = 1 << 29
"""Bytes of all sets of one kind together; beyond, those that were written first go."""
_TOOLS_AT_ONCE = 256
"""Definitions that are written and hashed while they are still in the processor's cache."""

_encode = msgspec.msgpack.Encoder().encode
_read_definition = attrgetter("namespace", "name", "description", "parameters", "output_parameters")


def hash_catalog(tools: Sequence[Tool], *parts: Any) -> bytes:
    """The key of what is derived from the definitions of all these tools, in this order, and from `parts`.

    Parts are plain JSON. It reads every schema, as whatever is derived from schemas does.
    """
    # On most processors quicker than any other that is safe from collisions.
    digest = sha256()
    with paused_gc():
        for start in range(0, len(tools), _TOOLS_AT_ONCE):
            digest.update(_encode_definitions(tools[start : start + _TOOLS_AT_ONCE]))
    return item_key("set", 2, digest.hexdigest(), *parts)


def _encode_definitions(tools: Sequence[Tool]) -> bytes:
    definitions = list(map(_read_definition, tools))
    try:
        return _encode(definitions)
    except (UnicodeEncodeError, OverflowError):
        # Half a surrogate pair, or a number beyond 64 bits: one form is as good as another.
        return repr(definitions).encode("utf-8", "surrogatepass")


def read_arrays(cache: ItemCache, kind: str, key: bytes) -> dict[str, Array] | None:
    """The arrays, read-only; None if they are not there, or not whole."""
    kept = cache.get_many(kind, [key]).get(key)
    if kept is None:
        return None
    try:
        # Each array has a checksum, so what can be read is what was written.
        with np.load(io.BytesIO(kept), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        say_once("%s in %s cannot be read, and is made again: %s", kind, cache.path, error)
        return None
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def keep_arrays(cache: ItemCache, kind: str, key: bytes, arrays: Mapping[str, Array], *, limit: int = LIMIT) -> None:
    """Keep the arrays for `read_arrays`. What is larger than the limit is not kept, and costs others nothing."""
    if any(array.dtype.hasobject for array in arrays.values()):
        raise TypeError("arrays of Python objects cannot be kept")
    if cache.path is None or sum(array.nbytes for array in arrays.values()) > limit:
        return
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **arrays)
    cache.put_many(kind, [(key, written.getvalue())], limit=limit)
