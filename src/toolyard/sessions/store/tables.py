"""The SQL of sessions, records and logs, in the dialect common to SQLite and Postgres, with `?` as placeholder.

A write is a list of `Step`s that do not depend on each other's results, so that Postgres can pipeline them; only a
delete has to query first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from toolyard.model.errors import SessionError, SessionExistsError
from toolyard.sessions.store.base import (
    AddRows,
    Append,
    Condition,
    Create,
    ExpireRecords,
    Intend,
    Key,
    LogRow,
    LogTable,
    LogWrite,
    RecordWrite,
    RemoveRecord,
    Run,
    SessionInfo,
    Step,
    StoredEntry,
    StoredSession,
    Touch,
    Withdraw,
)

RECORDS = (
    "CREATE TABLE records (kind {text} NOT NULL, owner {text} NOT NULL, name {text} NOT NULL, value {blob} NOT NULL,"
    " at DOUBLE PRECISION NOT NULL, stamp BIGINT NOT NULL, PRIMARY KEY (kind, owner, name)){compact}",
    "CREATE INDEX records_by_age ON records (kind, at)",
    "CREATE TABLE record_versions (kind {text} NOT NULL PRIMARY KEY, version BIGINT NOT NULL){compact}",
)

UNWATCHED = frozenset({"answer"})
"""Kinds that are written constantly and not watched for changes, so they have no version."""

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
    """One value with the time it was written."""

    owner: str
    name: str
    value: bytes
    at: float


def record_steps(write: RecordWrite) -> list[Step]:
    """The statements of one write. A version may grow without a change, but never stays the same after one."""
    values: tuple[object, ...]
    if isinstance(write, ExpireRecords):
        sql, values = _EXPIRE, (write.kind, write.before, write.most)
    else:
        this = (write.kind, write.owner, write.name)
        old = () if write.old is None else (write.old,)
        if isinstance(write, RemoveRecord):
            sql, values = _REMOVE_OLD if old else _REMOVE, (*this, *old)
        else:
            # The last column, `stamp`, is unused; older versions identified unacknowledged commits by it.
            content = (write.value, write.at, 0)
            sql, values = _PUT_NEW if write.new else _PUT, (*this, *content)
            if old:
                sql, values = _REPLACE, (*content, *this, *old)
    changed = [] if write.kind in UNWATCHED else [Step(_CHANGED, (write.kind,))]
    return [Step(sql, values, report=write.outcome.set_rows), *changed]


def get_record(run: Run, kind: str, owner: str, name: str) -> bytes | None:
    """The value, or None."""
    row = run(f"SELECT value FROM records WHERE {_THIS}", (kind, owner, name)).fetchone()  # noqa: S608 - constants only
    return None if row is None else bytes(row[0])


def list_records(run: Run, kind: str, owner: str | None) -> list[Record]:
    """All records of a kind, of one owner or of all, sorted by owner and name."""
    mine, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
    sql = f"SELECT owner, name, value, at FROM records WHERE kind = ?{mine} ORDER BY owner, name"  # noqa: S608 - constants only
    return [Record(whose, name, bytes(value), at) for whose, name, value, at in run(sql, (kind, *values)).fetchall()]


def record_version(run: Run, kind: str) -> int:
    """The kind's version, which grows with every change; 0 before the first."""
    row = run("SELECT version FROM record_versions WHERE kind = ?", (kind,)).fetchone()
    return 0 if row is None else int(row[0])


_SESSIONS = (
    "CREATE TABLE sessions (owner {text} NOT NULL, id {text} NOT NULL, branch {text} NOT NULL UNIQUE,"
    " used DOUBLE PRECISION NOT NULL, PRIMARY KEY (owner, id)){compact}",
    "CREATE TABLE branches (id {text} NOT NULL PRIMARY KEY, parent {text}, base BIGINT NOT NULL,"
    " changes {blob} NOT NULL){compact}",
    "CREATE INDEX branches_by_parent ON branches (parent, base)",
    "CREATE TABLE entries (branch {text} NOT NULL, seq BIGINT NOT NULL, entry {blob} NOT NULL,"
    " changes {blob} NOT NULL, PRIMARY KEY (branch, seq)){compact}",
    "CREATE TABLE intents (branch {text} NOT NULL, seq BIGINT NOT NULL, call {blob} NOT NULL,"
    " PRIMARY KEY (branch, seq)){compact}",
)

