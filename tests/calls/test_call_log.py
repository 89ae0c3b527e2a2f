"""The call log: every page has the calls that were asked for, newest first, in memory and in a file."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from journal_support import NOW, PLENTY, fill_log, is_wanted, make_row, read_all

from conftest import examples
from toolyard.calls import journal, sql_journal
from toolyard.calls.call_log import CallFilter, read_call_id
from toolyard.calls.journal import CallLogOptions, MemoryJournal
from toolyard.calls.sql_journal import SqlJournal
from toolyard.sessions.store.sqlite import SqliteStore

TOOLS = st.sampled_from(["hr::hire", "hr::fire", "hr2::hire", "HR::hire", "plain", "50%::_x", "ümlaut::q!"])
TEXTS = st.sampled_from(["", "a", "b", "ü"])
CODES = st.sampled_from([None, None, "tool.denied", "tool.timeout"])
ROWS = st.builds(
    make_row,
    ended=st.integers(-5, 5).map(float),
    tool=TOOLS,
    mode=st.sampled_from(["execute", "simulate"]),
    session_id=TEXTS,
    owner=TEXTS,
    code=CODES,
    effect=st.sampled_from([None, "none", "unknown"]),
    effects=st.sampled_from([None, "read", "write"]),
    call_id=st.none() | TEXTS,
)
FILTERS = st.builds(
    CallFilter,
    tool=st.none() | TOOLS | st.sampled_from(["*", "hr::*", "*::hire", "h[rs]::*", "5?%::_*", "*!"]),
    namespace=st.none() | st.sampled_from(["hr", "HR", "50%", "none"]),
    session_id=st.none() | TEXTS,
    owner=st.none() | TEXTS,
    code=CODES,
    mode=st.sampled_from([None, "execute"]),
    effect=st.sampled_from([None, "unknown"]),
    effects=st.sampled_from([None, "read"]),
    since=st.none() | st.integers(-5, 5).map(lambda at: NOW + at),
    until=st.none() | st.integers(-5, 5).map(lambda at: NOW + at),
    errors=st.booleans(),
)


@settings(deadline=None, max_examples=examples(60))
@given(rows=st.lists(ROWS, max_size=30), asked=st.lists(FILTERS, min_size=1, max_size=8), limit=st.integers(1, 7))
def test_pages_in_a_line_are_the_calls_that_fit_newest_first_in_memory_and_in_a_file(rows, asked, limit):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # So few that pages stop early, empty ones too.
        patch.setattr(journal, "SCANNED", 5)
        patch.setattr(sql_journal, "SCANNED", 5)
        store = SqliteStore(Path(folder) / "s.db")
        for log in (MemoryJournal(PLENTY), SqlJournal(store, PLENTY)):
            fill_log(log, rows)
            for wanted in asked:
                expected = sorted(
                    (row for row in rows if is_wanted(row, wanted)), key=lambda row: row.place, reverse=True
                )
                assert read_all(log, wanted, limit) == expected
        store.close()


def test_memory_keeps_the_last_calls_of_the_last_days():
    log = MemoryJournal(CallLogOptions(max_rows=3, days=1))
    rows = [make_row(ended=-2 * 86_400), *(make_row(ended=float(at)) for at in range(2))]
    fill_log(log, rows)
    assert log.list_calls(CallFilter(), 10).rows == rows[:0:-1]
    log.add(late := make_row(ended=9.0))
    assert log.get(rows[0].number) is None and log.get(late.number) == late


@pytest.mark.parametrize("text", ["", "x", "zz", "-1", "1_0", "0x1", "10", f"{2**63:016x}", "é" * 16, "0" * 17])
def test_an_id_that_no_call_can_have_is_no_number(text):
    assert read_call_id(text) is None
