"""`Sessions`: found by owner and id, ended in time, and bounded in number."""

import threading
import time

import pytest
from waiting import Clock

from sessions.session_support import SOON, add, entry, numbers
from toolyard.model.errors import SessionBusyError, SessionError, SessionExistsError, UnknownSessionError
from toolyard.sessions.records import open_records
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def sessions(request):
    if request.param == "memory":
        return Sessions()
    return Sessions(request.getfixturevalue("sqlite_place").open())


def test_a_session_begins_empty_and_is_found_again(sessions):
    session = sessions.open("s")
    assert sessions.find("s") is session
    assert sessions.state("s") == {"tool_executions": []}


def test_an_id_can_be_taken_once_and_again_after_its_end(sessions):
    sessions.open("s")
    with pytest.raises(SessionExistsError, match="'s' is already set up"):
        sessions.open("s")
    sessions.drop("s")
    sessions.drop("s")
    sessions.open("s")


@pytest.mark.parametrize("session_id", ["", None, 5])
def test_an_id_is_text(sessions, session_id):
    with pytest.raises(SessionError, match="text and not empty"):
        sessions.open(session_id)


def test_a_session_that_is_not_there_is_told_from_one_of_nearly_its_name_but_not_of_another_owner(sessions):
    sessions.open("chat-1")
    sessions.open("chat-2", owner="ann")
    for owner, near in ((None, "chat-1"), ("ann", "chat-2")):
        with pytest.raises(UnknownSessionError, match=f"'chat'; did you mean '{near}'") as told:
            sessions.find("chat", owner)
        assert ("chat-1" in str(told.value)) != ("chat-2" in str(told.value))
        with pytest.raises(UnknownSessionError, match="did you mean"):
            sessions.open("new", fork_of="chat", owner=owner)
    with pytest.raises(UnknownSessionError, match="set it up first"):
        sessions.find("chat", "bob")


def test_an_unknown_session_has_no_state_and_cannot_be_found_or_forked(sessions):
    assert sessions.state("s") is None
    with pytest.raises(UnknownSessionError, match="no session is called 's'"):
        sessions.find("s")
    with pytest.raises(KeyError):
        sessions.state_hash("s")
    with pytest.raises(UnknownSessionError):
        sessions.open("new", fork_of="s")
    assert sessions.state("new") is None


def test_owners_do_not_see_each_others_sessions(sessions):
    mine, theirs, nobodys = sessions.open("s", owner="ann"), sessions.open("s", owner="bob"), sessions.open("s")
    assert len({id(mine), id(theirs), id(nobodys)}) == 3
    add(sessions, mine, 1)
    assert numbers(sessions, "s", "ann") == [1]
    assert numbers(sessions, "s", "bob") == numbers(sessions, "s") == []
    with pytest.raises(UnknownSessionError):
        sessions.find("s", "eve")
    with pytest.raises(UnknownSessionError):
        sessions.open("fork", owner="eve", fork_of="s")
    sessions.drop("s", "eve")
    sessions.drop("s", "ann")
    assert sessions.state("s", "ann") is None
    assert sessions.find("s", "bob") is theirs


def test_a_fork_goes_on_from_where_its_parent_is_now(sessions):
    parent = sessions.open("p")
    add(sessions, parent, 1, {("lm", "a"): b"1"})
    fork = sessions.open("f", fork_of="p")
    assert sessions.state("f") == sessions.state("p")
    assert sessions.state_hash("f") == sessions.state_hash("p")
    add(sessions, parent, 2, {("lm", "a"): b"2"})
    add(sessions, fork, 3, {("lm", "a"): None})
    assert (numbers(sessions, "p"), numbers(sessions, "f")) == ([1, 2], [1, 3])
    assert sessions.state("p")["lm"] == {"a": 2}
    assert "lm" not in sessions.state("f")
    sessions.drop("p")
    assert numbers(sessions, "f") == [1, 3]


def test_what_a_session_says_of_itself_sets_up_its_equal(sessions):
    first = sessions.open("s")
    add(sessions, first, 1, {("lm", "a"): b'{"b":[1]}'})
    add(sessions, first, 2, {("lm", "gone"): b"1"})
    add(sessions, first, 3, {("lm", "gone"): None})
    sessions.open("t", initial_state=sessions.state("s"))
    assert sessions.state("t") == sessions.state("s")
    assert sessions.state_hash("t") == sessions.state_hash("s")


def test_state_that_came_and_went_leaves_no_mark_in_the_hash(sessions):
    one, other = sessions.open("one"), sessions.open("other")
    add(sessions, one, 1, {("lm", "a"): b"1"})
    add(sessions, other, 1)
    assert sessions.state_hash("one") != sessions.state_hash("other")
    add(sessions, one, 2, {("lm", "a"): None})
    add(sessions, other, 2)
    assert sessions.state_hash("one") == sessions.state_hash("other")


@pytest.mark.parametrize("wrong", [[], "", 0, {"tool_executions": 5}])
def test_a_wrong_initial_state_opens_nothing(sessions, wrong):
    with pytest.raises(SessionError, match="initial_state"):
        sessions.open("s", initial_state=wrong)
    assert sessions.state("s") is None


