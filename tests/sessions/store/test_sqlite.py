"""Sessions in a file: how it is opened, how it fails, and that it agrees with a plain dict."""

import os
import signal
import sqlite3
import stat
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given

from sessions import session_model
from sessions.conftest import fork
from toolyard.model.errors import SessionError
from toolyard.sessions.store import sqlite as locks_module
from toolyard.sessions.store.base import Append, Create, Key
from toolyard.sessions.store.sqlite import SqliteStore

ANN = Key("ann", "trip")


@given(session_model.programs)
def test_a_store_agrees_with_a_plain_dict(program):
    with tempfile.TemporaryDirectory() as folder:
        assert session_model.run(program, lambda: SqliteStore(Path(folder) / "s.db")) > len(session_model.KEYS)


def test_the_file_is_private_and_its_folder_is_made(tmp_path):
    path = tmp_path / "new" / "deep" / "s.db"
    store = SqliteStore(str(path))
    store.write(Create(ANN, "b1"))
    store.try_hold(ANN)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    store.close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["s.db", "s.db-locks"]


@pytest.mark.parametrize(("durability", "level"), [("normal", 1), ("full", 2)])
def test_durability_is_what_was_asked_for(tmp_path, durability, level):
    store = SqliteStore(tmp_path / "s.db", durability=durability)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (level,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_an_unknown_durability_is_refused(tmp_path):
    with pytest.raises(SessionError, match="'normal' or 'full'"):
        SqliteStore(tmp_path / "s.db", durability="off")


def test_sixteen_threads_share_transactions(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    commits = []
    store._writer.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    threads = [
        threading.Thread(target=lambda n=n: store.write(Create(Key("crowd", str(n)), f"b{n}"))) for n in range(16)
    ]
    with store._group._mutex:
        for thread in threads:
            thread.start()
        while len(store._group._queue) < 16:
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join()
    assert len(commits) == 1
    assert len(store.sessions()) == 16
    store.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"my notes\n" * 500)
    with pytest.raises(SessionError, match=r"notes\.txt is not an SQLite database") as caught:
        SqliteStore(path)
    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)
    assert path.read_bytes() == b"my notes\n" * 500


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(SessionError, match="not a file"):
        SqliteStore(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError, match="cannot create"):
        SqliteStore(tmp_path / "file" / "s.db")


def test_another_programs_database_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute("CREATE TABLE sessions (id)")
    db.close()
    with pytest.raises(SessionError, match="another program"):
        SqliteStore(tmp_path / "s.db")


def test_a_newer_version_of_the_tables_is_refused(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    store._writer.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(SessionError, match=r"newer toolyard.*99.*upgrade"):
        SqliteStore(tmp_path / "s.db")


def test_a_copy_made_by_vacuum_is_opened_in_the_same_mode_as_the_original(tmp_path):
    SqliteStore(tmp_path / "s.db").close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        db.execute("VACUUM INTO ?", [str(tmp_path / "copy.db")])
    SqliteStore(tmp_path / "copy.db").close()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_damaged_file_is_an_error_not_a_wrong_answer(tmp_path):
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    store.write(Create(ANN, "b1", entries=tuple(bytes(5000) for _ in range(20))))
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    store = SqliteStore(path)
    with pytest.raises(SessionError, match="damaged"):
        store.load(ANN)
    store.close()


def test_a_locked_file_is_an_error_and_nothing_is_half_written(tmp_path):
    store = SqliteStore(tmp_path / "s.db", busy_timeout=0.0)
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SessionError, match="locked") as caught:
        store.write(Create(ANN, "b1", entries=(b"1",)))
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert store.load(ANN) is None
    other.execute("ROLLBACK")
    other.close()
    store.write(Create(ANN, "b1", entries=(b"1",)))
    assert len(store.load(ANN).entries) == 1
    store.close()


