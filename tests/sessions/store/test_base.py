"""What every durable store promises, on a real file and on a real Postgres."""

import os
import signal
import threading

import pytest
from waiting import SOON

from conftest import ways_to_try
from sessions.conftest import fork, rows
from toolyard.model.errors import SessionError, SessionExistsError
from toolyard.sessions.store.base import (
    Append,
    Create,
    Delete,
    Intend,
    Key,
    SessionInfo,
    StoredEntry,
    StoredSession,
    Withdraw,
)

ANN = Key("ann", "trip")
FORK = Key("ann", "fork")
TWIG = Key("ann", "twig")

EMPTY = {"sessions": 0, "branches": 0, "entries": 0, "intents": 0}


def texts(store, key):
    session = store.load(key)
    return None if session is None else [entry.entry for entry in session.entries]


def grow(store, key, branch, start, *entries):
    for seq, entry in enumerate(entries, start):
        store.write(Append(key, branch, seq, entry))


def test_what_was_written_is_read_back_by_another_store(place):
    store = place.open()
    store.write(Create(ANN, "b1", entries=(b"a", b"b"), changes=b"state", used=1.5))
    store.write(Append(ANN, "b1", 3, b"c\0\xff", b"change", used=2.5))
    store.write(Intend(ANN, "b1", 4, b"pay"))
    store.close()
    assert place.open().load(ANN) == StoredSession(
        branch="b1",
        entries=[StoredEntry(1, b"a"), StoredEntry(2, b"b"), StoredEntry(3, b"c\0\xff", b"change")],
        changes=[b"state"],
        intent=(4, b"pay"),
        used=2.5,
    )


def test_an_unknown_session_is_none(store):
    assert store.load(ANN) is None
    assert store.newer(ANN, "b1", 0) is None
    store.write(Delete(ANN))


def test_a_fork_of_a_fork_has_the_whole_line(store):
    store.write(Create(ANN, "b1", entries=(b"1", b"2"), changes=b"A"))
    store.write(Create(FORK, "b2", parent="b1", base=2, changes=b"B"))
    grow(store, FORK, "b2", 3, b"3", b"4")
    store.write(Create(TWIG, "b3", parent="b2", base=3, changes=b"C"))
    grow(store, TWIG, "b3", 4, b"x")
    assert texts(store, TWIG) == [b"1", b"2", b"3", b"x"]
    assert list(store.load(TWIG).changes) == [b"A", b"B", b"C"]


def test_a_fork_may_begin_before_its_parent_did(store):
    store.write(Create(ANN, "b1", entries=(b"1", b"2", b"3")))
    store.write(Create(FORK, "b2", parent="b1", base=3))
    store.write(Create(TWIG, "b3", parent="b2", base=1))
    grow(store, TWIG, "b3", 2, b"x")
    assert texts(store, TWIG) == [b"1", b"x"]
    store.write(Delete(ANN))
    store.write(Delete(FORK))
    assert texts(store, TWIG) == [b"1", b"x"]
    assert rows(store)["entries"] == 2


def test_a_fork_does_not_see_what_its_parent_does_later(store):
    store.write(Create(ANN, "b1", entries=(b"1",)))
    store.write(Create(FORK, "b2", parent="b1", base=1))
    grow(store, ANN, "b1", 2, b"2", b"3")
    assert texts(store, FORK) == [b"1"]
    grow(store, FORK, "b2", 2, b"other")
    assert texts(store, FORK) == [b"1", b"other"]
    assert texts(store, ANN) == [b"1", b"2", b"3"]


def test_a_fork_copies_nothing(store):
    store.write(Create(ANN, "b1", entries=tuple(b"x" for _ in range(20))))
    store.write(Create(FORK, "b2", parent="b1", base=20))
    assert rows(store)["entries"] == 20


