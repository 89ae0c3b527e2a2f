"""What is read of sessions: each call with its time, beside a history that knows none."""

from datetime import UTC, datetime, timedelta

import pytest
from waiting import Clock

from toolyard import PythonToolEngine, SessionError, ToolCall, ToolRegistry, UnknownSessionError, function_tool
from toolyard.calls.batch import CallRequest
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.base import Intend


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_sessions(request):
    """Makes sessions on one place, again and again; those in memory are others each time."""
    if request.param == "memory":
        return Sessions
    place = request.getfixturevalue(f"{request.param}_place")
    return lambda **options: Sessions(place.open(), **options)


def engine_on(sessions, clock):
    def work(seconds: float) -> float:
        """Take so long."""
        clock.now += seconds
        return seconds

    def fail(seconds: float) -> None:
        """Take so long, and fail."""
        clock.now += seconds
        raise ValueError("no")

    tools = [function_tool(function, namespace="t") for function in (work, fail)]
    return PythonToolEngine(ToolRegistry(tools), sessions=sessions)


def times(engine, session_id="s"):
    return [(call.at and call.at.timestamp(), call.took) for call in engine.get_session_history(session_id)]


def test_each_call_has_its_own_time_whatever_came_of_it(make_sessions):
    clock = Clock()
    engine = engine_on(make_sessions(clock=clock), clock)
    engine.setup("s")
    calls = [("work", 2.5), ("fail", 0.5), ("nothing", 1.0), ("work", "no number")]
    engine.execute("s", [ToolCall(f"t::{name}", {"seconds": seconds}) for name, seconds in calls])
    assert times(engine) == [(1002.5, 2.5), (1003.0, 0.5), (1003.0, 0.0), (1003.0, 0.0)]
    assert [call.seq for call in engine.get_session_history("s")] == [1, 2, 3, 4]
    assert engine.get_session_history("s")[0].at == datetime(1970, 1, 1, 0, 16, 42, 500_000, UTC)


async def test_async_calls_and_those_of_a_wire_have_theirs(make_sessions):
    clock = Clock()
    engine = engine_on(make_sessions(clock=clock), clock)
    await engine.asetup("s")
    call = ToolCall("t::work", {"seconds": 1.0})
    await engine.aexecute("s", [call])
    await engine.arun(CallRequest(calls=[call], session_id="s"))
    assert [entry.took for entry in await engine.aget_session_history("s")] == [1.0, 1.0]


def test_times_stand_beside_the_history_and_change_no_hash(make_sessions):
    clock = Clock()
    engine = engine_on(make_sessions(clock=clock), clock)
    call = ToolCall("t::work", {"seconds": 1.0})
    for name in "st":
        engine.setup(name)
        engine.execute(name, [call])
    assert times(engine, "s") != times(engine, "t")
    assert engine.state_hash("s") == engine.state_hash("t")
    state = engine.get_session_state("s")
    assert state == engine.get_session_state("t")
    assert [item.keys() for item in state["tool_executions"]] == [{"tool_call", "tool_output"}]


def test_forks_share_the_times_of_what_they_share(make_sessions):
    clock = Clock()
    engine = engine_on(make_sessions(clock=clock), clock)
    call = ToolCall("t::work", {"seconds": 1.0})
    engine.setup("s")
    engine.execute("s", [call, call])
    engine.setup("fork", fork_of="s")
    engine.execute("s", [call])
    engine.execute("fork", [call])
    assert times(engine) == [(1001.0, 1.0), (1002.0, 1.0), (1003.0, 1.0)]
    assert times(engine, "fork") == [(1001.0, 1.0), (1002.0, 1.0), (1004.0, 1.0)]
    assert [call.seq for call in engine.get_session_history("fork", after=1, limit=1)] == [2]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_times_are_stored_and_known_to_whoever_reads_them(request, kind):
    place, clock = request.getfixturevalue(f"{kind}_place"), Clock()
    engine = engine_on(Sessions(place.open(), clock=clock), clock)
    other = engine_on(Sessions(place.open(), clock=clock), clock)
    call = ToolCall("t::work", {"seconds": 0.25})
    engine.setup("s")
    engine.execute("s", [call])
    assert times(other) == [(1000.25, 0.25)]
    engine.execute("s", [call])
    assert times(other) == times(engine) == [(1000.25, 0.25), (1000.5, 0.25)]


def test_what_a_session_begins_with_has_no_times(make_sessions):
    clock = Clock()
    engine = engine_on(make_sessions(clock=clock), clock)
    engine.setup("s")
    engine.execute("s", [ToolCall("t::work", {"seconds": 1.0})])
    engine.setup("copy", initial_state=engine.get_session_state("s"))
    assert times(engine, "copy") == [(None, None)]


def test_a_call_that_nobody_answered_for_has_the_time_it_was_found(place):
    clock = Clock()
    sessions = Sessions(place.open(), clock=clock)
    session = sessions.open("s")
    sessions.store.write(Intend(session.key, session.branch, 1, b'{"name":"t::work","arguments":{}}'))
    clock.now += 60
    [call] = Sessions(place.open(), clock=clock).calls("s")
    assert call.tool_output.error_info.code == "tool.interrupted"
    assert (call.at.timestamp(), call.took) == (1060.0, None)


def test_times_are_dates_where_no_clock_is_given(make_sessions):
    engine = engine_on(make_sessions(), Clock())
    engine.setup("s")
    engine.execute("s", [ToolCall("t::work", {"seconds": 1.0})])
    today = datetime.now(UTC)
    used = engine.sessions.date_of(engine.sessions.find("s").used)
    # A clock that counts from the start of the machine would be decades off.
    assert all(abs(date - today) < timedelta(days=1) for date in (engine.get_session_history("s")[0].at, used))


@pytest.mark.parametrize(("option", "value"), [("after", -1), ("after", True), ("limit", -1), ("limit", 1.0)])
def test_a_part_of_a_history_is_asked_for_by_numbers(option, value):
    sessions = Sessions()
    sessions.open("s")
    with pytest.raises(SessionError, match=f"{option} must be a whole number of entries, 0 or more, not {value!r}"):
        sessions.calls("s", **{option: value})


def test_the_history_of_a_session_that_is_not_there_is_an_error():
    with pytest.raises(UnknownSessionError, match="no session is called 's'"):
        Sessions().calls("s")