_TIMES = ("ALTER TABLE entries ADD COLUMN at DOUBLE PRECISION", "ALTER TABLE entries ADD COLUMN took DOUBLE PRECISION")

_CALLS = (
    "CREATE TABLE calls (at BIGINT NOT NULL, id BIGINT NOT NULL, owner {text} NOT NULL, session {text} NOT NULL,"
    " tool {text} NOT NULL, mode {text} NOT NULL, code {text}, effect {text}, effects {text}, data {blob} NOT NULL,"
    " PRIMARY KEY (at, id)){compact}",
    "CREATE UNIQUE INDEX calls_by_id ON calls (id)",
    "CREATE INDEX calls_by_session ON calls (session, at, id)",
    "CREATE INDEX calls_by_tool ON calls (tool, at, id)",
    "CREATE INDEX calls_by_owner ON calls (owner, at, id)",
    # Partial indexes: most calls do not fail and cost nothing here.
    "CREATE INDEX calls_by_code ON calls (code, at, id) WHERE code IS NOT NULL",
    "CREATE INDEX calls_failed ON calls (at, id) WHERE code IS NOT NULL",
)

_EVENTS = (
    "{sequence}",
    "CREATE TABLE events (id {event_id}, stamp BIGINT NOT NULL, kind {text} NOT NULL, owner {text} NOT NULL,"
    " namespace {text} NOT NULL, data {blob} NOT NULL)",
)

STAGES = (_SESSIONS, RECORDS, _TIMES, _CALLS, _EVENTS)
"""Migrations: the statements that each version added to the one before. Append only, never change."""
VERSION = len(STAGES)


# The next entry number of a branch; a branch without own entries continues at its base.
_NEXT = "1 + coalesce((SELECT max(seq) FROM entries WHERE branch = ?), (SELECT base FROM branches WHERE id = ?))"

_USE = "UPDATE sessions SET used = ? WHERE owner = ? AND id = ? AND branch = ?"
_APPEND = (
    "INSERT INTO entries (branch, seq, entry, changes, at, took) SELECT ?, ?, ?, ?, ?, ?"
    f" WHERE ? = {_NEXT} ON CONFLICT DO NOTHING"
)
_SETTLE = "DELETE FROM intents WHERE branch = ? AND seq <= ?"
_WITHDRAW = "DELETE FROM intents WHERE branch = ? AND seq = ?"
_INTEND = (
    "INSERT INTO intents (branch, seq, call) SELECT ?, ?, ?"  # noqa: S608 - constants only
    " WHERE EXISTS (SELECT 1 FROM sessions WHERE owner = ? AND id = ? AND branch = ?)"
    f" AND ? = {_NEXT} ON CONFLICT DO NOTHING"
)
_NAME = (
    "INSERT INTO sessions (owner, id, branch, used) SELECT ?, ?, ?, ? WHERE 1 = 1 ON CONFLICT (owner, id) DO NOTHING"
)
_ROOT = "INSERT INTO branches (id, parent, base, changes) SELECT ?, NULL, 0, ? WHERE 1 = 1 ON CONFLICT DO NOTHING"
_FORK = (
    "INSERT INTO branches (id, parent, base, changes) SELECT ?, id, ?, ? FROM branches WHERE id = ?"  # noqa: S608 - constants only
    f" AND ? < {_NEXT} ON CONFLICT DO NOTHING"
)
_FIRST = "INSERT INTO entries (branch, seq, entry, changes) VALUES (?, ?, ?, ?)"


def missing_tables(known: int, **words: str) -> list[str]:
    """The statements to upgrade from version `known`, 0 for none; `words` are the type names of the database."""
    return [table.format(**words) for stage in STAGES[known:] for table in stage]


