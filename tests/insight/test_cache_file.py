"""A cache that can only be read is read; a damaged one makes way for a new one, and no other is touched."""

import logging
import os
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
from warm_python import warm_toolyard

from toolyard.insight import cache as database_file
from toolyard.insight.cache import FILE, ItemCache, identify_file, set_aside

NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: whether a read-only cache is read; only root can become another user"
)
ITEMS = [(b"%d" % n, b"v%d" % n * 300) for n in range(200)]


def filled(folder):
    cache = ItemCache(folder)
    cache.put_many("k", ITEMS)
    return cache


def as_nobody(folder, work):
    """Whether `work` is true for a user who may read the folder and write nothing; what it logs is in stderr."""
    for path in folder.iterdir():
        path.chmod(0o444)
    for one in (folder, *folder.parents):
        if one.stat().st_uid == 0 and len(one.parts) > 2:
            one.chmod(one.stat().st_mode | 0o055)
    pid = os.fork()
    if pid == 0:
        done = False
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            done = work()
        finally:
            os._exit(0 if done else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.process
@needs_root
def test_what_is_in_a_cache_that_can_only_be_read_is_found_and_leaves_nothing_beside_it(tmp_path):
    cache = filled(tmp_path / "kept")
    assert as_nobody(cache.path.parent, lambda: cache.get_many("k", [key for key, _ in ITEMS]) == dict(ITEMS))
    assert [path.name for path in cache.path.parent.iterdir()] == [FILE]


@pytest.mark.process
@needs_root
def test_what_a_read_only_cache_lacks_is_computed_and_said_once(tmp_path, caplog):
    cache = filled(tmp_path / "kept")

    def work():
        asked = []

        def compute(places):
            asked.extend(places)
            return [b"new" for _ in places]

        for _ in range(2):
            assert cache.fill("k", [b"0", b"more", b"1", b"yet more"], compute, chunk=1)[1] == b"new"
        said = [record.message for record in caplog.records]
        return asked == [1, 3, 1, 3] and len(said) == 1 and "can only be read, so what it lacks" in said[0]

    with caplog.at_level(logging.WARNING):
        assert as_nobody(cache.path.parent, work)


@pytest.mark.process
@needs_root
def test_what_is_only_in_the_log_of_a_read_only_cache_is_found_if_sqlite_can_tell(tmp_path):
    cache = filled(tmp_path / "kept")
    with closing(sqlite3.connect(cache.path)) as others:
        others.execute("SELECT count(*) FROM items")
        cache.put_many("k", [(b"late", b"x")])
        assert os.path.getsize(f"{cache.path}-wal")
        assert as_nobody(cache.path.parent, lambda: cache.get_many("k", [b"late"]) == {b"late": b"x"})


@pytest.mark.process
@needs_root
def test_a_file_without_its_log_is_not_taken_for_all_there_is(tmp_path, caplog):
    cache, copy = filled(tmp_path / "kept"), tmp_path / "copy"
    copy.mkdir()
    with closing(sqlite3.connect(cache.path)) as others:
        others.execute("SELECT count(*) FROM items")
        cache.put_many("k", [(b"late", b"x")])
        for ending in ("", "-wal"):
            shutil.copy(f"{cache.path}{ending}", copy)

    def work():
        return ItemCache(copy).get_many("k", [b"0", b"late"]) == {} and "cannot be used" in caplog.text

    with caplog.at_level(logging.WARNING):
        assert as_nobody(copy, work)


@pytest.mark.process
@needs_root
def test_a_read_only_file_that_is_changed_while_it_is_read_is_not_believed(tmp_path, monkeypatch):
    cache = filled(tmp_path / "kept")
    states = iter([(1, 1, 1), (1, 1, 2)])
    monkeypatch.setattr(database_file, "_at_rest", lambda path: next(states))
    assert as_nobody(cache.path.parent, lambda: cache.get_many("k", [b"0"]) == {})


@pytest.mark.process
@needs_root
def test_another_programs_file_is_not_read_where_nothing_can_be_written(tmp_path, caplog):
    (tmp_path / "kept").mkdir()
    with closing(sqlite3.connect(tmp_path / "kept" / FILE)) as db:
        db.execute("CREATE TABLE items (kind, key, value)")
        db.execute("INSERT INTO items VALUES ('k', x'30', x'31')")
        db.commit()
    cache = ItemCache(tmp_path / "kept")
    with caplog.at_level(logging.WARNING):
        assert as_nobody(
            tmp_path / "kept", lambda: cache.get_many("k", [b"0"]) == {} and "another program" in caplog.text
        )


def _garbage(path):
    path.write_bytes(b"no database" * 1000)


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
def test_a_damaged_file_is_set_aside_and_a_new_one_is_begun(tmp_path, caplog, spoil):
    cache = filled(tmp_path)
    spoil(cache.path)
    damaged = cache.path.read_bytes()
    with caplog.at_level(logging.WARNING):
        assert cache.fill("k", [b"0", b"1"], lambda places: [b"y" for _ in places]) == [b"y", b"y"]
        assert cache.fill("k", [b"0", b"1"], lambda places: pytest.fail("computed again")) == [b"y", b"y"]
    assert [record.message for record in caplog.records if "a new one is begun" not in record.message] == []
    assert len(caplog.records) == 1
    (aside,) = tmp_path.glob(f"{FILE}.broken-*[0-9a-f]")
    assert aside.read_bytes() == damaged


def test_damage_that_is_met_first_when_something_is_kept_makes_way_as_well(tmp_path):
    cache = filled(tmp_path)
    _garbage(cache.path)
    cache.put_many("k", [(b"new", b"x")])
    assert cache.get_many("k", [b"new", b"0"]) == {b"new": b"x"}


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
    assert len(list(tmp_path.glob(f"{FILE}.broken-*-wal"))) == 1


def test_a_new_file_is_not_set_aside_for_an_old_one(tmp_path):
    cache = filled(tmp_path)
    seen = identify_file(cache.path)
    assert set_aside(cache.path, seen) is not None
    cache.put_many("k", [(b"0", b"new")])
    assert set_aside(cache.path, seen) is None
    assert cache.get_many("k", [b"0"]) == {b"0": b"new"}


_WRITER = """
import sys
from toolyard.insight.cache import ItemCache
cache = ItemCache(sys.argv[1])
for n in range(20):
    cache.fill("k", [b"%s-%d" % (sys.argv[2].encode(), n)], lambda places: [b"x" * 500])
"""


@pytest.mark.process
@pytest.mark.parametrize("spoil", [_garbage, _cut_off])
def test_processes_that_meet_a_damaged_file_at_once_set_it_aside_once_and_lose_nothing(tmp_path, spoil):
    spoil(filled(tmp_path).path)
    running = [warm_toolyard().start(["-c", _WRITER, tmp_path, n]) for n in range(6)]
    assert [one.wait(120) for one in running] == [0] * 6
    keys = [b"%d-%d" % (writer, n) for writer in range(6) for n in range(20)]
    assert len(ItemCache(tmp_path).get_many("k", keys)) == 120
    assert len(list(tmp_path.glob(f"{FILE}.broken-*[0-9a-f]"))) == 1


def test_threads_that_meet_a_damaged_file_at_once_lose_nothing(tmp_path):
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
    assert len(cache.get_many("k", [b"%d-%d" % (name, n) for name in range(8) for n in range(10)])) == 80
    assert len(list(tmp_path.glob(f"{FILE}.broken-*[0-9a-f]"))) == 1
