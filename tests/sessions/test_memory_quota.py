"""Bytes of sessions in memory: each is bounded, all together are, and what is let go of comes back."""

import gc

import pytest
from hypothesis import given, strategies as st

from toolyard import PythonToolEngine, SessionError, SessionFullError, ToolCall, ToolRegistry, function_tool
from toolyard.calls.batch import CallRequest
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.state import State

KB = 1024


def letters(count: int) -> str:
    """So many of them."""
    return "x" * count


def engine_with(**limits):
    sessions = Sessions(**limits)
    return PythonToolEngine(ToolRegistry([function_tool(letters, namespace="t")]), sessions=sessions)


def call(engine, session, count, times=1):
    return engine.execute(session, [ToolCall("t::letters", {"count": count})] * times)


def test_a_session_that_is_full_refuses_the_next_call_and_loses_nothing():
    with engine_with(max_session_bytes=100 * KB) as engine:
        engine.setup("s")
        for _ in range(10):
            assert call(engine, "s", 10 * KB)[0].error is None
        with pytest.raises(SessionFullError, match="max_session_bytes"):
            call(engine, "s", 1)
        assert len(engine.get_session_state("s")["tool_executions"]) == 10
        assert engine.simulate("s", [ToolCall("t::letters", {"count": 3})])[0].result == "xxx"
        engine.setup("other")
        assert call(engine, "other", 10 * KB)[0].error is None


def test_small_entries_add_up_too():
    with engine_with(max_session_bytes=20 * KB) as engine:
        engine.setup("s")
        with pytest.raises(SessionFullError):
            for _ in range(20 * KB):
                call(engine, "s", 1)
        assert 20 * KB <= engine.sessions.quota.used < 21 * KB


def test_a_batch_stops_where_its_session_is_full():
    with engine_with(max_session_bytes=100 * KB) as engine:
        engine.setup("s")
        results = call(engine, "s", 10 * KB, times=20)
        codes = [result.error_info and result.error_info.code for result in results]
        assert codes[:9] == [None] * 9 and codes[12:] == ["tool.unavailable"] * 8
        assert not results[-1].error_info.retryable


def test_all_sessions_together_are_bounded_and_room_comes_back():
    with engine_with(max_session_bytes=100 * KB, max_bytes=200 * KB) as engine:
        for name in "abc":
            engine.setup(name)
        for name in "abc":
            call(engine, name, 80 * KB)
        with pytest.raises(SessionError, match="tear some down"):
            engine.setup("d")
        with pytest.raises(SessionFullError):
            call(engine, "c", 1)
        engine.teardown("a")
        assert call(engine, "c", 1)[0].error is None
        engine.setup("d")


def test_what_forks_share_is_counted_once_and_until_the_last_of_them_is_gone():
    with engine_with(max_session_bytes=100 * KB, max_bytes=1000 * KB) as engine:
        engine.setup("s")
        call(engine, "s", 80 * KB)
        for number in range(50):
            engine.setup(f"f{number}", fork_of="s")
        assert 80 * KB <= engine.sessions.quota.used < 90 * KB
        engine.teardown("s")
        assert engine.sessions.quota.used >= 80 * KB
        # What it inherited counts for the size of a fork.
        call(engine, "f1", 30 * KB)
        with pytest.raises(SessionFullError):
            call(engine, "f1", 1)
        for number in range(50):
            engine.teardown(f"f{number}")
        gc.collect()
        assert engine.sessions.quota.used == 0


def test_a_session_that_begins_too_large_is_not_begun():
    with engine_with(max_session_bytes=10 * KB) as engine:
        with pytest.raises(SessionFullError):
            engine.setup("s", initial_state={"world": {"text": "x" * 20 * KB}})
        assert engine.get_session_state("s") is None
        engine.setup("s", initial_state={"world": {"text": "x"}})


def test_a_value_that_is_written_again_and_again_counts_once():
    with engine_with(max_session_bytes=50 * KB) as engine:
        engine.setup("s")
        session = engine.sessions.find("s")
        for number in range(200):
            session.commit(b"{}", {("world", "text"): b'"%d%s"' % (number % 10, b"x" * KB)})
            engine.sessions.quota.measure(session)
        assert not session.is_full


async def test_calls_without_a_session_are_in_nobodys_way():
    with engine_with(max_session_bytes=1, max_bytes=1) as engine:
        [result] = await engine.arun(CallRequest(calls=[ToolCall("t::letters", {"count": KB})]))
        assert result.error is None


@pytest.fixture
def small_heap():
    """What was there before is not searched for garbage, so that a collection takes no time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("small_heap")
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["call", "fork", "drop"]), st.integers(0, 5000))))
def test_what_is_counted_is_what_is_held(steps):
    sessions = Sessions()
    for name, step, size in steps:
        there = {session.key.session_id for session in sessions.in_memory.values()}
        if step == "drop":
            sessions.drop(name)
        elif step == "call" and name in there:
            sessions.find(name).commit(b"x" * size)
        elif name not in there:
            sessions.open(name, fork_of=min(there) if step == "fork" and there else None)
    gc.collect()
    held = {}
    for session in sessions.in_memory.values():
        sessions.quota.measure(session)
        for segment in session.history._segments():
            held[id(segment.entries)] = sum(len(entry) for entry, *_ in segment.entries)
        held[id(session.history._tail)] = sum(len(entry) for entry, *_ in session.history._tail)
    assert sessions.quota.used == sum(held.values())
    assert State().size == 0
