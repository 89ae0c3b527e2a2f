"""A cache that cannot be used stops nobody."""

import logging
import os
import sqlite3
from contextlib import closing

import pytest

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
