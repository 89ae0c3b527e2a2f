"""Two `Sessions` over one file, which are as two processes to each other: one truth, and nothing lost."""

import time

import pytest
from waiting import Clock

from sessions.session_support import SOON, add, entry, numbers
from toolyard.model.call import ToolCall
from toolyard.model.errors import SessionBusyError, SessionExistsError, UnknownSessionError
from toolyard.sessions.history import any_call_text, read_entry
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore


@pytest.fixture
def pair(sqlite_place):
    return Sessions(sqlite_place.open()), Sessions(sqlite_place.open())


def test_each_sees_what_the_other_adds(pair):
    one, two = pair
    add(one, one.open("s"), 1, {("lm", "a"): b"1"})
    add(two, two.find("s"), 2)
    add(one, one.find("s"), 3, {("lm", "a"): b"2"})
    assert numbers(one, "s") == numbers(two, "s") == [1, 2, 3]
    assert one.state("s")["lm"] == two.state("s")["lm"] == {"a": 2}
    assert one.state_hash("s") == two.state_hash("s")


def test_an_id_is_taken_for_both(pair):
    one, two = pair
    one.open("s")
    with pytest.raises(SessionExistsError):
        two.open("s")
    two.drop("s")
    assert one.state("s") is None
    with pytest.raises(UnknownSessionError):
        one.find("s")
    one.open("s")


def test_a_session_ended_by_the_other_cannot_be_entered(pair):
    one, two = pair
    session = one.open("s")
    two.drop("s")
    with pytest.raises(UnknownSessionError, match="is over"):
        one.enter(session, twin="aexecute")
    assert not session.gate.busy


def test_an_id_that_was_given_anew_is_another_session(pair):
    one, two = pair
    add(one, one.open("s"), 1)
    two.drop("s")
    add(two, two.open("s"), 2)
    assert one.state("s") is None or numbers(one, "s") == [2]
    assert numbers(one, "s") == [2]


def test_a_session_the_other_holds_is_busy(pair):
    one, two = pair
    session = one.open("s")
    one.enter(session, twin="aexecute")
    with pytest.raises(SessionBusyError):
        two.enter(two.find("s"), time.monotonic() + 0.03, twin="aexecute")
    one.leave(session)
    add(two, two.find("s"), 1)
    assert numbers(one, "s") == [1]


async def test_a_task_waits_for_the_other_process_too(pair):
    one, two = pair
    session = one.open("s")
    one.enter(session, twin="aexecute")
    with pytest.raises(SessionBusyError):
        await two.aenter(two.find("s"), time.monotonic() + 0.03)
    one.leave(session)
    await two.aenter(two.find("s"), time.monotonic() + SOON)
    await two.aleave(two.find("s"))
    assert not two.find("s").gate.busy
    add(one, session, 1)


def test_an_intent_left_behind_is_recorded_as_interrupted(pair):
    one, two = pair
    session = one.open("s")
    call = any_call_text(ToolCall("n::write", {"x": 7}, "id"))
    one.store.write(one.intent(session, call))
    last = two.state("s")["tool_executions"][-1]
    assert last["tool_call"]["arguments"] == {"x": 7}
    assert last["tool_output"]["error_info"]["effect"] == "unknown"
    assert numbers(one, "s") == [7], "the first finds it written, and does not write it again"
    add(one, one.find("s"), 8)
    assert numbers(two, "s") == [7, 8]


def test_the_intent_of_a_call_under_way_is_left_alone(pair):
    one, two = pair
    session = one.open("s")
    one.enter(session, twin="aexecute")
    one.store.write(one.intent(session, any_call_text(ToolCall("n::write", {"x": 7}))))
    assert numbers(two, "s") == []
    one.store.write(one.addition(session, entry(7), {}))
    session.commit(entry(7))
    one.leave(session)
    assert read_entry(entry(7)).tool_output.to_dict() == two.state("s")["tool_executions"][0]["tool_output"]


def test_a_fork_made_by_one_is_whole_for_the_other_even_when_the_parent_is_gone(pair):
    one, two = pair
    parent = one.open("p")
    for number in range(5):
        add(one, parent, number, {("lm", str(number)): b"1"})
    two.open("f", fork_of="p")
    one.drop("p")
    add(two, two.find("f"), 9)
    assert numbers(one, "f") == [0, 1, 2, 3, 4, 9]
    assert len(one.state("f")["lm"]) == 5


def test_a_session_that_only_the_other_uses_does_not_end(sqlite_place):
    clock = Clock()
    one, two = (Sessions(sqlite_place.open(), ttl=10, clock=clock) for _ in range(2))
    one.open("s")
    for number in range(4):
        clock.now += 6
        add(two, two.find("s"), number)
    assert numbers(one, "s") == [0, 1, 2, 3]
    one.open("other")
    assert numbers(two, "s") == [0, 1, 2, 3]
    clock.now += 11
    assert one.state("s") is two.state("s") is None
    assert sorted(info.session_id for info in one.store.sessions()) == ["other"]


def test_a_session_the_other_is_inside_of_does_not_end(sqlite_place):
    clock = Clock()
    one, two = (Sessions(sqlite_place.open(), ttl=10, clock=clock) for _ in range(2))
    one.open("s")
    session = two.find("s")
    two.enter(session, twin="aexecute")
    clock.now += 100
    assert numbers(one, "s") == []
    two.leave(session)
    add(two, session, 1)
    assert numbers(one, "s") == [1]


def test_closing_keeps_what_is_stored(sqlite_place):
    one = Sessions(sqlite_place.open())
    add(one, one.open("s", owner="ann"), 1)
    one.close()
    assert len(one) == 0
    assert numbers(Sessions(sqlite_place.open()), "s", "ann") == [1]


def test_a_stored_session_that_is_only_looked_at_does_not_expire_meanwhile(tmp_path):
    now = [1000.0]
    sessions = Sessions(SqliteStore(tmp_path / "s.db"), ttl=100, clock=lambda: now[0])
    session = sessions.open("s")
    for _ in range(5):
        now[0] += 60
        sessions.enter(session, twin="x")
        sessions.leave(session)
    sessions.close()
    again = Sessions(SqliteStore(tmp_path / "s.db"), ttl=100, clock=lambda: now[0])
    assert again.find("s").key.session_id == "s"
    now[0] += 101
    with pytest.raises(UnknownSessionError):
        again.find("s")
    again.close()