def test_deleting_a_parent_keeps_just_what_its_forks_inherit(store):
    store.write(Create(ANN, "b1", entries=(b"1", b"2", b"3", b"4")))
    store.write(Create(FORK, "b2", parent="b1", base=3))
    store.write(Create(TWIG, "b3", parent="b1", base=1))
    store.write(Intend(ANN, "b1", 5, b"pay"))
    store.write(Delete(ANN))
    assert store.load(ANN) is None
    assert texts(store, FORK) == [b"1", b"2", b"3"]
    assert rows(store) == {"sessions": 2, "branches": 3, "entries": 3, "intents": 0}
    store.write(Delete(FORK))
    assert rows(store) == {"sessions": 1, "branches": 2, "entries": 1, "intents": 0}
    assert texts(store, TWIG) == [b"1"]
    store.write(Delete(TWIG))
    assert rows(store) == EMPTY


def test_a_long_line_of_forks_is_loaded_and_collected(store):
    length = 300
    store.write(Create(Key("ann", "0"), "b0"))
    for number in range(1, length):
        key, branch = Key("ann", str(number)), f"b{number}"
        store.write(Create(key, branch, parent=f"b{number - 1}", base=number - 1))
        store.write(Append(key, branch, number, str(number).encode()))
        store.write(Delete(Key("ann", str(number - 1))))
    assert texts(store, key) == [str(number).encode() for number in range(1, length)]
    store.write(Delete(key))
    assert rows(store) == EMPTY


def test_a_taken_key_is_refused_and_changes_nothing(store):
    store.write(Create(ANN, "b1", entries=(b"1",)))
    with pytest.raises(SessionExistsError, match="'trip'.*'ann'"):
        store.write(Create(ANN, "b2", entries=(b"2",)))
    assert texts(store, ANN) == [b"1"]
    assert rows(store)["branches"] == 1
    store.write(Create(Key("bob", "trip"), "b3"))


def test_a_branch_id_serves_once(store):
    store.write(Create(ANN, "b1"))
    with pytest.raises(SessionError):
        store.write(Create(FORK, "b1"))
    assert store.load(FORK) is None


@pytest.mark.parametrize(
    "create",
    [
        Create(FORK, "b2", parent="never", base=0),
        Create(FORK, "b2", parent="b1", base=3),
        Create(FORK, "b2", parent="b1", base=-1),
        Create(FORK, "b2", parent="b1", base=1, entries=(b"x",)),
        Create(FORK, "b2", base=1),
    ],
)
def test_a_fork_of_what_is_not_there_is_refused(store, create):
    store.write(Create(ANN, "b1", entries=(b"1", b"2")))
    with pytest.raises(SessionError, match="'fork'"):
        store.write(create)
    assert store.sessions() == [SessionInfo("trip", "ann", 2, 0.0)]


def test_a_deleted_parent_is_not_forked(store):
    store.write(Create(ANN, "b1", entries=(b"1", b"2")))
    store.write(Delete(ANN))
    with pytest.raises(SessionError, match="gone"):
        store.write(Create(FORK, "b2", parent="b1", base=1))


@pytest.mark.parametrize("seq", [0, 1, 2, 4, 2**70])
def test_a_number_that_is_not_the_next_is_refused(store, seq):
    store.write(Create(ANN, "b1", entries=(b"1", b"2")))
    with pytest.raises(SessionError):
        store.write(Append(ANN, "b1", seq, b"x", used=9.0))
    with pytest.raises(SessionError):
        store.write(Intend(ANN, "b1", seq, b"x"))
    loaded = store.load(ANN)
    assert (len(loaded.entries), loaded.intent, loaded.used) == (2, None, 0.0)


