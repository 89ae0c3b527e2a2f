"""`ItemCache`: computed values of single items (a text, a schema) in a file, keyed by all of their inputs.

Adding one tool to ten thousand computes one item. Any number of threads and processes may share the file; values are
visible to all as soon as they are committed, and survive a kill. An unusable cache is never an error: it is logged once
and everything is computed. Arrays derived from a whole set of tools are items too, keyed by a hash of all definitions.
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
from contextlib import closing
from hashlib import blake2b, sha256
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from toolyard.insight.arrays import Array
from toolyard.insight.base import track_progress
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc

CACHE_DIR_VARIABLE = "TOOLYARD_CACHE_DIR"
FILE = "enrichments.db"
CHUNK = 256
"""Items computed and committed at a time."""

_APPLICATION = 0x746F6F63
_VERSION = 1
_BUSY_SECONDS = 30.0
_KEYS_PER_QUERY = 500
"""Keys queried in one statement."""
_TABLE = """
CREATE TABLE items (kind TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, key))
"""
_WRITE = "INSERT OR REPLACE INTO items (kind, key, value) VALUES (?, ?, ?)"
_DELETE_OLDEST = """
DELETE FROM items WHERE rowid IN (
  SELECT rowid FROM (
    SELECT rowid, sum(length(value)) OVER (ORDER BY rowid DESC) AS total FROM items WHERE kind = ?
  ) WHERE total > ?
)
"""

_log = logging.getLogger(__name__)

CacheOption = Annotated[
    str | Path | bool | None, Meta(description="Cache folder; false for no cache, null for the default.")
]
"""The option `cache`; True is the default folder, too."""


def item_key(kind: str, version: int | str, *parts: Any) -> bytes:
    """The key of one item: a hash of its kind, the version of the code, and all its inputs.

    Parts are plain JSON. The key order of mappings is ignored; where it matters, pass the JSON text instead.
    """
    inputs = (kind, version, parts)
    try:
        text = msgspec.json.encode(inputs, order="deterministic")
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded as UTF-8, but JSON can escape it.
        text = json.dumps(inputs, sort_keys=True).encode()
    return blake2b(text, digest_size=20).digest()


def cache_folder(option: CacheOption = None) -> Path | None:
    """Return the folder for data kept between runs; None if nothing is kept.

    It is `option` if that is a path, else `$TOOLYARD_CACHE_DIR`, else `toolyard` in the user's cache folder.
    """
    if not isinstance(option, str | Path | bool | None):
        raise ConfigError(f"cache must be a folder or false, not {type(option).__name__}")
    if option is False:
        return None
    named = option if isinstance(option, str | Path) and str(option) else os.environ.get(CACHE_DIR_VARIABLE)
    if named:
        try:
            os.fsencode(named)
            if "\0" in str(named):
                raise ValueError("a path has no null character")
            return Path(named).expanduser()
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"cache: {str(named)!r} is no folder: {error}") from None
    shared = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(shared or Path.home() / ".cache") / "toolyard"
    except RuntimeError:
        return None


@functools.cache
def warn_once(text: str) -> None:
    """Log a warning, unless this process has already logged the same text."""
    _log.warning("%s", text)


class ItemCache:
    """Values by kind and key, in one SQLite file.

    The file is opened for each operation and closed again, so a cache may be created before a fork and used from any
    thread.
    """

    def __init__(self, option: CacheOption = None) -> None:
        folder = cache_folder(option)
        self.path = None if folder is None else folder / FILE

    def get_many(self, kind: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the stored values by key; missing keys are left out."""
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, bytes] = {}

        def read(db: sqlite3.Connection) -> None:
            for start in range(0, len(wanted), _KEYS_PER_QUERY):
                some = wanted[start : start + _KEYS_PER_QUERY]
                marks = ", ".join("?" * len(some))
                rows = db.execute(f"SELECT key, value FROM items WHERE kind = ? AND key IN ({marks})", (kind, *some))  # noqa: S608
                found.update(rows)

        if self.path is not None and os.path.exists(self.path) and not self._use_file(self.path, read):
            # Rows read before the file turned out to be damaged cannot be trusted either.
            found.clear()
        return found

    def put_many(self, kind: str, items: Iterable[tuple[bytes, bytes]], *, limit: int | None = None) -> None:
        """Store values; all of them are committed when this returns.

        With a `limit` in bytes, the oldest values of this kind are deleted until the rest fits.
        """
        rows = [(kind, key, value) for key, value in items]

        def write(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(_WRITE, rows)
            if limit is not None:
                db.execute(_DELETE_OLDEST, (kind, limit))
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
        """Return the value of every key, in order; compute and store the missing ones, `chunk` at a time.

        `compute` receives indexes into `keys` (the first of each missing key) and returns their values. Each chunk is
        committed before the next one starts. `force` computes all values again.
        """
        found = {} if force else self.get_many(kind, keys)
        lacking: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            if key not in found:
                lacking.setdefault(key, place)
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
        """Open the file and run `work`; return False, after a warning, if the file cannot be used."""
        from toolyard.sessions.store.sqlite import open_database

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # The file is private, since descriptions of tools may be confidential.
            db = open_database(path, _APPLICATION, _VERSION, upgrade=_create_table, patience=_BUSY_SECONDS)
            with closing(db):
                db.execute("PRAGMA synchronous = NORMAL")
                work(db)
        except (sqlite3.Error, OSError) as error:
            advice = "; if it is damaged, delete it" if isinstance(error, sqlite3.DatabaseError) else ""
            warn_once(f"the cache {path} cannot be used, so everything is computed: {error}{advice}")
            return False
        return True


def _create_table(db: sqlite3.Connection, known: int) -> None:
    if not known:
        db.execute(_TABLE)


LIMIT = 1 << 29
"""Total bytes of the array sets of one kind; beyond it, the oldest are deleted."""
_TOOLS_PER_BLOCK = 256
"""Definitions encoded and hashed at a time, so that they are still in the processor's cache."""

_encode = msgspec.msgpack.Encoder().encode
_read_definition = attrgetter("namespace", "name", "description", "parameters", "output_parameters")


def hash_catalog(tools: Sequence[Tool], *parts: Any) -> bytes:
    """The key of data derived from the definitions of all these tools, in this order, and from `parts`.

    Parts are plain JSON. Reads every schema, so deferred schemas are built.
    """
    # The fastest collision-resistant hash on most processors.
    digest = sha256()
    with paused_gc():
        for start in range(0, len(tools), _TOOLS_PER_BLOCK):
            digest.update(_encode_definitions(tools[start : start + _TOOLS_PER_BLOCK]))
    return item_key("set", 2, digest.hexdigest(), *parts)


def _encode_definitions(tools: Sequence[Tool]) -> bytes:
    definitions = list(map(_read_definition, tools))
    try:
        return _encode(definitions)
    except (UnicodeEncodeError, OverflowError):
        # A lone surrogate or a number beyond 64 bits; any stable encoding will do.
        return repr(definitions).encode("utf-8", "surrogatepass")


def read_arrays(cache: ItemCache, kind: str, key: bytes) -> dict[str, Array] | None:
    """Return the arrays, read-only; None if they are missing or damaged."""
    kept = cache.get_many(kind, [key]).get(key)
    if kept is None:
        return None
    try:
        # Each array has a checksum, so damage is detected on reading.
        with np.load(io.BytesIO(kept), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        warn_once(f"{kind} in {cache.path} cannot be read, and is made again: {error}")
        return None
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def store_arrays(cache: ItemCache, kind: str, key: bytes, arrays: Mapping[str, Array], *, limit: int = LIMIT) -> None:
    """Store arrays for `read_arrays`; sets larger than `limit` bytes are not stored and displace nothing."""
    if any(array.dtype.hasobject for array in arrays.values()):
        raise TypeError("arrays of Python objects cannot be kept")
    if cache.path is None or sum(array.nbytes for array in arrays.values()) > limit:
        return
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **arrays)
    cache.put_many(kind, [(key, written.getvalue())], limit=limit)
