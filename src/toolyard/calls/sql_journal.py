"""`SqlJournal`: the journal in tables next to the sessions, for all processes that share a store."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toolyard.calls.journal import (
    KEPT_EVENTS,
    SCANNED,
    CallFilter,
    CallLogOptions,
    CallRow,
    Event,
    EventData,
    Journal,
    LogPage,
    LogPosition,
    MemoryJournal,
    clean_text,
    describe_row,
    encode_event_data,
    make_row,
    new_call_number,
)
from toolyard.calls.sinks import CallEvent
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.names import glob_matcher
from toolyard.sessions.store import tables
from toolyard.sessions.store.base import Condition, LogRow, Run
from toolyard.sessions.store.sql import LogTrimmer, SessionStore

_EVENTS_AT_ONCE = 1000
_WILDCARD = re.compile(r"([*?[])")


class SqlJournal(Journal):
    """The calls, and the last events, of all processes that share a store. Writes join the store's next transaction."""

    epoch = "s"

    def __init__(self, store: SessionStore, options: CallLogOptions) -> None:
        super().__init__(options)
        self._store = store
        self._trimmers = {
            "calls": LogTrimmer(store, "calls", options.max_rows, self._find_oldest),
            "events": LogTrimmer(store, "events", KEPT_EVENTS),
        }

    def add(self, row: CallRow) -> None:
        """See `Journal`."""
        for each in self._write_row(row):
            self._store.add_lazily(each)

    def add_event(self, kind: str, owner: str, namespace: str, about: EventData) -> None:
        """See `Journal`."""
        self._store.add_lazily(self._write_event(kind, owner, namespace, about))

    def write_rows(self, event: CallEvent) -> tuple[LogRow, ...]:
        """See `Journal`."""
        return self._write_row(make_row(event))

    def _write_row(self, row: CallRow) -> tuple[LogRow, LogRow]:
        self._trimmers["calls"].count()
        columns = (row.owner, row.session_id, row.tool, row.mode, row.code, row.effect, row.effects)
        rest = (row.time, row.duration, row.definition_hash, row.approval, row.argument_bytes, row.result_bytes)
        data = msgspec.msgpack.encode((*rest, row.call_id, row.request_id, row.seq, row.steps))
        return LogRow("calls", (*row.place, *columns, data)), self._write_event(*describe_row(row))

    def _write_event(self, kind: str, owner: str, namespace: str, about: EventData) -> LogRow:
        self._trimmers["events"].count()
        return LogRow("events", (new_call_number(), kind, clean_text(owner), namespace, encode_event_data(about)))

    def get(self, number: int) -> CallRow | None:
        """See `Journal`."""
        rows = self._store.read(lambda run: tables.list_calls(run, [("id = ?", (number,))], 1))
        return _read_row(rows[0]) if rows else None

    def _find_rows(self, wanted: CallFilter, since: int, before: LogPosition, most: int) -> LogPage:
        indexed, rest = _write_conditions(wanted)
        glob = wanted.tool if _WILDCARD.search((wanted.tool or "").removesuffix("*")) else None
        scan: list[Condition] = [("(at, id) < (?, ?)", before), *indexed, ("at >= ?", (since,))]

        def read(run: Run) -> tuple[LogPosition | None, list[Any]]:
            if not rest and glob is None:
                return None, tables.list_calls(run, scan, most)
            last = tables.list_calls(run, scan, 1, skipped=SCANNED - 1, columns="at, id")
            end = LogPosition(*last[0]) if last else None
            # Repeat the condition on `at` alone, since SQLite does not use the index for the pair.
            within = scan if end is None else [*scan[:-1], ("at >= ?", end[:1]), ("(at, id) >= (?, ?)", end)]
            return end, tables.list_calls(run, [*within, *rest], most if glob is None else SCANNED)

        end, rows = self._store.read(read)
        fits = glob_matcher([glob or "*"])
        fitting = [row for row in rows if fits(row[tables.TOOL_AT])]
        return LogPage(list(map(_read_row, fitting[:most])), end)

    def read_events(self, after: int) -> tuple[list[Event], bool]:
        """See `Journal`."""
        most, settled = _EVENTS_AT_ONCE, self._store.settled
        rows, first = self._store.read(lambda run: tables.list_events(run, after, most, settled))
        # At the start, the first id need not be 1. But if events had been trimmed, `KEPT_EVENTS` of them would remain.
        whole = not after and len(rows) < min(KEPT_EVENTS, most)
        return list(map(_read_event, rows)), whole or first is None or first <= after + 1

    def read_recent_events(self) -> list[Event]:
        """See `Journal`."""
        settled = self._store.settled
        rows = self._store.read(lambda run: tables.list_recent_events(run, KEPT_EVENTS, settled))
        return list(map(_read_event, rows))


def _write_conditions(wanted: CallFilter) -> tuple[list[Condition], list[Condition]]:
    """At most one condition for an index, likely the most selective, and all other conditions.

    A glob becomes a condition on its prefix before the first wildcard, which is exact for one like `hr::*`.
    """
    start, wildcard, *_ = (*_WILDCARD.split(wanted.tool or "", 1), "")
    tool = None if wildcard else wanted.tool
    indexed = _equal(session=wanted.session_id, tool=tool, code=wanted.code, owner=wanted.owner)
    indexed += [("code IS NOT NULL", ())] if wanted.errors else []
    others = _equal(mode=wanted.mode, effect=wanted.effect, effects=wanted.effects)
    starts = ("" if wanted.namespace is None else wanted.namespace + TOOL_NAMESPACE_SEP, start if wildcard else "")
    others += [("substr(tool, 1, ?) = ?", (len(text), text)) for text in starts if text]
    # Turn the columns of the others into expressions, so that the database cannot choose a less selective index.
    others += [(sql.replace(" ", " || '' ", 1), values) for sql, values in indexed[1:]]
    return indexed[:1], others


def _equal(**wanted: str | None) -> list[Condition]:
    return [(f"{name} = ?", (value,)) for name, value in wanted.items() if value is not None]


def _read_row(row: Any) -> CallRow:
    _, number, owner, session_id, tool, mode, code, effect, effects, data = row
    # Rows written by earlier versions have no steps.
    began, took, *rest = (*msgspec.msgpack.decode(bytes(data)), ())[:10]
    told = (*rest[:7], tuple(rest[7]))
    return CallRow(int(number), began, took, tool, mode, session_id, owner, code, effect, effects, *told)


def _read_event(row: Any) -> Event:
    number, kind, owner, namespace, data = row
    return Event(int(number), kind, owner, namespace, bytes(data))


def open_journal(store: SessionStore | None, options: CallLogOptions) -> Journal:
    """The journal for a session store: in the same database, or in memory without one."""
    return MemoryJournal(options) if store is None else SqlJournal(store, options)