def test_a_writer_that_lost_its_session_is_fenced_off(place):
    old, new = place.open(), place.open()
    old.write(Create(ANN, "b1", entries=(b"1",)))
    new.write(Append(ANN, "b1", 2, b"new"))
    with pytest.raises(SessionError, match="another process"):
        old.write(Append(ANN, "b1", 2, b"old"))
    new.write(Delete(ANN))
    new.write(Create(ANN, "b2", entries=(b"1",)))
    for late in (Append(ANN, "b1", 3, b"old"), Append(ANN, "b1", 2, b"old"), Intend(ANN, "b1", 2, b"old")):
        with pytest.raises(SessionError, match="over"):
            old.write(late)
    assert texts(old, ANN) == [b"1"]


def test_an_answer_settles_its_intent(store):
    store.write(Create(ANN, "b1"))
    store.write(Intend(ANN, "b1", 1, b"pay"))
    assert store.load(ANN).intent == (1, b"pay")
    assert store.newer(ANN, "b1", 0).intent == (1, b"pay")
    store.write(Append(ANN, "b1", 1, b"paid"))
    assert store.load(ANN).intent is None
    assert rows(store)["intents"] == 0


def test_a_withdrawn_intent_is_void_and_its_number_free(store):
    store.write(Create(ANN, "b1"))
    store.write(Intend(ANN, "b1", 1, b"pay"))
    store.write(Withdraw(ANN, "b1", 1))
    store.write(Withdraw(ANN, "b1", 1))
    assert store.load(ANN).intent is None
    store.write(Intend(ANN, "b1", 1, b"pay more"))
    assert store.load(ANN).intent == (1, b"pay more")


def test_two_processes_cannot_intend_the_same_number(place):
    one, two = place.open(), place.open()
    one.write(Create(ANN, "b1"))
    one.write(Intend(ANN, "b1", 1, b"pay"))
    with pytest.raises(SessionError):
        two.write(Intend(ANN, "b1", 1, b"pay"))
    assert one.load(ANN).intent == (1, b"pay")


@pytest.mark.parametrize("text", ["\ud800", "nul\0nul"])
def test_a_key_that_cannot_be_stored_fails_alone(store, text):
    try:
        store.write(Create(Key("ann", text), "odd"))
    except SessionError:
        assert store.sessions() == []
    else:
        assert store.load(Key("ann", text)).branch == "odd"
    store.write(Create(ANN, "b1"))
    assert store.load(ANN).branch == "b1"


def test_sessions_are_listed_by_owner_and_id(store):
    for number, key in enumerate([Key("bob", "b"), Key("ann", "z"), Key("ann", "Z"), Key("ann", "é")]):
        store.write(Create(key, f"b{number}", used=number))
    store.write(Append(Key("ann", "z"), "b1", 1, b"x", used=7.0))
    store.write(Create(Key("bob", "a"), "fork", parent="b1", base=1, used=3.0))
    assert store.sessions() == [
        SessionInfo("Z", "ann", 0, 2.0),
        SessionInfo("z", "ann", 1, 7.0),
        SessionInfo("é", "ann", 0, 3.0),
        SessionInfo("a", "bob", 1, 3.0),
        SessionInfo("b", "bob", 0, 0.0),
    ]
    assert [info.session_id for info in store.sessions("bob")] == ["a", "b"]
    assert store.count() == 5
    assert [store.count(owner) for owner in ("ann", "bob", "", "an")] == [3, 2, 0, 0]


def test_newer_is_only_what_came_after(store):
    store.write(Create(ANN, "b1", entries=(b"1", b"2"), changes=b"A"))
    store.write(Create(FORK, "b2", parent="b1", base=2, changes=b"B"))
    grow(store, FORK, "b2", 3, b"3", b"4")
    for seq, expected in [(0, [1, 2, 3, 4]), (1, [2, 3, 4]), (2, [3, 4]), (3, [4]), (4, [])]:
        newer = store.newer(FORK, "b2", seq)
        assert [entry.seq for entry in newer.entries] == expected
        assert list(newer.changes) == []
    assert store.newer(FORK, "b1", 0) is None


