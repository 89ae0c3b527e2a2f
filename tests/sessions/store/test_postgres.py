"""Sessions in Postgres: starting together, lost connections, unanswered commits, and secrets kept."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psycopg
import pytest
from hypothesis import given, settings
from waiting import until

from conftest import examples
from sessions import session_model
from sessions.postgres_server import running_postgres
from toolyard.model.errors import SessionError
from toolyard.sessions.store.base import Append, Create, Delete, Intend, Key, Withdraw
from toolyard.sessions.store.postgres import PostgresStore

pytestmark = pytest.mark.process

ANN = Key("ann", "trip")
FORK = Key("ann", "fork")


def kill_connections(dsn):
    """As after a restart of the server: everybody's connection is dead."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


class Cut:
    """Makes the writer's connection die at its next COMMIT, before or after the server has done it."""

    def __init__(self, store, *, done, error=psycopg.OperationalError):
        self.conn = store._writer._link.connection()
        self.execute = self.conn.execute
        self.done = done
        self.error = error
        self.commits = 0
        self.conn.execute = self

    def __call__(self, query, *args):
        if query != "COMMIT":
            return self.execute(query, *args)
        self.commits += 1
        if self.done:
            self.execute(query)
        self.conn.close()
        raise self.error("the connection was lost")


numbers = itertools.count()


def test_a_store_agrees_with_a_plain_dict(postgres):
    @given(session_model.programs)
    @settings(max_examples=examples(8))
    def agree(program):
        schema = f"program{next(numbers)}"
        assert session_model.run(program, lambda: PostgresStore(postgres, schema=schema)) > len(session_model.KEYS)

    agree()


