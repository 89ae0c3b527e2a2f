"""Records: what all three kinds of them promise, how old tables get them, and what memory forgets."""

import asyncio
import sqlite3
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings, strategies as st
from waiting import Clock

from conftest import examples
from sessions.store.test_postgres import Cut, kill_connections
from toolyard.model.errors import SessionError
from toolyard.sessions import records as records_module
from toolyard.sessions.records import MemoryRecords, open_records
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.base import AffectedRows, Append, Create, Key, PutRecord
from toolyard.sessions.store.sqlite import SqliteStore
from toolyard.sessions.store.tables import VERSION, Record

# As the first version made them, word for word.
VERSION_1 = (
    "CREATE TABLE sessions (owner {text} NOT NULL, id {text} NOT NULL, branch {text} NOT NULL UNIQUE,"
    " used DOUBLE PRECISION NOT NULL, PRIMARY KEY (owner, id)){compact}",
    "CREATE TABLE branches (id {text} NOT NULL PRIMARY KEY, parent {text}, base BIGINT NOT NULL,"
    " changes {blob} NOT NULL){compact}",
    "CREATE INDEX branches_by_parent ON branches (parent, base)",
    "CREATE TABLE entries (branch {text} NOT NULL, seq BIGINT NOT NULL, entry {blob} NOT NULL,"
    " changes {blob} NOT NULL, PRIMARY KEY (branch, seq)){compact}",
    "CREATE TABLE intents (branch {text} NOT NULL, seq BIGINT NOT NULL, call {blob} NOT NULL,"
    " PRIMARY KEY (branch, seq)){compact}",
    "INSERT INTO sessions VALUES ('ann', 'trip', 'b1', 5.0)",
    "INSERT INTO branches VALUES ('b1', NULL, 0, '')",
)
ANN = Key("ann", "trip")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def records(request, clock):
    store = None if request.param == "memory" else request.getfixturevalue(f"{request.param}_place").open()
    made = open_records(store, clock=clock)
    yield made
    made.close()


@pytest.fixture
def pair(place):
    """Two stores on one place, as two processes have them."""
    made = [open_records(place.open()) for _ in range(2)]
    yield made
    for each in made:
        each.close()


def test_a_value_is_kept_under_kind_owner_and_name(records):
    assert records.put("tool", "ann", "x", b"\0\xff")
    assert records.get("tool", "ann", "x") == b"\0\xff"
    for other in (("tool", "bob", "x"), ("tool", "ann", "y"), ("key", "ann", "x")):
        assert records.get(*other) is None
    assert records.put("tool", "ann", "x", b"")
    assert records.get("tool", "ann", "x") == b""


def test_a_new_value_does_not_take_the_place_of_another(records):
    assert records.put("tool", "ann", "x", b"1", new=True)
    assert not records.put("tool", "ann", "x", b"2", new=True)
    assert records.get("tool", "ann", "x") == b"1"
    assert records.remove("tool", "ann", "x")
    assert records.put("tool", "ann", "x", b"3", new=True)


def test_replacing_and_removing_compare_first(records):
    records.put("tool", "ann", "x", b"1")
    assert not records.replace("tool", "ann", "x", b"0", b"2")
    assert records.replace("tool", "ann", "x", b"1", b"2")
    assert not records.replace("tool", "ann", "y", b"", b"2")
    assert not records.remove("tool", "ann", "x", old=b"1")
    assert records.remove("tool", "ann", "x", old=b"2")
    assert not records.remove("tool", "ann", "x")


def test_all_are_listed_by_owner_and_name(records, clock):
    for number, (owner, name) in enumerate([("bob", "a"), ("ann", "z"), ("ann", "Z"), ("", "é")]):
        clock.now = float(number)
        records.put("tool", owner, name, b"%d" % number)
    records.put("key", "ann", "k", b"")
    assert records.all("tool") == [
        Record("", "é", b"3", 3.0),
        Record("ann", "Z", b"2", 2.0),
        Record("ann", "z", b"1", 1.0),
        Record("bob", "a", b"0", 0.0),
    ]
    assert [record.name for record in records.all("tool", "ann")] == ["Z", "z"]
    assert records.all("nothing") == []