@pytest.mark.process
def test_newer_sees_what_another_process_appends(place):
    store = place.open()
    store.write(Create(ANN, "b1", entries=(b"1",)))
    assert store.newer(ANN, "b1", 1).entries == []
    other = place.process("store.write(Append(Key('ann', 'trip'), 'b1', 2, b'there', used=5.0))\nstore.close()")
    assert other.wait(30) == 0
    newer = store.newer(ANN, "b1", 1)
    assert (list(newer.entries), newer.used) == ([StoredEntry(2, b"there")], 5.0)


def test_sixteen_threads_lose_nothing(store):
    failures = []

    def work(number):
        key, branch = Key("crowd", str(number)), f"crowd{number}"
        try:
            store.write(Create(key, branch))
            for seq in range(1, 21):
                if seq % 2:
                    store.write(Append(key, branch, seq, b"%d" % seq))
                else:
                    done, told = threading.Event(), []
                    store.submit(
                        Append(key, branch, seq, b"%d" % seq), lambda e, d=done, t=told: (t.append(e), d.set())
                    )
                    assert done.wait(SOON) and told == [None]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for number in range(16):
        assert texts(store, Key("crowd", str(number))) == [b"%d" % seq for seq in range(1, 21)]


def test_one_bad_write_in_a_transaction_fails_alone(store):
    store.write(Create(ANN, "b1"))
    answers = {}
    with store._group._mutex:
        for seq in (1, 2, 9, 3):
            store.submit(Append(ANN, "b1", seq, b"x"), lambda error, seq=seq: answers.__setitem__(seq, error))
        store.submit(Create(ANN, "b9"), lambda error: answers.__setitem__("taken", error))
        store.submit(Create(FORK, "b2", parent="b1", base=3), lambda error: answers.__setitem__("fork", error))
        store.submit(Delete(ANN), lambda error: answers.__setitem__("delete", error))
        store.submit(Append(FORK, "b2", 4, b"y"), lambda error: answers.__setitem__("after", error))
    store._group.close()
    assert isinstance(answers.pop(9), SessionError)
    assert isinstance(answers.pop("taken"), SessionExistsError)
    assert answers == dict.fromkeys([1, 2, 3, "fork", "delete", "after"])
    assert texts(store, FORK) == [b"x", b"x", b"x", b"y"]
    assert rows(store) == {"sessions": 1, "branches": 2, "entries": 4, "intents": 0}


def test_a_callback_may_write(store):
    store.write(Create(ANN, "b1"))
    done = threading.Event()

    def next_one(error):
        store.write(Append(ANN, "b1", 2, b"2"))
        done.set()

    store.submit(Append(ANN, "b1", 1, b"1"), next_one)
    assert done.wait(SOON)
    assert texts(store, ANN) == [b"1", b"2"]


def test_two_stores_in_one_process_exclude_each_other(place):
    one, two = place.open(), place.open()
    assert one.try_hold(ANN)
    assert not two.try_hold(ANN)
    assert not one.try_hold(ANN)
    assert two.try_hold(FORK)
    two.release(ANN)
    assert not two.try_hold(ANN)
    one.release(ANN)
    one.release(ANN)
    assert two.try_hold(ANN)
    two.close()
    assert one.try_hold(ANN) and one.try_hold(FORK)


@pytest.mark.process
def test_a_holder_in_another_process_excludes_us_until_it_is_killed(place):
    store = place.open()
    holder = place.process("print(store.try_hold(Key('ann', 'trip')))\nsys.stdin.read()")
    assert holder.stdout.readline() == "True\n"
    assert not store.try_hold(ANN)
    assert store.try_hold(FORK)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    for _ in range(6000):
        if store.try_hold(ANN):
            return
        # A server notices the death of its client a moment later.
        threading.Event().wait(0.005)
    raise AssertionError("the dead process still holds the session")