def test_ten_nodes_that_start_at_once_all_find_the_tables(postgres_place):
    stores = [postgres_place.open() for _ in range(10)]
    barrier, failures = threading.Barrier(10), []

    def start(number):
        barrier.wait()
        try:
            stores[number].write(Create(Key("node", str(number)), f"b{number}"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(stores[0].sessions()) == 10


def test_schemas_do_not_mix_and_their_names_are_quoted(postgres):
    names = ['we"ird; DROP SCHEMA x', "Upper Case", "%s"]
    stores = [PostgresStore(postgres, schema=name) for name in names]
    for store in stores:
        store.write(Create(ANN, "b1"))
        assert store.try_hold(ANN)
        assert len(store.sessions()) == 1
        store.close()


@pytest.mark.parametrize("schema", ["", "x" * 64, "a\0b"])
def test_an_impossible_schema_is_refused(postgres, schema):
    with pytest.raises(SessionError, match="schema"):
        PostgresStore(postgres, schema=schema)


def test_a_newer_version_of_the_tables_is_refused(postgres_place):
    postgres_place.open().sessions()
    with psycopg.connect(postgres_place.address) as conn:
        conn.execute(f'UPDATE "{postgres_place.schema}".format SET version = 99')
    with pytest.raises(SessionError, match="version 99"):
        postgres_place.open().sessions()


def test_a_user_who_may_not_create_uses_the_tables_that_are_there(postgres_place):
    postgres_place.open().write(Create(ANN, "b1"))
    with psycopg.connect(postgres_place.address) as conn:
        conn.execute("DROP ROLE IF EXISTS guest")
        conn.execute("CREATE ROLE guest LOGIN")
        conn.execute(f'GRANT USAGE ON SCHEMA "{postgres_place.schema}" TO guest')
        conn.execute(f'GRANT ALL ON ALL TABLES IN SCHEMA "{postgres_place.schema}" TO guest')
    guest = PostgresStore(postgres_place.address.replace("postgres:@", "guest@"), schema=postgres_place.schema)
    guest.write(Append(ANN, "b1", 1, b"x"))
    assert len(guest.load(ANN).entries) == 1
    guest.close()
    with psycopg.connect(postgres_place.address) as conn:
        conn.execute("DROP OWNED BY guest")
        conn.execute("DROP ROLE guest")


def test_a_server_that_restarts_is_found_again(postgres_place):
    store, other = postgres_place.open(), postgres_place.open()
    store.write(Create(ANN, "b1"))
    assert store.load(ANN) is not None
    assert store.try_hold(ANN)
    kill_connections(postgres_place.address)
    store.write(Append(ANN, "b1", 1, b"x"))
    assert len(store.load(ANN).entries) == 1
    # The hold went with its connection: letting go of it is no error, and others may have the session.
    assert other.try_hold(ANN)
    store.release(ANN)
    assert not store.try_hold(ANN)
    other.release(ANN)
    assert store.try_hold(ANN)


def test_a_hold_lost_with_its_connection_can_be_taken_again(postgres_place):
    store = postgres_place.open()
    assert store.try_hold(ANN)
    kill_connections(postgres_place.address)
    assert store.try_hold(FORK)
    assert store.try_hold(ANN)
    store.release(ANN)
    assert postgres_place.open().try_hold(ANN)


def test_release_does_not_raise_when_the_server_is_gone(postgres_place):
    store = postgres_place.open()
    assert store.try_hold(ANN)
    kill_connections(postgres_place.address)
    store._address._dsn = "host=/nowhere"
    store.release(ANN)
    with pytest.raises(SessionError):
        store.try_hold(ANN)


@pytest.mark.parametrize("done", [True, False])
def test_a_commit_that_is_not_answered_is_looked_up_and_not_blindly_repeated(postgres_place, done):
    store = postgres_place.open()
    store.write(Create(ANN, "b1", entries=(b"1",)))
    for write in (
        Intend(ANN, "b1", 2, b"no"),
        Withdraw(ANN, "b1", 2),
        Intend(ANN, "b1", 2, b"pay"),
        Append(ANN, "b1", 2, b"paid", b"change"),
        Create(FORK, "b2", parent="b1", base=2),
        Delete(FORK),
    ):
        cut = Cut(store, done=done)
        store.write(write)
        assert cut.commits == 1
    session = store.load(ANN)
    assert [entry.entry for entry in session.entries] == [b"1", b"paid"]
    assert session.intent is None
    assert store.load(FORK) is None


@pytest.mark.parametrize("done", [True, False])
def test_a_batch_whose_commit_is_not_answered_is_all_there_once(postgres_place, done):
    store = postgres_place.open()
    store.write(Create(ANN, "b1"))
    answers = []
    with store._group._mutex:
        Cut(store, done=done)
        for seq in range(1, 6):
            store.submit(Append(ANN, "b1", seq, b"%d" % seq), answers.append)
    store._group.close()
    assert answers == [None] * 5
    assert [entry.entry for entry in store.load(ANN).entries] == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("done", [True, False])
def test_an_interrupt_during_a_commit_leaves_a_usable_store_and_a_true_receipt(postgres_place, done):
    store = postgres_place.open()
    store.write(Create(ANN, "b1"))
    Cut(store, done=done, error=KeyboardInterrupt)
    receipt = []
    with pytest.raises(KeyboardInterrupt):
        store._writer.apply([Append(ANN, "b1", 1, b"x")], receipt)
    assert bool(receipt) is done
    assert len(store.load(ANN).entries) == done
    store.write(Append(ANN, "b1", 1 + done, b"y"))


@pytest.mark.parametrize("given_again", [True, False])
def test_after_a_crash_the_transaction_of_somebody_else_does_not_pass_for_one_that_was_lost(given_again):
    number, reset = "SELECT pg_current_xact_id()", "SELECT stats_reset FROM pg_stat_bgwriter"
    with running_postgres() as dsn:
        with psycopg.connect(dsn, autocommit=True) as admin:
            # What was not committed stays off the disk until then.
            admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            admin.execute("SELECT pg_reload_conf()")
        store = PostgresStore(dsn)
        store.write(Create(ANN, "b0"))
        conn = store._writer._link.connection()
        execute, given = conn.execute, []

        def goes_on(before):
            with suppress(psycopg.OperationalError), psycopg.connect(dsn) as other:
                if other.execute(reset).fetchone() == before:
                    return False
                if given_again:
                    given.append(other.execute(number).fetchone())
                return True

        def crash(query, *args):
            if query != "COMMIT":
                return execute(query, *args)
            given.append(execute(number).fetchone())
            before = execute(reset).fetchone()
            # The server ends all connections, and goes on from what it has on its disk.
            os.kill(conn.info.backend_pid, signal.SIGKILL)
            until(lambda: goes_on(before))
            conn.close()
            raise psycopg.OperationalError("the connection was lost")

        conn.execute = crash
        if given_again:
            with pytest.raises(SessionError, match="may or may not be there"):
                store.write(Create(FORK, "b1"))
            assert given[0] == given[1]
            assert store.count() == 1
        store.write(Create(FORK, "b1"))
        assert store.count() == 2
        store.close()


def test_a_commit_that_cannot_be_looked_up_is_said_to_be_unknown(postgres_place):
    store = postgres_place.open()
    store.write(Create(ANN, "b1"))
    Cut(store, done=True)
    dsn, store._address._dsn = store._address._dsn, "host=/nowhere"
    with pytest.raises(SessionError, match="may or may not be there"):
        store.write(Append(ANN, "b1", 1, b"x"))
    store._address._dsn = dsn
    assert len(store.load(ANN).entries) == 1


def test_a_new_writer_connection_waits_until_the_old_transaction_is_over(postgres_place):
    store = postgres_place.open()
    store.write(Create(ANN, "b1"))
    old = store._writer._link.connection()
    old.execute("BEGIN")
    old.execute(b"INSERT INTO entries VALUES ('b1', 1, 'stale', '')")
    # The link forgets it without the server being told.
    store._writer._link._conn = None
    store.write(Append(ANN, "b1", 1, b"x"))
    assert [entry.entry for entry in store.load(ANN).entries] == [b"x"]
    with pytest.raises(psycopg.OperationalError):
        old.execute("COMMIT")
    old.close()


def test_a_fork_and_the_deletion_of_its_parent_do_not_race(postgres_place):
    one, two = postgres_place.open(), postgres_place.open()
    for turn in range(20):
        one.write(Create(ANN, f"b{turn}", entries=(b"1", b"2", b"3")))
        barrier, outcome = threading.Barrier(2), []

        def fork(turn=turn, barrier=barrier, outcome=outcome):
            barrier.wait()
            try:
                two.write(Create(FORK, f"f{turn}", parent=f"b{turn}", base=3))
                outcome.append(True)
            except SessionError:
                outcome.append(False)

        thread = threading.Thread(target=fork)
        thread.start()
        barrier.wait()
        one.write(Delete(ANN))
        thread.join()
        forked = one.load(FORK)
        assert (len(forked.entries) == 3) if outcome[0] else (forked is None)
        one.write(Delete(FORK))


def test_the_password_is_never_shown(postgres):
    secret = "hun" + "ter2"
    store = PostgresStore(f"postgresql://joe:{secret}@/x?host=/nowhere", connect_timeout=1)
    assert secret not in repr(store)
    with pytest.raises(SessionError) as caught:
        store.sessions()
    broken = f"postgresql://joe:{secret}@[host/x"
    with pytest.raises(SessionError, match="cannot be read") as unreadable:
        PostgresStore(broken)
    with pytest.raises(SessionError, match="cannot be read") as odd:
        PostgresStore(f"host=/nowhere password '{secret}")
    for error in (caught.value, unreadable.value, odd.value):
        while error is not None:
            assert secret not in str(error) + repr(error)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    store.close()


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:hunter2/se@cret@127.0.0.1:1/x",
        "postgresql://u:p@hunter2secret@127.0.0.1:1/x",
        "postgresql://u:hunter2/x",
        "postgresql://u:a/hunter2:secret",
    ],
)
def test_a_password_that_cuts_the_dsn_up_is_not_shown_in_pieces(dsn):
    with pytest.raises(SessionError, match="percent-encoded") as caught:
        PostgresStore(dsn)
    error = caught.value
    while error is not None:
        assert not any(piece in str(error) + repr(error) for piece in ("hunter2", "cret", "se@"))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://u:hunt%40er%2F2@db.example.com:5432/x", "db.example.com/x"),
        ("postgresql://u@[::1]/x", "::1/x"),
        ("host=a,b port=1,2 dbname=x", "a,b/x"),
        ("dbname=x", "local/x"),
        ("postgresql://u:p@/x?host=/cloudsql/project:region:one", "/cloudsql/project:region:one/x"),
    ],
)
def test_an_address_that_can_be_one_is_shown(dsn, place):
    store = PostgresStore(dsn)
    assert repr(store) == f"PostgresStore({place} schema 'toolyard')"
    store.close()


def test_without_psycopg_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from toolyard.sessions.store.postgres import PostgresStore\n"
        "try: PostgresStore('')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("SessionError") and "pip install 'toolyard[postgres]'" in out


def test_the_time_is_that_of_the_server(postgres_place, monkeypatch):
    store = postgres_place.open()
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real + 86_400)
    # The server is on this machine, whose clock nobody has really set.
    assert abs(store.now() - real) < 3600
    store.close()