def write_steps(write: Create | Append | Intend | Withdraw | Touch | RecordWrite | LogWrite) -> list[Step]:
    """The statements of one write, with checks that fence off a writer that has lost its session."""
    if isinstance(write, RecordWrite):
        return record_steps(write)
    if isinstance(write, LogWrite):
        return _log_steps(write)
    owner, session_id = write.key.owner, write.key.session_id
    branch = write.branch
    if isinstance(write, Create):
        return _create_steps(write)
    if isinstance(write, Append):
        seq = write.seq
        row = (branch, seq, write.entry, write.changes, write.at, write.took)
        return [
            Step(_USE, (write.used, owner, session_id, branch), lambda: _gone_error(write)),
            Step(_APPEND, (*row, seq, branch, branch), lambda: _taken_error(write)),
            Step(_SETTLE, (branch, seq)),
            *_row_steps(write.rows),
        ]
    if isinstance(write, Touch):
        return [Step(_USE, (write.used, owner, session_id, branch))]
    if isinstance(write, Withdraw):
        # No check: if the intent is gone already, there is nothing to withdraw.
        return [Step(_WITHDRAW, (branch, write.seq))]
    values = (branch, write.seq, write.call, owner, session_id, branch, write.seq, branch, branch)
    return [Step(_INTEND, values, lambda: _taken_error(write))]


def _create_steps(write: Create) -> list[Step]:
    key, branch, base = write.key, write.branch, write.base
    if write.parent is None and base:
        raise SessionError(f"session {key.session_id!r} has no parent to inherit {base} entries from; name one")
    if write.parent is not None and write.entries:
        raise SessionError(f"session {key.session_id!r} inherits its entries; append others after it is created")
    if base < 0:
        raise SessionError(f"session {key.session_id!r} cannot inherit {base} entries; use 0 or more")
    name = Step(_NAME, (key.owner, key.session_id, branch, write.used), lambda: _exists_error(key))
    if write.parent is not None:
        parent = write.parent
        values = (branch, base, write.changes, parent, base, parent, parent)
        return [name, Step(_FORK, values, lambda: _no_parent_error(write))]
    root = Step(_ROOT, (branch, write.changes), lambda: _no_parent_error(write))
    first = [Step(_FIRST, (branch, seq, entry, b"")) for seq, entry in enumerate(write.entries, 1)]
    return [name, root, *first]


def delete_session(run: Run, key: Key) -> None:
    """Delete a session, and every branch and entry that is no longer reachable."""
    row = run("SELECT branch FROM sessions WHERE owner = ? AND id = ?", _key_values(key)).fetchone()
    # Check the count: another node may have deleted the row in between.
    if row is None or run("DELETE FROM sessions WHERE owner = ? AND id = ?", _key_values(key)).rowcount != 1:
        return
    branch: str | None = row[0]
    run("DELETE FROM intents WHERE branch = ?", (branch,))
    while branch is not None:
        branch = _prune_branch(run, branch)


def _prune_branch(run: Run, branch: str) -> str | None:
    """Delete the unreachable part of a branch. Returns its parent if that may have become unreachable as well."""
    if run("SELECT 1 FROM sessions WHERE branch = ?", (branch,)).fetchone() is not None:
        return None
    row = run("SELECT parent, base FROM branches WHERE id = ?", (branch,)).fetchone()
    if row is None:
        return None
    parent: str | None = row[0]
    needed: int | None = run("SELECT max(base) FROM branches WHERE parent = ?", (branch,)).fetchone()[0]
    if needed is None:
        run("DELETE FROM entries WHERE branch = ?", (branch,))
        run("DELETE FROM branches WHERE id = ?", (branch,))
        return parent
    run("DELETE FROM entries WHERE branch = ? AND seq > ?", (branch, needed))
    if needed < row[1]:
        # All its children fork before its own base, so it must not keep later entries of its parent alive.
        run("UPDATE branches SET base = ? WHERE id = ?", (needed, branch))
        return parent
    return None


# `upto` is the lowest base so far on the way up: only entries of an ancestor up to it are visible.
_LINE = (
    "WITH RECURSIVE line (id, parent, base, depth, upto) AS ("
    "SELECT id, parent, base, 0, CAST(9223372036854775807 AS BIGINT) FROM branches WHERE id = ?"
    " UNION ALL SELECT b.id, b.parent, b.base, line.depth + 1,"
    " CASE WHEN line.upto < line.base THEN line.upto ELSE line.base END"
    " FROM line JOIN branches b ON b.id = line.parent) "
)
_LINE_STATES = _LINE + "SELECT b.changes FROM line JOIN branches b ON b.id = line.id ORDER BY line.depth DESC"  # noqa: S608 - constants only
_LINE_ENTRIES = (
    _LINE + "SELECT e.seq, e.entry, e.changes, e.at, e.took FROM line CROSS JOIN entries e"  # noqa: S608 - constants only
    " WHERE e.branch = line.id AND e.seq <= line.upto ORDER BY e.seq"
)


