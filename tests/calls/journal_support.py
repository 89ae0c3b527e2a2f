"""Shared by the tests of the call log: rows, a journal filled with them, and all its pages."""

import fnmatch
import time

from toolyard.calls.journal import CallLogOptions, CallRow, new_call_number
from toolyard.calls.sql_journal import SqlJournal
from toolyard.sessions.store.base import AddRows

NOW = time.time()


PLENTY = CallLogOptions(max_rows=10**9)


def make_row(number=None, ended=0.0, **facts):
    """A call that took a second."""
    facts = {"tool": "hr::hire", "mode": "execute"} | facts
    return CallRow(number=new_call_number() if number is None else number, time=NOW + ended - 1, duration=1.0, **facts)


def fill_log(log, rows):
    """Have them in the log before going on."""
    if isinstance(log, SqlJournal):
        log._store.write(AddRows(tuple(each for row in rows for each in log._write_row(row))))
    else:
        for row in sorted(rows, key=lambda row: row.place):
            log.add(row)


def read_all(log, wanted, limit):
    """Every page, one after the other."""
    page = log.list_calls(wanted, limit)
    rows = list(page.rows)
    while page.next is not None:
        page = log.list_calls(wanted, limit, page.next)
        assert len(page.rows) <= limit
        rows += page.rows
    return rows


def is_wanted(row, wanted):
    ended = row.place.at
    return (
        (wanted.tool is None or fnmatch.fnmatchcase(row.tool, wanted.tool))
        and (wanted.namespace is None or row.tool.startswith(f"{wanted.namespace}::"))
        and all(
            getattr(wanted, name) in (None, getattr(row, name))
            for name in ("session_id", "owner", "code", "mode", "effect", "effects")
        )
        and (wanted.since is None or ended >= int(wanted.since * 1e6))
        and (wanted.until is None or ended < int(wanted.until * 1e6))
        and (row.code is not None or not wanted.errors)
    )
