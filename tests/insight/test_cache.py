"""What is kept of one item, by everything that matters for it: in one file, for any number of processes."""

import logging
import os
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing

import pytest
from hypothesis import given, strategies as st
from warm_python import warm_toolyard

from toolyard.insight.cache import FILE, ItemCache, cache_folder, item_key
from toolyard.model.errors import ConfigError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_keys_are_equal_for_equal_parts_and_for_no_others(one, other):
    same = _plain(one) == _plain(other)
    assert (item_key("k", 1, one) == item_key("k", 1, other)) == same
    assert item_key("k", 1, one) != item_key("k", 2, one) != item_key("l", 2, one)


def _plain(value):
    """Python takes True for 1; JSON does not."""
    if isinstance(value, dict):
        return ("object", tuple(sorted((key, _plain(item)) for key, item in value.items())))
    if isinstance(value, list):
        return ("array", tuple(map(_plain, value)))
    return (type(value).__name__, repr(value))


def test_keys_separate_parts_and_ignore_the_order_of_mapping_keys():
    assert item_key("k", 1, "ab", "c") != item_key("k", 1, "a", "bc")
    assert item_key("k", 1, {"a": 1, "b": 2}) == item_key("k", 1, {"b": 2, "a": 1})
    assert item_key("k", 1, "\ud800") != item_key("k", 1, "\ud801")


def test_stored_values_are_read_by_kind_and_key(tmp_path):
    cache = ItemCache(tmp_path)
    cache.put_many("a", [(b"1", b"one"), (b"2", b"two")])
    cache.put_many("b", [(b"1", b"other")])
    cache.put_many("a", [(b"2", b"new")])
    assert cache.get_many("a", [b"1", b"2", b"3", b"1"]) == {b"1": b"one", b"2": b"new"}
    assert ItemCache(str(tmp_path)).get_many("b", [b"1"]) == {b"1": b"other"}


def test_many_keys_are_read_at_once(tmp_path):
    cache = ItemCache(tmp_path)
    items = [(b"%d" % n, b"v%d" % n) for n in range(1203)]
    cache.put_many("a", items)
    assert cache.get_many("a", [key for key, _ in items]) == dict(items)


def test_fill_computes_missing_values_once_and_commits_each_chunk(tmp_path):
    asked = []

    def compute(places):
        asked.append(places)
        return [b"v%d" % place for place in places]

    keys = [b"a", b"b", b"a", b"c", b"d"]
    cache = ItemCache(tmp_path)
    assert cache.fill("k", keys, compute, chunk=2) == [b"v0", b"v1", b"v0", b"v3", b"v4"]
    assert asked == [[0, 1], [3, 4]]
    assert cache.fill("k", [b"e", *keys], compute, chunk=2) == [b"v0", b"v0", b"v1", b"v0", b"v3", b"v4"]
    assert asked[2:] == [[0]]
    assert cache.fill("k", [b"d"], lambda places: [b"forced"], force=True) == [b"forced"]
    assert cache.fill("k", [b"d"], compute) == [b"forced"]


def test_chunks_that_were_finished_stay_when_a_later_one_fails(tmp_path):
    def compute(places):
        if 2 in places:
            raise RuntimeError("no")
        return [b"x" for _ in places]

    cache = ItemCache(tmp_path)
    with pytest.raises(RuntimeError):
        cache.fill("k", [b"0", b"1", b"2"], compute, chunk=1)
    assert cache.get_many("k", [b"0", b"1", b"2"]) == {b"0": b"x", b"1": b"x"}


def test_without_a_folder_everything_is_computed(tmp_path):
    cache = ItemCache(False)
    cache.put_many("k", [(b"0", b"x")])
    assert cache.path is None
    assert cache.get_many("k", [b"0"]) == {}
    assert cache.fill("k", [b"0"], lambda places: [b"y"]) == [b"y"]


