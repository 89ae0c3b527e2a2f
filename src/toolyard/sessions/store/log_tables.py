"""The SQL of the call log and of the log of events, in the dialect that SQLite and Postgres share.

Rows are read newest first, by when the call ended; a page begins where the one before it stopped. One condition of a
filter is answered by an index. The others are looked at row by row, and never at more than `SCANNED` rows: a page may
be short, or empty, and say where to go on.
"""

from __future__ import annotations

from typing import Any

from toolyard.sessions.store.base import AddRows, LogRow, LogWrite, TrimLog
from toolyard.sessions.store.steps import Run, Step

SCANNED = 10_000
"""Rows that are looked at for one page."""

CALLS = (
    "CREATE TABLE calls (at BIGINT NOT NULL, id BIGINT NOT NULL, owner {text} NOT NULL, session {text} NOT NULL,"
    " tool {text} NOT NULL, mode {text} NOT NULL, code {text}, effect {text}, effects {text}, data {blob} NOT NULL,"
    " PRIMARY KEY (at, id)){compact}",
    "CREATE UNIQUE INDEX calls_by_id ON calls (id)",
    "CREATE INDEX calls_by_session ON calls (session, at, id)",
    "CREATE INDEX calls_by_tool ON calls (tool, at, id)",
    "CREATE INDEX calls_by_owner ON calls (owner, at, id)",
    # Most calls do not fail, and cost nothing here.
    "CREATE INDEX calls_by_code ON calls (code, at, id) WHERE code IS NOT NULL",
    "CREATE INDEX calls_failed ON calls (at, id) WHERE code IS NOT NULL",
)

EVENTS = (
    "{sequence}",
    "CREATE TABLE events (id {event_id}, stamp BIGINT NOT NULL, kind {text} NOT NULL, owner {text} NOT NULL,"
    " namespace {text} NOT NULL, data {blob} NOT NULL)",
)

LEADING = ("session", "tool", "code", "owner")
"""Columns with an index, the one that is likely to leave fewest rows first."""

_COLUMNS = "at, id, owner, session, tool, mode, code, effect, effects, data"
_ORDER = "ORDER BY at DESC, id DESC LIMIT ?"
_ADD = {
    "calls": f"INSERT INTO calls ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",  # noqa: S608 - constants only
    "events": "INSERT INTO events (stamp, kind, owner, namespace, data) VALUES (?, ?, ?, ?, ?)",
}
_TRIM = {
    "calls": "DELETE FROM calls WHERE (at, id) IN (SELECT at, id FROM calls WHERE at < ? ORDER BY at, id LIMIT ?)",
    "events": "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE id < ? ORDER BY id LIMIT ?)",
}
_BEFORE = {
    "calls": "SELECT 1 FROM calls WHERE at < ? LIMIT 1",
    "events": "SELECT 1 FROM events WHERE id < ? LIMIT 1",
}
_NTH = {
    "calls": "SELECT at FROM calls ORDER BY at DESC, id DESC LIMIT 1 OFFSET ?",
    "events": "SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET ?",
}


def log_steps(write: LogWrite) -> list[Step]:
    """The statements of one write."""
    if isinstance(write, TrimLog):
        return [Step(_TRIM[write.table], (write.before, write.most), tell=write.outcome.tell_most)]
    return row_steps(write.rows)


def row_steps(rows: tuple[LogRow, ...]) -> list[Step]:
    """One statement a row."""
    return [Step(_ADD[row.table], row.values) for row in rows]


def are_rows_written(run: Run, write: AddRows) -> bool:
    """Whether rows whose commit was never answered are there: they were written together."""
    for row in write.rows[:1]:
        # A call has a number, and an event a stamp, that no other has; there are few events.
        if row.table == "calls":
            return run("SELECT 1 FROM calls WHERE id = ?", (row.values[1],)).fetchone() is not None
        return run("SELECT 1 FROM events WHERE stamp = ?", (row.values[0],)).fetchone() is not None
    return False


_EVENTS = "SELECT id, kind, owner, namespace, data FROM events WHERE id > ?"


def read_events(run: Run, after: int, most: int, settled: str) -> tuple[list[Any], int | None]:
    """What came after an event, in the order of commits, and the first event that is kept.

    `settled` is a condition for events that nothing can come before any more.
    """
    rows = run(f"{_EVENTS}{settled} ORDER BY id LIMIT ?", (after, most)).fetchall()
    return rows, run("SELECT min(id) FROM events", ()).fetchone()[0] if rows else None


def recent_events(run: Run, most: int, settled: str) -> list[Any]:
    """The last events, oldest first."""
    return run(f"{_EVENTS}{settled} ORDER BY id DESC LIMIT ?", (-1, most)).fetchall()[::-1]


def find_surplus(run: Run, table: str, most: int) -> int | None:
    """The place before which rows are too many; None if there are no more than `most`."""
    row = run(_NTH[table], (most,)).fetchone()
    return None if row is None else int(row[0]) + 1


def has_rows_before(run: Run, table: str, place: int) -> bool:
    """Whether there is something to trim, which is asked without a transaction that writes."""
    return run(_BEFORE[table], (place,)).fetchone() is not None


def get_call(run: Run, number: int) -> Any:
    """One row, or None."""
    return run(f"SELECT {_COLUMNS} FROM calls WHERE id = ?", (number,)).fetchone()  # noqa: S608 - constants only


class CallQuery:
    """One question to the log: `place` narrows what is looked at, `rest` what of that is shown."""

    def __init__(self) -> None:
        self.place: list[str] = []
        self.rest: list[str] = []
        self._place_values: list[object] = []
        self._rest_values: list[object] = []

    def narrow(self, condition: str, *values: object) -> None:
        """A condition that an index answers."""
        self.place.append(condition)
        self._place_values += values

    def restrict(self, condition: str, *values: object) -> None:
        """A condition that each row is asked."""
        self.rest.append(condition)
        self._rest_values += values

    def list(self, run: Run, limit: int) -> tuple[list[Any], tuple[int, int] | None]:
        """Rows, at most `limit`, and where the next page begins, if there may be one."""
        scan = f"SELECT {_COLUMNS} FROM calls{_where(self.place)} {_ORDER}"  # noqa: S608 - constants only
        if not self.rest:
            rows = run(scan, (*self._place_values, limit + 1)).fetchall()
            return rows[:limit], _place_of(rows[limit - 1]) if len(rows) > limit else None
        chosen = f"SELECT {_COLUMNS} FROM ({scan}) AS scanned{_where(self.rest)} {_ORDER}"  # noqa: S608 - constants only
        values = (*self._place_values, SCANNED, *self._rest_values, limit + 1)
        rows = run(chosen, values).fetchall()
        if len(rows) > limit:
            return rows[:limit], _place_of(rows[limit - 1])
        last = run(f"{scan} OFFSET ?", (*self._place_values, 1, SCANNED - 1)).fetchone()
        return rows, None if last is None else _place_of(last)


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _place_of(row: Any) -> tuple[int, int]:
    return int(row[0]), int(row[1])