def test_a_full_disk_is_an_error_and_nothing_is_half_written(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    store.write(Create(ANN, "b1"))
    pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
    store._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(SessionError, match="full"):
        store.write(Append(ANN, "b1", 1, bytes(100_000), used=9.0))
    assert (store.load(ANN).used, len(store.load(ANN).entries)) == (0.0, 0)
    store.write(Append(ANN, "b1", 1, b"small"))
    store.close()


def test_a_file_that_may_only_be_read_is_read(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    store.write(Create(ANN, "b1", entries=(b"1",)))
    store._writer.execute("PRAGMA query_only = 1")
    with pytest.raises(SessionError, match="readonly"):
        store.write(Append(ANN, "b1", 2, b"x"))
    assert len(store.load(ANN).entries) == 1
    store.close()


def test_readers_do_not_wait_for_a_writer(tmp_path):
    store = SqliteStore(tmp_path / "s.db", busy_timeout=0.0)
    store.write(Create(ANN, "b1"))
    store._writer.execute("BEGIN IMMEDIATE")
    assert store.load(ANN).branch == "b1"
    store._writer.execute("ROLLBACK")
    store.close()


@pytest.mark.process
def test_processes_that_open_a_new_file_at_once_all_succeed(sqlite_place):
    code = "store.write(Create(Key('crowd', sys.argv[0] + '{n}'), 'b{n}'))\nstore.close()"
    processes = [sqlite_place.process(code.format(n=n)) for n in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert len(sqlite_place.open().sessions()) == 4


@pytest.mark.process
def test_a_forked_child_neither_keeps_nor_frees_what_its_parent_holds(tmp_path):
    locks = locks_module.SessionLocks(tmp_path / "locks")
    assert locks.try_hold(ANN)
    ready, go = os.pipe(), os.pipe()
    child = fork()
    if child == 0:
        try:
            os.write(ready[1], b"%d" % locks.try_hold(ANN))
            os.read(go[0], 1)
        finally:
            os._exit(0)
    try:
        assert os.read(ready[0], 1) == b"0"
        locks.release(ANN)
        # The child lives and had the descriptor: it must not be what keeps the session busy.
        other = locks_module.SessionLocks(tmp_path / "locks")
        assert other.try_hold(ANN)
        other.close()
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        locks.close()
        for fd in (*ready, *go):
            os.close(fd)


def test_keys_with_one_number_take_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(locks_module, "lock_number", lambda *names, bits: 7)
    locks = locks_module.SessionLocks(tmp_path / "locks")
    other = Key("bob", "other")
    assert locks.try_hold(ANN)
    assert not locks.try_hold(other)
    locks.release(other)
    assert not locks.try_hold(other)
    locks.release(ANN)
    assert locks.try_hold(other)
    locks.close()


def test_locks_also_work_where_a_process_has_only_one_set(tmp_path, monkeypatch):
    monkeypatch.setattr(locks_module, "_OFD_SETLK", None)
    (tmp_path / "same").symlink_to(tmp_path)
    one, two = locks_module.SessionLocks(tmp_path / "locks"), locks_module.SessionLocks(tmp_path / "same/locks")
    assert one.try_hold(ANN)
    assert not two.try_hold(ANN)
    two.close()
    assert one.try_hold(Key("ann", "other"))
    one.close()
    assert two.try_hold(ANN)
    two.close()


def test_the_parts_of_a_key_do_not_run_together():
    assert locks_module.lock_number("a", "bc", bits=62) != locks_module.lock_number("ab", "c", bits=62)
    assert 0 <= locks_module.lock_number("a", "bc", bits=62) < 2**62


@pytest.mark.process
def test_a_killed_writer_leaves_all_that_it_acknowledged(sqlite_place):
    code = (
        "store.write(Create(Key('ann', 'trip'), 'b1'))\n"
        "for seq in range(1, 10**6):\n"
        "    store.write(Append(Key('ann', 'trip'), 'b1', seq, b'x' * 50))\n"
        "    print(seq)\n"
    )
    process = sqlite_place.process(code)
    for _ in range(200):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    acknowledged = [int(line) for line in process.communicate()[0].splitlines() if line]
    entries = sqlite_place.open().load(ANN).entries
    assert len(entries) >= max([200, *acknowledged[:-1]])
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))


def test_one_owners_sessions_are_counted_by_the_primary_key(sqlite_place):
    store = sqlite_place.open()
    plan = store._read(
        lambda run: run("EXPLAIN QUERY PLAN SELECT count(*) FROM sessions WHERE owner = ?", ("ann",)).fetchall()
    )
    assert any("SEARCH" in row[-1] and "PRIMARY KEY (owner=?)" in row[-1] for row in plan), plan