def test_the_folder_is_the_option_else_the_variable_else_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    assert cache_folder("~/x").is_absolute()
    assert cache_folder(False) is None
    assert cache_folder() == cache_folder(True) == tmp_path / "own"
    monkeypatch.delenv("TOOLYARD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "toolyard"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "toolyard"
    with pytest.raises(ConfigError, match="a folder or false"):
        cache_folder(5)


def test_the_file_is_the_users_own(tmp_path):
    ItemCache(tmp_path).put_many("k", [(b"0", b"x")])
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def _others(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()


def _newer(path):
    ItemCache(path.parent).put_many("k", [(b"9", b"x")])
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


def _folder(path):
    path.mkdir()


@pytest.mark.parametrize("spoil", [_others, _newer, _folder])
def test_an_unusable_file_is_reported_once_and_left_alone(tmp_path, caplog, spoil):
    spoil(tmp_path / FILE)
    before = (tmp_path / FILE).read_bytes() if (tmp_path / FILE).is_file() else None
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert ItemCache(tmp_path).fill("k", [b"0"], lambda places: [b"y"]) == [b"y"]
    assert caplog.text.count("cannot be used, so everything is computed") == 1
    if before is not None:
        assert (tmp_path / FILE).read_bytes() == before


def test_a_folder_that_cannot_be_created_is_reported(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        assert ItemCache(tmp_path / "file" / "below").fill("k", [b"0"], lambda places: [b"y"]) == [b"y"]
    assert "cannot be used" in caplog.text


def test_threads_share_one_cache(tmp_path):
    cache = ItemCache(tmp_path)
    wrong = []

    def work(name):
        for n in range(20):
            cache.put_many("k", [(b"%d" % n, b"v%d" % n)])
            if cache.get_many("k", [b"%d" % n]) != {b"%d" % n: b"v%d" % n}:
                wrong.append((name, n))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


_WRITER = """
import sys
from toolyard.insight.cache import ItemCache
cache = ItemCache(sys.argv[1])
for n in range(30):
    cache.put_many("k", [(b"%s-%d" % (sys.argv[2].encode(), n), b"x" * 500)])
"""


@pytest.mark.process
def test_processes_that_begin_on_a_new_file_at_once_lose_nothing(tmp_path):
    running = [warm_toolyard().start(["-c", _WRITER, tmp_path, n]) for n in range(4)]
    assert [one.wait(120) for one in running] == [0] * 4
    keys = [b"%d-%d" % (writer, n) for writer in range(4) for n in range(30)]
    assert len(ItemCache(tmp_path).get_many("k", keys)) == 120


_KILLED = """
import sys, time
from toolyard.insight.cache import ItemCache

def compute(places):
    if places[0] >= 40:
        print("computing", flush=True)
        time.sleep(600)
    return [b"v%d" % place for place in places]

ItemCache(sys.argv[1]).fill("k", [b"%d" % n for n in range(100)], compute, chunk=4)
"""


@pytest.mark.process
def test_a_process_that_is_killed_loses_nothing_that_was_finished(tmp_path):
    with warm_toolyard().start(["-c", _KILLED, tmp_path], stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"computing\n"
        os.kill(running.pid, signal.SIGKILL)
    asked = []

    def compute(places):
        asked.extend(places)
        return [b"v%d" % place for place in places]

    values = ItemCache(tmp_path).fill("k", [b"%d" % n for n in range(100)], compute)
    assert asked == list(range(40, 100))
    assert values == [b"v%d" % n for n in range(100)]


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
def test_a_damaged_file_is_reported_and_everything_is_computed(tmp_path, caplog, spoil):
    cache = filled(tmp_path)
    spoil(cache.path)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert cache.fill("k", [b"0", b"1"], lambda places: [b"y" for _ in places]) == [b"y", b"y"]
    assert any("if it is damaged, delete it" in record.message for record in caplog.records)
    cache.path.unlink()
    assert cache.fill("k", [b"0"], lambda places: [b"z"]) == [b"z"]
    assert cache.fill("k", [b"0"], lambda places: pytest.fail("computed again")) == [b"z"]


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
def test_a_foreign_file_is_left_alone_and_everything_is_computed(tmp_path, caplog, make):
    path = tmp_path / FILE
    make(path)
    before = path.read_bytes()
    cache = ItemCache(tmp_path)
    for _ in range(2):
        assert cache.fill("k", [b"0"], lambda places: [b"y"]) == [b"y"]
    assert path.read_bytes() == before
    assert all("cannot be used, so everything is computed" in record.message for record in caplog.records)
    assert caplog.records
