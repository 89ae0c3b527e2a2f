"""A damaged cache makes way for a new one."""

import logging
import os
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
from warm_python import warm_toolyard

from toolyard.insight.cache import FILE, ItemCache

ITEMS = [(b"%d" % n, b"v%d" % n * 300) for n in range(200)]


def filled(folder):
    cache = ItemCache(folder)
    cache.put_many("k", ITEMS)
    return cache


def _garbage(path):
    """Nothing is left but the head, which says whose it is."""
    path.write_bytes(path.read_bytes()[:100] + b"no database" * 1000)


def _zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def _cut_off(path):
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def _cut_to_a_few_bytes(path):
    os.truncate(path, 50)


def _pages_overwritten(path):
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


@pytest.mark.parametrize("spoil", [_garbage, _zeros, _cut_off, _cut_to_a_few_bytes, _pages_overwritten])
def test_a_damaged_file_is_deleted_and_a_new_one_is_begun(tmp_path, caplog, spoil):
    cache = filled(tmp_path)
    spoil(cache.path)
    with caplog.at_level(logging.WARNING):
        assert cache.fill("k", [b"0", b"1"], lambda places: [b"y" for _ in places]) == [b"y", b"y"]
        assert cache.fill("k", [b"0", b"1"], lambda places: pytest.fail("computed again")) == [b"y", b"y"]
    assert [record.message for record in caplog.records if "a new one is begun" not in record.message] == []
    assert len(caplog.records) == 1


def test_damage_that_is_met_first_when_something_is_kept_makes_way_as_well(tmp_path):
    cache = filled(tmp_path)
    _garbage(cache.path)
    cache.put_many("k", [(b"new", b"x")])
    assert cache.get_many("k", [b"new", b"0"]) == {b"new": b"x"}


def _somebodys_text(path):
    path.write_text("What I know of enrichments.\n" * 500)


def _somebodys_note(path):
    path.write_text("What I know.\n")


def _somebodys_damaged_database(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA application_id = 1234")
        db.execute("CREATE TABLE theirs (value)")
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8)


@pytest.mark.parametrize("make", [_somebodys_text, _somebodys_note, _somebodys_damaged_database])
def test_a_file_that_may_be_somebody_elses_stays_and_everything_is_computed(tmp_path, caplog, make):
    path = tmp_path / FILE
    make(path)
    before = path.read_bytes()
    cache = ItemCache(tmp_path)
    for _ in range(2):
        assert cache.fill("k", [b"0"], lambda places: [b"y"]) == [b"y"]
    assert path.read_bytes() == before
    assert all("cannot be used, so everything is computed" in record.message for record in caplog.records)
    assert caplog.records


def test_the_log_of_a_damaged_file_goes_with_it(tmp_path):
    cache = filled(tmp_path)
    old = tmp_path / "old"
    old.mkdir()
    with closing(sqlite3.connect(cache.path)) as others:
        others.execute("SELECT count(*) FROM items")
        cache.put_many("k", [(b"late", b"x")])
        shutil.copy(f"{cache.path}-wal", old)
    _garbage(cache.path)
    shutil.copy(old / f"{FILE}-wal", tmp_path)
    assert cache.get_many("k", [b"late"]) == {}
    cache.put_many("k", [(b"new", b"y")])
    assert cache.get_many("k", [b"late", b"new"]) == {b"new": b"y"}


def test_a_new_file_that_another_process_has_put_in_place_of_a_damaged_one_stays(tmp_path):
    cache = filled(tmp_path)
    damage = sqlite3.DatabaseError("damaged")
    damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    met = []

    def work(db):
        if not met:
            met.append(cache.path.unlink())
            ItemCache(tmp_path).put_many("k", [(b"theirs", b"x")])
            raise damage

    assert cache._use_file(cache.path, work)
    assert cache.get_many("k", [b"theirs"]) == {b"theirs": b"x"}


_WRITER = """
import sys
from toolyard.insight.cache import ItemCache
cache = ItemCache(sys.argv[1])
for n in range(20):
    cache.fill("k", [b"%s-%d" % (sys.argv[2].encode(), n)], lambda places: [b"x" * 500])
"""


@pytest.mark.process
@pytest.mark.parametrize("spoil", [_garbage, _cut_off])
def test_processes_that_meet_a_damaged_file_at_once_all_end_and_leave_a_whole_one(tmp_path, spoil):
    spoil(filled(tmp_path).path)
    running = [warm_toolyard().start(["-c", _WRITER, tmp_path, n]) for n in range(6)]
    assert [one.wait(120) for one in running] == [0] * 6
    last = [b"%d-19" % writer for writer in range(6)]
    assert ItemCache(tmp_path).fill("k", last, lambda places: [b"x" * 500 for _ in places]) == [b"x" * 500] * 6
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_threads_that_meet_a_damaged_file_at_once_leave_a_whole_one(tmp_path):
    cache = filled(tmp_path)
    _cut_off(cache.path)
    gate = threading.Barrier(8)

    def work(name):
        gate.wait()
        for n in range(10):
            cache.put_many("k", [(b"%d-%d" % (name, n), b"x")])

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [b"%d-9" % name for name in range(8)]
    assert cache.fill("k", keys, lambda places: [b"x" for _ in places]) == [b"x"] * 8
    assert cache.get_many("k", keys) == dict.fromkeys(keys, b"x")