def test_a_version_grows_with_each_change_of_its_kind(records):
    seen = [records.version("tool")]
    for change in (
        lambda: records.put("tool", "ann", "x", b"1"),
        lambda: records.put("tool", "ann", "x", b"1"),
        lambda: records.replace("tool", "ann", "x", b"1", b"2"),
        lambda: records.remove("tool", "ann", "x"),
    ):
        assert change()
        seen.append(records.version("tool"))
    assert seen == sorted(set(seen))
    assert records.version("key") == 0


def test_answers_have_no_version(records):
    records.put("answer", "ann", "x", b"1")
    assert records.version("answer") == 0


def test_what_is_old_expires_and_a_new_value_makes_it_young(records, clock):
    for number in range(1200):
        records.put("answer", "ann", str(number), b"")
    clock.now = 2000.0
    records.replace("answer", "ann", "7", b"", b"young")
    records.put("key", "ann", "k", b"")
    assert records.expire("answer", 1500.0) == 1199
    assert [record.name for record in records.all("answer")] == ["7"]
    assert records.expire("answer", 1500.0) == 0


def test_a_name_that_is_held_is_nobody_elses_and_no_sessions(records):
    assert records.hold("holder", "ann", "trip")
    assert records.holds("holder", "ann", "trip")
    assert not records.hold("holder", "ann", "trip")
    assert records.hold("holder", "bob", "trip")
    records.release("holder", "ann", "trip")
    records.release("holder", "ann", "trip")
    assert not records.holds("holder", "ann", "trip")
    assert records.hold("holder", "ann", "trip")


async def test_the_twins_do_the_same_on_a_loop(records, clock):
    assert await records.aput("tool", "ann", "x", b"1", new=True)
    assert not await records.aput("tool", "ann", "x", b"2", new=True)
    assert await records.aget("tool", "ann", "x") == b"1"
    assert await records.areplace("tool", "ann", "x", b"1", b"2")
    assert not await records.areplace("tool", "ann", "x", b"1", b"2")
    assert await records.aall("tool") == [Record("ann", "x", b"2", 1000.0)]
    assert await records.aversion("tool") > 0
    assert not await records.aremove("tool", "ann", "x", old=b"1")
    assert await records.aremove("tool", "ann", "x")
    assert await records.ahold("holder", "", "n")
    assert await records.aholds("holder", "", "n")
    assert not await records.ahold("holder", "", "n")
    await records.arelease("holder", "", "n")
    await asyncio.gather(*(records.aput("answer", "ann", str(n), b"x") for n in range(100)))
    clock.now += 1
    assert await records.aexpire("answer", clock.now) == 100


async def test_of_many_who_put_a_new_value_at_once_one_succeeds(pair):
    won = await asyncio.gather(
        *(each.aput("answer", "ann", "x", b"%d" % number, new=True) for number in range(20) for each in pair)
    )
    assert won.count(True) == 1


def test_a_name_that_is_taken_does_not_break_up_the_transaction(sqlite_place):
    store = sqlite_place.open()
    records = open_records(store)
    records.put("answer", "ann", "x", b"1")
    commits, told = [], []
    store._writer.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    writes = [PutRecord("answer", "ann", name, b"2", 0.0, AffectedRows(), True) for name in "wxy"]
    with store._group._mutex:
        for write in writes:
            store.submit(write, told.append)
    store.close()
    assert told == [None] * 3
    assert [write.outcome.rows for write in writes] == [1, 0, 1]
    assert len(commits) == 1


def test_processes_see_each_others_records_versions_and_holds(pair):
    one, two = pair
    assert one.put("key", "", "k", b"1")
    assert two.get("key", "", "k") == b"1"
    version = two.version("key")
    assert one.hold("holder", "", "a")
    assert not two.hold("holder", "", "a")
    assert two.remove("key", "", "k")
    assert one.version("key") > version


def test_a_hold_is_no_sessions(sqlite_place):
    store = sqlite_place.open()
    records = open_records(store)
    assert records.hold("holder", "ann", "trip")
    assert store.try_hold(ANN)