def load_session(run: Run, key: Key) -> StoredSession | None:
    """The whole session in four queries, regardless of its number of ancestors."""
    found = run("SELECT branch, used FROM sessions WHERE owner = ? AND id = ?", _key_values(key)).fetchone()
    if found is None:
        return None
    branch, used = found
    states = run(_LINE_STATES, (branch,)).fetchall()
    entries = run(_LINE_ENTRIES, (branch,)).fetchall()
    return _read_stored(run, branch, used, entries, [bytes(state) for (state,) in states])


def load_newer(run: Run, key: Key, branch: str, seq: int) -> StoredSession | None:
    """The entries after `seq`; reads ancestors only if `seq` is an inherited entry."""
    found = run(
        "SELECT s.used, b.base FROM sessions s JOIN branches b ON b.id = s.branch"
        " WHERE s.owner = ? AND s.id = ? AND s.branch = ?",
        (key.owner, key.session_id, branch),
    ).fetchone()
    if found is None:
        return None
    used, base = found
    if seq < base:
        whole = load_session(run, key)
        if whole is None:
            return None
        late = tuple(entry for entry in whole.entries if entry.seq > seq)
        return StoredSession(branch=branch, entries=late, intent=whole.intent, used=used)
    entries = run(
        "SELECT seq, entry, changes, at, took FROM entries WHERE branch = ? AND seq > ? ORDER BY seq", (branch, seq)
    ).fetchall()
    return _read_stored(run, branch, used, entries, ())


def _read_stored(run: Run, branch: str, used: float, entries: Sequence[Any], changes: Sequence[bytes]) -> StoredSession:
    # Settled intents are deleted by the append, so any that is left is after the last entry.
    intent = run("SELECT seq, call FROM intents WHERE branch = ? ORDER BY seq DESC LIMIT 1", (branch,)).fetchone()
    return StoredSession(
        branch=branch,
        entries=[StoredEntry(seq, bytes(entry), bytes(change), *times) for seq, entry, change, *times in entries],
        changes=changes,
        intent=None if intent is None else (intent[0], bytes(intent[1])),
        used=used,
    )


_INFO = (
    "SELECT s.id, s.owner, coalesce((SELECT max(e.seq) FROM entries e WHERE e.branch = s.branch), b.base), s.used"
    " FROM sessions s JOIN branches b ON b.id = s.branch"
)


def count_sessions(run: Run, owner: str | None = None) -> int:
    """Number of sessions of one owner or of all."""
    mine, values = ("", ()) if owner is None else (" WHERE owner = ?", (owner,))
    return int(run(f"SELECT count(*) FROM sessions{mine}", values).fetchone()[0])  # noqa: S608 - constants only


def list_sessions(run: Run, owner: str | None) -> list[SessionInfo]:
    """Information on each session, sorted by owner and id."""
    mine, values = ("", ()) if owner is None else (" WHERE s.owner = ?", (owner,))
    rows = run(f"{_INFO}{mine} ORDER BY s.owner, s.id", values).fetchall()
    return [SessionInfo(session_id=i, owner=o, entries=n, used=used) for i, o, n, used in rows]


def list_parents(run: Run, owner: str) -> dict[str, str]:
    """The owner's forked sessions to their parents; forks of deleted sessions are omitted."""
    rows = run(
        "SELECT s.id, p.id FROM sessions s JOIN branches b ON b.id = s.branch"
        " JOIN sessions p ON p.branch = b.parent AND p.owner = s.owner WHERE s.owner = ?",
        (owner,),
    ).fetchall()
    return dict(rows)


def list_unused(run: Run, used_before: float) -> list[Key]:
    """Sessions last used before a time, held or not."""
    rows = run("SELECT owner, id FROM sessions WHERE used < ? ORDER BY owner, id", (used_before,)).fetchall()
    return [Key(owner, session_id) for owner, session_id in rows]


def last_used(run: Run, key: Key) -> float | None:
    """The time of the session's last use; None if it is gone."""
    row = run("SELECT used FROM sessions WHERE owner = ? AND id = ?", _key_values(key)).fetchone()
    return None if row is None else float(row[0])


def _key_values(key: Key) -> tuple[object, ...]:
    return (key.owner, key.session_id)


