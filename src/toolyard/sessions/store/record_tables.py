"""The SQL of records, in the dialect that SQLite and Postgres share."""

from __future__ import annotations

import msgspec

from toolyard.sessions.store.record_writes import PutRecord, RecordWrite, RemoveRecord
from toolyard.sessions.store.statement import Run, Step

TABLES = (
    "CREATE TABLE records (kind {text} NOT NULL, owner {text} NOT NULL, name {text} NOT NULL, value {blob} NOT NULL,"
    " at DOUBLE PRECISION NOT NULL, stamp BIGINT NOT NULL, PRIMARY KEY (kind, owner, name)){compact}",
    "CREATE INDEX records_by_age ON records (kind, at)",
    "CREATE TABLE record_versions (kind {text} NOT NULL PRIMARY KEY, version BIGINT NOT NULL){compact}",
)

UNWATCHED = frozenset({"answer"})
"""Kinds that are written all the time and that nobody waits for changes of: they have no version."""

_THIS = "kind = ? AND owner = ? AND name = ?"
_INSERT = "INSERT INTO records (kind, owner, name, value, at, stamp) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT"
_PUT_NEW = f"{_INSERT} DO NOTHING"
_PUT = f"{_INSERT} (kind, owner, name) DO UPDATE SET value = excluded.value, at = excluded.at, stamp = excluded.stamp"
_REPLACE = f"UPDATE records SET value = ?, at = ?, stamp = ? WHERE {_THIS} AND value = ?"  # noqa: S608 - constants only
_REMOVE = f"DELETE FROM records WHERE {_THIS}"  # noqa: S608 - constants only
_REMOVE_OLD = f"{_REMOVE} AND value = ?"
_EXPIRE = (
    "DELETE FROM records WHERE (kind, owner, name) IN"
    " (SELECT kind, owner, name FROM records WHERE kind = ? AND at < ? ORDER BY at LIMIT ?)"
)
_CHANGED = (
    "INSERT INTO record_versions (kind, version) VALUES (?, 1)"
    " ON CONFLICT (kind) DO UPDATE SET version = record_versions.version + 1"
)


class Record(msgspec.Struct, frozen=True):
    """One value, with when it was written."""

    owner: str
    name: str
    value: bytes
    at: float


def steps(write: RecordWrite) -> list[Step]:
    """The statements of one write. A version may grow although nothing changed; never the other way round."""
    changed = [] if write.kind in UNWATCHED else [Step(_CHANGED, (write.kind,))]
    return [_step(write), *changed]


def _step(write: RecordWrite) -> Step:
    if isinstance(write, PutRecord):
        this = (write.kind, write.owner, write.name)
        content = (write.value, write.at, write.stamp)
        if write.old is not None:
            return Step(_REPLACE, (*content, *this, write.old), tell=write.outcome.tell)
        return Step(_PUT_NEW if write.new else _PUT, (*this, *content), tell=write.outcome.tell)
    if isinstance(write, RemoveRecord):
        this = (write.kind, write.owner, write.name)
        if write.old is not None:
            return Step(_REMOVE_OLD, (*this, write.old), tell=write.outcome.tell_most)
        return Step(_REMOVE, this, tell=write.outcome.tell_most)
    return Step(_EXPIRE, (write.kind, write.before, write.most), tell=write.outcome.tell_most)


def landed(run: Run, write: RecordWrite) -> bool:
    """Whether a write whose commit was never answered is there, if it is one that leaves a trace."""
    if not isinstance(write, PutRecord) or not write.outcome.rows:
        return False
    row = run(f"SELECT stamp FROM records WHERE {_THIS}", (write.kind, write.owner, write.name)).fetchone()  # noqa: S608 - constants only
    return row is not None and row[0] == write.stamp


def get(run: Run, kind: str, owner: str, name: str) -> bytes | None:
    """The value, or None."""
    row = run(f"SELECT value FROM records WHERE {_THIS}", (kind, owner, name)).fetchone()  # noqa: S608 - constants only
    return None if row is None else bytes(row[0])


def every(run: Run, kind: str, owner: str | None) -> list[Record]:
    """All of a kind, of one owner or of all, by owner and name."""
    query = "SELECT owner, name, value, at FROM records WHERE kind = ?"
    rows = (
        run(f"{query} ORDER BY owner, name", (kind,))
        if owner is None
        else run(f"{query} AND owner = ? ORDER BY name", (kind, owner))
    ).fetchall()
    return [Record(whose, name, bytes(value), at) for whose, name, value, at in rows]


def version(run: Run, kind: str) -> int:
    """Grows with every change of the kind; 0 before the first."""
    row = run("SELECT version FROM record_versions WHERE kind = ?", (kind,)).fetchone()
    return 0 if row is None else int(row[0])