@pytest.mark.parametrize("name", ["\ud800", "nul\0nul"])
def test_a_name_that_cannot_be_stored_fails_alone(place, name):
    records = open_records(place.open())
    try:
        records.put("tool", "ann", name, b"odd")
    except SessionError:
        assert records.all("tool") == []
    else:
        assert records.get("tool", "ann", name) == b"odd"
    assert records.put("tool", "ann", "x", b"1")


def test_a_file_of_the_first_version_gets_the_tables_and_keeps_its_sessions(tmp_path):
    path = tmp_path / "old.db"
    db = sqlite3.connect(path)
    for statement in VERSION_1:
        db.execute(statement.format(text="TEXT", blob="BLOB", compact=" WITHOUT ROWID"))
    db.execute("UPDATE branches SET changes = x''")
    db.execute(f"PRAGMA application_id = {0x54597264}")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    stores, failures = [], []

    def start():
        try:
            stores.append(SqliteStore(path))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert open_records(stores[0]).put("tool", "ann", "x", b"1")
    assert open_records(stores[1]).get("tool", "ann", "x") == b"1"
    stores[2].write(Append(ANN, "b1", 1, b"still here"))
    for store in stores:
        store.close()
    store = SqliteStore(path)
    [entry] = store.load(ANN).entries
    assert (entry.entry, entry.at, entry.took) == (b"still here", None, None)
    assert open_records(store).version("tool") == 1
    store.close()