def _exists_error(key: Key) -> SessionError:
    return SessionExistsError(
        f"session {key.session_id!r}{f' of {key.owner!r}' if key.owner else ''} exists already; "
        "use another id or delete it"
    )


def _gone_error(write: Append) -> SessionError:
    return SessionError(
        f"entry {write.seq} was not written: session {write.key.session_id!r} of {write.key.owner!r} is over"
        " or was started anew; set it up again"
    )


def _taken_error(write: Append | Intend) -> SessionError:
    return SessionError(
        f"entry {write.seq} of session {write.key.session_id!r} of {write.key.owner!r} was not written: the session"
        " is over, or another process wrote to it; load it again"
    )


def _no_parent_error(write: Create) -> SessionError:
    if write.parent is None:
        return SessionError(f"branch {write.branch!r} exists already; branch ids are used once only")
    return SessionError(
        f"session {write.key.session_id!r} was not created: branch {write.parent!r} is gone or has fewer than"
        f" {write.base} entries, or branch id {write.branch!r} was used before"
    )


_CALL_COLUMNS = "at, id, owner, session, tool, mode, code, effect, effects, data"
TOOL_AT = 4
_ADD_ROW: dict[LogTable, str] = {
    "calls": f"INSERT INTO calls ({_CALL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",  # noqa: S608 - constants only
    "events": "INSERT INTO events (stamp, kind, owner, namespace, data) VALUES (?, ?, ?, ?, ?)",
}
_PLACE: dict[LogTable, str] = {"calls": "at", "events": "id"}
"""The column that orders each log."""


def _log_steps(write: LogWrite) -> list[Step]:
    if isinstance(write, AddRows):
        return _row_steps(write.rows)
    table, place = write.table, _PLACE[write.table]
    old = f"SELECT id FROM {table} WHERE {place} < ? ORDER BY {place} LIMIT ?"  # noqa: S608 - constants only
    trim = f"DELETE FROM {table} WHERE id IN ({old})"  # noqa: S608 - constants only
    return [Step(trim, (write.before, write.most), report=write.outcome.set_rows)]


def _row_steps(rows: tuple[LogRow, ...]) -> list[Step]:
    return [Step(_ADD_ROW[row.table], row.values) for row in rows]


def list_calls(
    run: Run, conditions: Sequence[Condition], most: int, *, skipped: int = 0, columns: str = _CALL_COLUMNS
) -> list[Any]:
    """Rows of the call log, newest first; at least one condition should be covered by an index."""
    where = " AND ".join(sql for sql, _ in conditions)
    values = [value for _, given in conditions for value in given]
    sql = f"SELECT {columns} FROM calls WHERE {where} ORDER BY at DESC, id DESC LIMIT ? OFFSET ?"  # noqa: S608 - constants only
    return run(sql, (*values, most, skipped)).fetchall()


_EVENTS_AFTER = "SELECT id, kind, owner, namespace, data FROM events WHERE id > ?"


def list_events(run: Run, after: int, most: int, settled: str) -> tuple[list[Any], int | None]:
    """Events after id `after` in commit order, and the id of the oldest event that is kept; None without rows.

    `settled` is a condition that excludes events before which others may still appear.
    """
    rows = run(f"{_EVENTS_AFTER}{settled} ORDER BY id LIMIT ?", (after, most)).fetchall()
    return rows, run("SELECT min(id) FROM events", ()).fetchone()[0] if rows else None


def list_recent_events(run: Run, most: int, settled: str) -> list[Any]:
    """The most recent events, oldest first."""
    return run(f"{_EVENTS_AFTER}{settled} ORDER BY id DESC LIMIT ?", (-1, most)).fetchall()[::-1]


def find_surplus(run: Run, table: LogTable, most: int) -> int:
    """The position before which rows are surplus; 0 if there are at most `most`."""
    sql = f"SELECT {_PLACE[table]} FROM {table} ORDER BY {_PLACE[table]} DESC LIMIT 1 OFFSET ?"  # noqa: S608 - constants only
    row = run(sql, (most,)).fetchone()
    return 0 if row is None else int(row[0]) + 1


def has_rows_before(run: Run, table: LogTable, place: int) -> bool:
    """Whether there is something to trim, without a write transaction."""
    sql = f"SELECT 1 FROM {table} WHERE {_PLACE[table]} < ? LIMIT 1"  # noqa: S608 - constants only
    return run(sql, (place,)).fetchone() is not None
