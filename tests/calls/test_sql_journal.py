"""The journal in tables: pages at a bounded cost, whatever callers write, and no more rows than it may keep."""

import itertools

import msgspec
import pytest
from journal_support import NOW, PLENTY, fill_log, is_wanted, make_row, read_all
from sessions.conftest import place as place, postgres_place as postgres_place, sqlite_place as sqlite_place
from waiting import until

from toolyard.calls import sql_journal
from toolyard.calls.journal import CallFilter, CallLogOptions, clean_text
from toolyard.calls.sql_journal import SqlJournal, _read_row
from toolyard.sessions.store.sqlite import SqliteStore


def test_the_same_questions_have_the_same_answers_in_postgres(postgres_place, monkeypatch):
    monkeypatch.setattr(sql_journal, "SCANNED", 5)
    rows = [
        make_row(ended=float(at), tool=tool, code=code, owner=owner)
        for at, (tool, code, owner) in enumerate(
            itertools.product(["hr::hire", "HR::hire", "50%::_x"], [None, "tool.denied"], ["a", "b"])
        )
    ]
    log = SqlJournal(postgres_place.open(), PLENTY)
    fill_log(log, rows)
    fill_log(log, rows[:3])
    for wanted in (
        CallFilter(),
        CallFilter(errors=True),
        CallFilter(tool="hr::*"),
        CallFilter(tool="5?%::_*", owner="a"),
        CallFilter(namespace="hr", code="tool.denied"),
        CallFilter(code="tool.denied", owner="a", errors=True, mode="execute"),
        CallFilter(since=NOW + 4, until=NOW + 9),
    ):
        expected = [row for row in reversed(rows) if is_wanted(row, wanted)]
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
            make_row(
                ended=-(size - at) / size * 100,
                tool=f"n::t{at % 10}",
                session_id=f"s{at % 50}",
                owner=f"k{at % 3}",
                code="tool.denied" if at % 20 == 0 else None,
            )
            for at in range(size)
        ]
        for start in range(0, size, 5_000):
            fill_log(log, rows[start : start + 5_000])
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
    old = [make_row(ended=-2 * 86_400 - at) for at in range(5)]
    rows = [make_row(ended=float(at)) for at in range(700)]
    fill_log(log, old)
    assert log.list_calls(CallFilter(), 10).rows == []
    slack = 50 // 100 + 100
    for start in range(0, len(rows), slack):
        fill_log(log, rows[start : start + slack])
    kept = rows[: -51 - 2 * slack : -1]
    until(lambda: len(read_all(log, CallFilter(), 100)) <= len(kept))
    found = read_all(log, CallFilter(), 100)
    assert found == kept[: len(found)] and len(found) >= 50
    store.close()


def test_what_callers_write_fits_every_store(place):
    nasty = ["a\0b", "\ud800", "x" * 5000, "ümlaut \U0001f600"]
    log = SqlJournal(place.open(), PLENTY)
    fill_log(
        log, [make_row(tool=clean_text(text), session_id=clean_text(text), call_id=clean_text(text)) for text in nasty]
    )
    for text in nasty:
        assert [row.tool for row in log.list_calls(CallFilter(session_id=text), 10).rows] == [clean_text(text)]


def test_a_row_that_was_written_before_steps_were_is_read_without_them():
    written = msgspec.msgpack.encode((1.0, 0.5, "hash", None, 2, 3, None, None, 7))
    row = _read_row((1_500_000, 9, "", "s", "n::add", "execute", None, None, "read", written))
    assert (row.time, row.duration, row.seq, row.steps) == (1.0, 0.5, 7, ()) and "steps_ms" not in row.to_dict()