@pytest.mark.process
def test_a_forked_child_is_told_to_open_its_own(store):
    store.write(Create(ANN, "b1"))
    assert store.try_hold(ANN)
    child = fork()
    if child == 0:
        refused = 0
        try:
            for use in (lambda: store.load(ANN), lambda: store.write(Delete(ANN)), lambda: store.try_hold(ANN)):
                try:
                    use()
                except SessionError as error:
                    refused += "forked" in str(error)
            store.release(ANN)
            store.close()
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert not store.try_hold(ANN)
    store.write(Append(ANN, "b1", 1, b"x"))
    assert texts(store, ANN) == [b"x"]


def test_expire_deletes_what_is_old_and_not_held(place):
    store, other = place.open(), place.open()
    for number, key in enumerate([ANN, FORK, TWIG]):
        store.write(Create(key, f"b{number}", used=float(number)))
    busy = Key("bob", "busy")
    store.write(Create(busy, "b9", used=0.0))
    assert other.try_hold(busy)
    mine = Key("bob", "mine")
    store.write(Create(mine, "b8", used=0.0))
    assert store.try_hold(mine)
    assert store.expire(2.0) == [FORK, ANN]
    assert [info.session_id for info in store.sessions()] == ["twig", "busy", "mine"]
    other.release(busy)
    assert store.expire(2.0) == [busy]
    assert store.expire(2.0) == []
    assert other.try_hold(ANN)


def test_closing_twice_is_harmless_and_later_use_is_refused(store):
    store.write(Create(ANN, "b1"))
    answers = []
    store.submit(Append(ANN, "b1", 1, b"x"), answers.append)
    store.close()
    store.close()
    assert answers == [None]
    for use in (
        lambda: store.write(Append(ANN, "b1", 2, b"x")),
        lambda: store.load(ANN),
        lambda: store.sessions(),
        lambda: store.try_hold(ANN),
    ):
        with pytest.raises(SessionError, match="closed"):
            use()
    store.release(ANN)
    store.submit(Append(ANN, "b1", 2, b"x"), answers.append)
    assert isinstance(answers[1], SessionError)


INTERRUPTS = """
import signal, threading, time
armed = [False]
def strike(*_):
    if armed[0]:
        armed[0] = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, strike)
mine, theirs = Key("o", "main"), Key("o", "thread")
store.write(Create(mine, "m"))
store.write(Create(theirs, "t"))
over, acked, failures = threading.Event(), [0], []
def follow():
    seq = 0
    while not over.is_set():
        seq += 1
        try:
            store.write(Append(theirs, "t", seq, b"%d" % seq))
        except BaseException as error:
            failures.append(repr(error))
            return
    acked[0] = seq
def strikes():
    for number in range(800):
        time.sleep(0.0003 + number % 7 * 0.0001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    over.set()
threads = [threading.Thread(target=follow), threading.Thread(target=strikes)]
for thread in threads:
    thread.start()
known, interrupted = 0, 0
while not over.is_set():
    try:
        armed[0] = True
        store.write(Append(mine, "m", known + 1, b"%d" % (known + 1)))
        armed[0] = False
        known += 1
    except KeyboardInterrupt:
        interrupted += 1
        store.write(Create(Key("o", "sync%d" % interrupted), "s%d" % interrupted))
        there = len(store.load(mine).entries)
        assert there in (known, known + 1), (there, known)
        known = there
for thread in threads:
    thread.join()
assert failures == [], failures
for key, number in ((mine, known), (theirs, acked[0])):
    assert [entry.entry for entry in store.load(key).entries] == [b"%d" % n for n in range(1, number + 1)]
store.close()
print("interrupted", interrupted > 0)
"""


@pytest.mark.process
@pytest.mark.parametrize("place", ways_to_try("sqlite", "postgres"), indirect=True)
def test_a_hail_of_interrupts_loses_and_repeats_nothing(place):
    process = place.process(INTERRUPTS)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "interrupted True\n")
