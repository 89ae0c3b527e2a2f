"""The journal of calls: one row a call, in the transaction of its entry, with the facts and none of the contents."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from call_support import call, engine_of
from hypothesis import given, settings, strategies as st
from journal_support import NOW, PLENTY, fill_log, is_wanted, make_row, read_all
from waiting import SOON, until

from conftest import examples
from toolyard.calls import journal, sql_journal
from toolyard.calls.batch import CallRequest
from toolyard.calls.journal import CallFilter, CallLogOptions, MemoryJournal, read_call_id
from toolyard.calls.policy import Policy, Rule
from toolyard.calls.sql_journal import SqlJournal
from toolyard.model.call import ToolCall
from toolyard.model.errors import SessionError
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store import sql
from toolyard.sessions.store.base import Append, Key
from toolyard.sessions.store.sqlite import SqliteStore


def add(x: int) -> int:
    return x + 1


def fail():
    raise ValueError("the secret sauce")


def rows_of(engine, count=None, **wanted):
    """What is logged, oldest first."""
    read = lambda: engine.journal.list_calls(CallFilter(**wanted), 1000).rows[::-1]  # noqa: E731
    if count is not None:
        until(lambda: len(read()) >= count)
    return read()


@pytest.fixture(params=["memory", "sqlite"])
def engine(request, tmp_path):
    store = SqliteStore(tmp_path / "s.db") if request.param == "sqlite" else None
    engine = engine_of(add, fail, sessions=Sessions(store), policy=Policy([Rule("deny", tools="n::gone")]))
    engine.keep_journal(CallLogOptions())
    yield engine
    engine.close()


def test_a_row_says_how_long_each_step_took_that_the_call_came_to(engine):
    engine.setup("mine")
    engine.execute("mine", [call("add", x=41), call("fail"), call("none"), call("add", x="no number")])
    answered, failed, *unbound = [row.to_dict() for row in rows_of(engine, 4)]
    assert list(answered["steps_ms"]) == ["bind", "policy", "run", "check"] and min(answered["steps_ms"].values()) >= 0
    assert sum(answered["steps_ms"].values()) == pytest.approx(answered["duration_ms"], abs=0.003), "each rounded"
    assert list(failed["steps_ms"]) == ["bind", "policy", "run"]
    assert [list(row["steps_ms"]) for row in unbound] == [["bind"], ["bind"]]


def test_no_step_of_an_approved_call_is_shorter_than_nothing():
    engine = engine_of(add, policy=Policy([Rule("ask", "n::*")], approver=lambda ask: True))
    engine.keep_journal(CallLogOptions())
    engine.setup("mine")
    [result] = engine.execute("mine", [call("add", x=41)])
    [row] = [row.to_dict() for row in rows_of(engine, 1)]
    assert result.result == 42 and min(row["steps_ms"].values()) >= 0
    assert sum(row["steps_ms"].values()) == pytest.approx(row["duration_ms"], abs=0.003)


def test_every_call_has_one_row_with_its_facts_and_nothing_that_it_carried(engine):
    engine.setup("mine", owner="ann")
    engine.execute("mine", [call("add", "id", x=41), call("fail"), call("none")], owner="ann")
    engine.simulate("mine", [call("add", x=41)], owner="ann")
    first, second, third, fourth = rows_of(engine, 4)
    tool = engine.tool_registry.snapshot.names["n::add"][0].tool
    assert (first.tool, first.mode, first.session_id, first.owner) == ("n::add", "execute", "mine", "ann")
    assert (first.call_id, first.seq, first.code, first.effect) == ("id", 1, None, None)
    assert (first.argument_bytes, first.result_bytes) == (len(b'{"x":41}'), len(b"42"))
    assert (first.definition_hash, first.effects) == (tool.definition_hash, "unknown")
    assert (second.code, second.effect, second.seq) == ("tool.execution_error", "unknown", 2)
    assert (third.tool, third.code, third.definition_hash, third.seq) == ("n::none", "tool.not_found", None, 3)
    assert (fourth.mode, fourth.seq) == ("simulate", None)
    assert len({row.number for row in (first, second, third, fourth)}) == 4
    assert not any("sauce" in repr(row) for row in (first, second, third, fourth))


def test_a_call_over_a_wire_has_the_id_of_its_request_and_its_key(engine):
    request = CallRequest(calls=[ToolCall("n::add", {"x": 1})], owner="key-1", request_id="r-1")
    asyncio.run(engine.arun(request))
    (row,) = rows_of(engine, 1)
    assert (row.request_id, row.owner, row.session_id, row.seq) == ("r-1", "key-1", "", None)


def count_commits(tmp_path, *, logged):
    store = SqliteStore(tmp_path / f"{logged}.db")
    engine = engine_of(add, fail, sessions=Sessions(store))
    if logged:
        engine.keep_journal(CallLogOptions())
    engine.setup("t")
    seen = []
    store._writer.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    for number in range(40):
        engine.execute("t", [call("add", x=number), call("fail")])
    store._writer.set_trace_callback(None)
    logs = len(rows_of(engine)) if logged else 0
    engine.close()
    return len(seen), logs


def test_the_log_adds_no_commit_and_no_row_is_behind_its_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(sql, "LATEST", SOON)  # rows that no commit takes along meanwhile would get one of their own
    without, _ = count_commits(tmp_path, logged=False)
    with_log, rows = count_commits(tmp_path, logged=True)
    assert (with_log, rows) == (without, 80)


def test_a_call_whose_entry_is_refused_is_logged_as_cut_off_and_not_as_done(tmp_path):
    store = SqliteStore(tmp_path / "s.db")

    def meddle(x: int) -> int:
        branch = store.load(Key("", "t")).branch
        store.write(Append(Key("", "t"), branch, 1, b"{}"))
        return x

    engine = engine_of(meddle, sessions=Sessions(store))
    engine.keep_journal(CallLogOptions())
    engine.setup("t")
    with pytest.raises(SessionError):
        engine.execute("t", [call("meddle", x=1)])
    (row,) = rows_of(engine, 1)
    assert (row.tool, row.code, row.effect) == ("n::meddle", "tool.interrupted", "unknown")


def test_a_log_that_fails_fails_no_call(engine):
    engine.journal.add = engine.journal.write_rows = lambda row: 1 / 0
    engine.setup("t")
    (result,) = engine.execute("t", [call("add", x=1)])
    assert result.result == 2
    assert "journal" in engine._tracer.failures


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
