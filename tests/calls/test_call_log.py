"""The call log: what is asked for is found, page by page, whatever keeps it; and no question looks at everything."""

import fnmatch
import itertools
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from sessions.conftest import place as place, postgres_place as postgres_place, sqlite_place as sqlite_place
from waiting import until

from conftest import examples
from toolyard.calls import journal, sql_journal
from toolyard.calls.call_log import CallFilter, CallRow, read_call_id
from toolyard.calls.journal import CallLogOptions, MemoryJournal, clean_text, new_call_number
from toolyard.calls.sql_journal import SqlJournal
from toolyard.sessions.store.base import AddRows
from toolyard.sessions.store.sqlite import SqliteStore

NOW = time.time()
PLENTY = CallLogOptions(max_rows=10**9)


def make(number=None, ended=0.0, **facts):
    """A call that took a second."""
    facts = {"tool": "hr::hire", "mode": "execute"} | facts
    return CallRow(number=new_call_number() if number is None else number, time=NOW + ended - 1, duration=1.0, **facts)


def fill(log, rows):
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


def fits(row, wanted):
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


TOOLS = st.sampled_from(["hr::hire", "hr::fire", "hr2::hire", "HR::hire", "plain", "50%::_x", "ümlaut::q!"])
TEXTS = st.sampled_from(["", "a", "b", "ü"])
CODES = st.sampled_from([None, None, "tool.denied", "tool.timeout"])
ROWS = st.builds(
    make,
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
            fill(log, rows)
            for wanted in asked:
                expected = sorted((row for row in rows if fits(row, wanted)), key=lambda row: row.place, reverse=True)
                assert read_all(log, wanted, limit) == expected
        store.close()


def test_the_same_questions_have_the_same_answers_in_postgres(postgres_place, monkeypatch):
    monkeypatch.setattr(sql_journal, "SCANNED", 5)
    rows = [
        make(ended=float(at), tool=tool, code=code, owner=owner)
        for at, (tool, code, owner) in enumerate(
            itertools.product(["hr::hire", "HR::hire", "50%::_x"], [None, "tool.denied"], ["a", "b"])
        )
    ]
    log = SqlJournal(postgres_place.open(), PLENTY)
    fill(log, rows)
    fill(log, rows[:3])
    for wanted in (
        CallFilter(),
        CallFilter(errors=True),
        CallFilter(tool="hr::*"),
        CallFilter(tool="5?%::_*", owner="a"),
        CallFilter(namespace="hr", code="tool.denied"),
        CallFilter(code="tool.denied", owner="a", errors=True, mode="execute"),
        CallFilter(since=NOW + 4, until=NOW + 9),
    ):
        expected = [row for row in reversed(rows) if fits(row, wanted)]
        assert expected and read_all(log, wanted, 2) == expected, wanted
    assert log.get(rows[0].number) == rows[0] and log.get(1) is None


def count_steps(log, wanted, before=None):
    """How much work the database does for a page, in thousands of its instructions."""
    ticks = []
    reader = log._store._reader
    reader.set_progress_handler(lambda: ticks.append(1), 1000)
    try:
        page = log.list_calls(wanted, 100, before)
    finally:
        reader.set_progress_handler(None, 0)
    return len(ticks), page


QUESTIONS = [
    CallFilter(),
    CallFilter(session_id="s7"),
    CallFilter(owner="k1"),
    CallFilter(tool="n::t3"),
    CallFilter(tool="nothing::*"),
    CallFilter(namespace="nothing"),
    CallFilter(errors=True),
    CallFilter(code="tool.denied"),
    CallFilter(code="tool.none"),
    CallFilter(owner="k1", tool="n::t3", session_id="s7", errors=True, mode="simulate"),
    CallFilter(owner="k1", tool="*3", effects="read"),
    CallFilter(since=NOW - 50, until=NOW - 40),
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A small log and one twelve times as long, of the same mixture."""
    made = []
    for size in (1_000, 12_000):
        store = SqliteStore(tmp_path_factory.mktemp("log") / "s.db")
        log = SqlJournal(store, PLENTY)
        rows = [
            make(
                ended=-(size - at) / size * 100,
                tool=f"n::t{at % 10}",
                session_id=f"s{at % 50}",
                owner=f"k{at % 3}",
                code="tool.denied" if at % 20 == 0 else None,
            )
            for at in range(size)
        ]
        for start in range(0, size, 5_000):
            fill(log, rows[start : start + 5_000])
        made.append(log)
    yield made
    for log in made:
        log._store.close()


@pytest.mark.parametrize("wanted", QUESTIONS, ids=range(len(QUESTIONS)))
def test_the_work_for_a_page_does_not_grow_with_the_log(logs, wanted, monkeypatch):
    monkeypatch.setattr(sql_journal, "SCANNED", 100)
    small, large = logs
    few, _ = count_steps(small, wanted)
    many, long_page = count_steps(large, wanted)
    assert many <= max(few, 5) * 1.5 + 5
    if long_page.next is not None:
        # Nor with how far one has read.
        for _ in range(5):
            steps, long_page = count_steps(large, wanted, long_page.next)
            assert steps <= max(few, 5) * 1.5 + 5
            if long_page.next is None:
                break


@pytest.mark.parametrize(
    "wanted",
    [
        CallFilter(mode="simulate"),
        CallFilter(namespace="none"),
        CallFilter(tool="*::none"),
        CallFilter(owner="k1", effect="unknown"),
        CallFilter(session_id="s7", errors=True, effects="write"),
    ],
)
def test_of_rows_that_do_not_fit_nothing_is_decoded(logs, wanted, monkeypatch):
    decoded, read = [], sql_journal._read_row
    monkeypatch.setattr(sql_journal, "_read_row", lambda row: decoded.append(row) or read(row))
    assert read_all(logs[0], wanted, 50) == decoded == []


def test_rows_beyond_the_bound_and_the_days_go_and_the_newest_stay(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    log = SqlJournal(store, CallLogOptions(max_rows=50, days=1))
    old = [make(ended=-2 * 86_400 - at) for at in range(5)]
    rows = [make(ended=float(at)) for at in range(700)]
    fill(log, old)
    assert log.list_calls(CallFilter(), 10).rows == []
    slack = 50 // 100 + 100
    for start in range(0, len(rows), slack):
        fill(log, rows[start : start + slack])
    kept = rows[: -51 - 2 * slack : -1]
    until(lambda: len(read_all(log, CallFilter(), 100)) <= len(kept))
    found = read_all(log, CallFilter(), 100)
    assert found == kept[: len(found)] and len(found) >= 50
    store.close()


def test_memory_keeps_the_last_calls_of_the_last_days():
    log = MemoryJournal(CallLogOptions(max_rows=3, days=1))
    rows = [make(ended=-2 * 86_400), *(make(ended=float(at)) for at in range(2))]
    fill(log, rows)
    assert log.list_calls(CallFilter(), 10).rows == rows[:0:-1]
    log.add(late := make(ended=9.0))
    assert log.get(rows[0].number) is None and log.get(late.number) == late


@pytest.mark.parametrize("text", ["", "x", "zz", "-1", "1_0", "0x1", "10", f"{2**63:016x}", "é" * 16, "0" * 17])
def test_an_id_that_no_call_can_have_is_no_number(text):
    assert read_call_id(text) is None


def test_what_callers_write_fits_every_store(place):
    nasty = ["a\0b", "\ud800", "x" * 5000, "ümlaut \U0001f600"]
    log = SqlJournal(place.open(), PLENTY)
    fill(log, [make(tool=clean_text(text), session_id=clean_text(text), call_id=clean_text(text)) for text in nasty])
    for text in nasty:
        assert [row.tool for row in log.list_calls(CallFilter(session_id=text), 10).rows] == [clean_text(text)]
