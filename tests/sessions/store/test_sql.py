"""Rows of logs go along with what others write, and never stand in its way."""

import sqlite3
import time

import pytest
from waiting import until

from toolyard.model.errors import SessionError
from toolyard.sessions.store.base import Append, Create, Key, LogRow
from toolyard.sessions.store.sqlite import SqliteStore

ANN = Key("ann", "s")


def row(number, tool="t"):
    return LogRow("calls", (int(time.time() * 1e6), number, "", "", tool, "execute", None, None, None, b""))


def numbers(store):
    return [found for (found,) in store.read(lambda run: run("SELECT id FROM calls ORDER BY id", ()).fetchall())]


@pytest.fixture
def commits(sqlite_place):
    """A store, and the statements that end its transactions."""
    store = sqlite_place.open()
    seen = []
    store._writer.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    return store, seen


def test_rows_that_wait_are_in_the_next_transaction_whoevers_it_is(commits):
    store, seen = commits
    store._lazy_rows._thread = store  # nobody comes by in between
    for number in range(3):
        store.add_lazily(row(number))
    assert numbers(store) == []
    store.write(Create(ANN, "b1"))
    assert (numbers(store), len(seen)) == ([0, 1, 2], 1)
    store._lazy_rows._thread = None


def test_rows_that_nobody_takes_along_are_written_soon(place):
    store = place.open()
    for number in range(2_500):
        store.add_lazily(row(number))
    until(lambda: len(numbers(store)) >= 2_500)
    assert numbers(store) == list(range(2_500))


def test_closing_writes_what_is_left(sqlite_place):
    store = sqlite_place.open()
    for number in range(10):
        store.add_lazily(row(number))
    store.close()
    assert numbers(sqlite_place.open()) == list(range(10))


def test_the_row_of_an_entry_that_is_refused_is_not_there_and_others_are(place):
    store = place.open()
    store.write(Create(ANN, "b1"))
    store.add_lazily(row(1))
    with pytest.raises(SessionError):
        store.write(Append(ANN, "b1", 7, b"{}", rows=(row(2),)))
    store.write(Append(ANN, "b1", 1, b"{}", rows=(row(3),)))
    until(lambda: numbers(store) == [1, 3])


def test_a_row_that_the_store_does_not_take_costs_no_write(place):
    store = place.open()
    store.add_lazily(row(1, tool=None))
    store.write(Create(ANN, "b1"))
    store.write(Append(ANN, "b1", 1, b"{}"))
    store.add_lazily(row(2))
    until(lambda: numbers(store) == [2])
    assert len(store.load(ANN).entries) == 1 and store._lazy_rows.lost == 1


def test_rows_wait_while_the_file_is_locked_and_come_when_it_is_not(tmp_path, caplog):
    store = SqliteStore(tmp_path / "s.db", busy_timeout=0.05)
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.add_lazily(row(1))
    until(lambda: "log rows are delayed" in caplog.text)
    assert numbers(store) == []
    other.execute("ROLLBACK")
    other.close()
    until(lambda: numbers(store))
    assert numbers(store) == [1]
    store.close()