def test_a_schema_of_the_first_version_gets_the_tables_and_keeps_its_sessions(postgres_place):
    with psycopg.connect(postgres_place.address) as conn:
        conn.execute(f'CREATE SCHEMA "{postgres_place.schema}"')
        conn.execute(f'SET search_path TO "{postgres_place.schema}"')
        for statement in VERSION_1:
            conn.execute(statement.format(text='TEXT COLLATE "C"', blob="BYTEA", compact=""))
        conn.execute("CREATE TABLE format (version BIGINT NOT NULL)")
        conn.execute("INSERT INTO format VALUES (1)")
    stores = [postgres_place.open() for _ in range(4)]
    threads = [threading.Thread(target=store.load, args=(ANN,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert open_records(stores[0]).put("tool", "ann", "x", b"1")
    assert open_records(stores[1]).get("tool", "ann", "x") == b"1"
    stores[2].write(Append(ANN, "b1", 1, b"still here"))
    assert len(postgres_place.open().load(ANN).entries) == 1
    with psycopg.connect(postgres_place.address) as conn:
        assert conn.execute(f'SELECT version FROM "{postgres_place.schema}".format').fetchall() == [(VERSION,)]


@pytest.mark.parametrize("done", [True, False])
def test_a_write_of_a_record_whose_commit_is_not_answered_is_looked_up(postgres_place, done):
    store = postgres_place.open()
    records = open_records(store)
    records.put("tool", "ann", "x", b"same")
    for work, expected in (
        (lambda: records.put("tool", "ann", "x", b"same"), True),
        (lambda: records.put("tool", "ann", "x", b"other", new=True), False),
        (lambda: records.put("tool", "ann", "y", b"1", new=True), True),
        (lambda: records.replace("tool", "ann", "y", b"1", b"2"), True),
        (lambda: records.replace("tool", "ann", "y", b"1", b"3"), False),
        (lambda: records.remove("tool", "ann", "y", old=b"2"), True),
    ):
        cut = Cut(store, done=done)
        assert work() is expected
        assert cut.commits == 1
    assert [record.name for record in records.all("tool")] == ["x"]


@pytest.mark.parametrize("done", [True, False])
def test_a_value_written_again_does_not_stand_for_what_was_lost_beside_it(postgres_place, done):
    store = postgres_place.open()
    records = open_records(store)
    records.put("tool", "ann", "x", b"same")
    Cut(store, done=done)
    told = []
    with store._group._mutex:
        for name in ("x", "lost?"):
            store.submit(PutRecord("tool", "ann", name, b"same", 0.0, AffectedRows()), told.append)
        store.submit(Create(ANN, "b1"), told.append)
    store._group.close()
    assert told == [None] * 3
    assert [record.name for record in records.all("tool")] == ["lost?", "x"]
    assert store.load(ANN) is not None


def test_a_hold_that_went_with_its_connection_is_noticed_and_taken_again(postgres_place):
    one, two = (open_records(postgres_place.open()) for _ in range(2))
    assert one.hold("holder", "", "n")
    assert one.holds("holder", "", "n")
    kill_connections(postgres_place.address)
    assert not one.holds("holder", "", "n")
    assert two.hold("holder", "", "n")
    assert not one.hold("holder", "", "n")
    two.release("holder", "", "n")
    assert one.hold("holder", "", "n")
    assert one.holds("holder", "", "n")


def test_memory_forgets_the_oldest_of_whoever_has_most():
    records = MemoryRecords(most={"answer": 10})
    records.put("answer", "light", "1", b"")
    for number in range(100):
        assert records.put("answer", "heavy", str(number), b"")
        records.put("tool", "heavy", str(number), b"")
    assert records.get("answer", "light", "1") is not None
    assert [record.name for record in records.all("answer", "heavy")] == [str(number) for number in range(91, 100)]
    assert len(records.all("tool")) == 100
    for number in range(3):
        records.put("answer", "third", str(number), b"")
    assert len(records.all("answer", "third")) == 3
    assert len(records.all("answer")) == 10


def test_memory_is_bounded_in_bytes_too(monkeypatch):
    monkeypatch.setattr(records_module, "MOST_BYTES", 1000)
    records = MemoryRecords()
    for number in range(10):
        records.put("answer", "ann", str(number), bytes(300))
    assert [record.name for record in records.all("answer")] == ["7", "8", "9"]
    records.put("answer", "ann", "huge", bytes(5000))
    assert [record.name for record in records.all("answer")] == ["huge"], "the newest is kept whatever its size"


def test_sessions_and_records_share_a_store(sqlite_place):
    store = sqlite_place.open()
    sessions, records = Sessions(store), open_records(store)
    sessions.open("s")
    records.put("tool", "", "s", b"1")
    assert [info.session_id for info in store.sessions()] == ["s"]


names = st.sampled_from(["a", "b", "c"])
values = st.sampled_from([b"", b"1", b"2"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), names, names, values, st.booleans()),
        st.tuples(st.just("replace"), names, names, values, values),
        st.tuples(st.just("remove"), names, names, st.none() | values),
        st.tuples(st.just("expire"), st.integers(0, 30)),
    ),
    max_size=30,
)


def play(program, records, clock):
    """Do it all, and beside it the same with a dict."""
    model = {}
    for number, (verb, *args) in enumerate(program):
        clock.now = float(number)
        if verb == "put":
            owner, name, value, new = args
            expected = not (new and (owner, name) in model)
            assert records.put("answer", owner, name, value, new=new) is expected
            if expected:
                model[owner, name] = (value, clock.now)
        elif verb == "replace":
            owner, name, old, value = args
            expected = (owner, name) in model and model[owner, name][0] == old
            assert records.replace("answer", owner, name, old, value) is expected
            if expected:
                model[owner, name] = (value, clock.now)
        elif verb == "remove":
            owner, name, old = args
            expected = (owner, name) in model and old in (None, model[owner, name][0])
            assert records.remove("answer", owner, name, old=old) is expected
            if expected:
                del model[owner, name]
        else:
            gone = [key for key, (_, at) in model.items() if at < args[0]]
            assert records.expire("answer", args[0]) == len(gone)
            model = {key: kept for key, kept in model.items() if key not in gone}
        found = {(record.owner, record.name): (record.value, record.at) for record in records.all("answer")}
        assert found == model
    return found == model if program else True


@given(steps)
def test_records_in_memory_and_in_a_file_agree_with_a_plain_dict(program):
    clock = Clock()
    assert play(program, open_records(None, clock=clock), clock)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "s.db")
        assert play(program, open_records(store, clock=clock), clock)
        store.close()


def test_records_in_postgres_agree_with_a_plain_dict(postgres_place):
    clock, store = Clock(), postgres_place.open()

    @given(steps)
    @settings(max_examples=examples(20))
    def agree(program):
        records = open_records(store, clock=clock)
        records.expire("answer", float("inf"))
        assert play(program, records, clock)
        records.close()

    agree()