def test_initial_state_and_a_fork_exclude_each_other(sessions):
    sessions.open("p")
    with pytest.raises(SessionError, match="not both"):
        sessions.open("s", initial_state={}, fork_of="p")


def test_what_is_given_out_is_the_callers_own(sessions):
    session = sessions.open("s")
    add(sessions, session, 1, {("lm", "a"): b"[1]"})
    given = sessions.state("s")
    given["lm"]["a"].append(2)
    given["tool_executions"].clear()
    assert sessions.state("s")["lm"] == {"a": [1]}
    assert numbers(sessions, "s") == [1]


def test_no_more_than_allowed_are_open(request):
    for store in (None, request.getfixturevalue("sqlite_place").open()):
        sessions = Sessions(store, max_open=2)
        sessions.open("a")
        sessions.open("b")
        with pytest.raises(SessionError, match="2 sessions are open, the most allowed"):
            sessions.open("c")
        sessions.drop("a")
        sessions.open("c")


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_time_to_live_is_more_than_nothing(ttl):
    with pytest.raises(SessionError, match="ttl must be more than 0"):
        Sessions(ttl=ttl)


def test_a_session_ends_so_long_after_its_last_use_and_makes_room():
    clock = Clock()
    sessions = Sessions(ttl=10, max_open=1, clock=clock)
    session = sessions.open("s")
    clock.now += 9
    add(sessions, session)
    clock.now += 10
    assert sessions.find("s") is session
    clock.now += 0.5
    sessions.open("other")
    with pytest.raises(UnknownSessionError):
        sessions.find("s")
    assert len(sessions) == 1


def test_a_session_that_is_found_too_late_is_over():
    clock = Clock()
    sessions = Sessions(ttl=10, clock=clock)
    session = sessions.open("s")
    clock.now += 11
    assert sessions.state("s") is None
    assert session.is_over
    sessions.open("s")


@pytest.mark.parametrize("stored", [False, True])
def test_setting_the_clock_of_the_machine_ends_no_session(stored, tmp_path, monkeypatch):
    store = SqliteStore(tmp_path / "s.db") if stored else None
    sessions, records = Sessions(store, ttl=3600), open_records(store)
    sessions.open("s")
    records.put("answer", "", "a", b"kept")
    real = time.time
    for jump in (86_400, -86_400):
        monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
        add(sessions, sessions.find("s"))
        sessions.open(f"other{jump}")
        assert sessions.state("s") is not None
        assert records.expire("answer", records.clock() - 3600) == 0
    sessions.close()


def test_stored_expiries_go_by_the_clock_of_the_store(tmp_path):
    class Ahead(SqliteStore):
        def now(self):
            return time.time() + 1000

    sessions = Sessions(Ahead(tmp_path / "s.db"), ttl=500)
    sessions.open("s")
    [found] = sessions.store.sessions()
    assert found.used > time.time() + 900
    sessions.close()


def test_a_session_in_use_does_not_end():
    clock = Clock()
    sessions = Sessions(ttl=10, clock=clock)
    session = sessions.open("s")
    sessions.enter(session, twin="aexecute")
    clock.now += 100
    assert sessions.find("s") is session
    sessions.open("other")
    sessions.leave(session)
    assert sessions.find("s") is session


def test_a_session_dropped_while_it_is_busy_ends_for_those_in_line_and_not_for_who_is_inside():
    sessions = Sessions()
    session, failures = sessions.open("s"), []
    sessions.enter(session, twin="aexecute")

    def late():
        try:
            sessions.enter(session, time.monotonic() + SOON, twin="aexecute")
        except UnknownSessionError as error:
            failures.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    sessions.drop("s")
    again = sessions.open("s")
    session.commit(entry(1))
    assert len(session.history) == 1
    sessions.leave(session)
    thread.join(SOON)
    assert len(failures) == 1
    assert not session.gate.busy
    assert len(again.history) == 0


def test_a_fork_of_a_session_that_ends_meanwhile_is_refused_rather_than_short(monkeypatch):
    sessions = Sessions()
    add(sessions, sessions.open("p"), 1)
    current = sessions.current

    def ended(*args):
        session = current(*args)
        sessions.drop("p")
        return session

    monkeypatch.setattr(sessions, "current", ended)
    with pytest.raises(UnknownSessionError, match="'p' is over"):
        sessions.open("f", fork_of="p")
    assert sessions.state("f") is None


def test_whoever_waits_too_long_is_told_that_nothing_was_run():
    sessions = Sessions()
    session = sessions.open("s")
    sessions.enter(session, twin="aexecute")
    seen = []

    def other():
        try:
            sessions.enter(session, time.monotonic() + 0.01, twin="aexecute")
        except SessionBusyError as error:
            seen.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(SOON)
    assert "nothing of this batch was run" in seen[0]
    sessions.leave(session)


def test_entering_twice_from_one_thread_is_an_error_and_not_a_wait():
    sessions = Sessions()
    session = sessions.open("s")
    sessions.enter(session, twin="aexecute")
    with pytest.raises(SessionError, match="would wait for itself"):
        sessions.enter(session, twin="aexecute")
    sessions.leave(session)
    assert not session.gate.busy
