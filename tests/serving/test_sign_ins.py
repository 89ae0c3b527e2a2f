"""Notes of who signed in: what one secret signed, and for how long."""

import sqlite3
import threading

import pytest
from hypothesis import given, strategies as st

from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import NOBODY
from toolyard.serving.keys import SIGN_IN_SECONDS, KeyRing
from toolyard.serving.scopes import read_scopes
from toolyard.serving.sign_ins import SignIns
from toolyard.sessions.records import MemoryRecords, open_records
from toolyard.sessions.store.sqlite import SqliteStore


def test_processes_that_start_at_once_agree_on_one_secret(tmp_path):
    stores = [SqliteStore(tmp_path / "yard.db") for _ in range(4)]
    made, begin = [], threading.Barrier(4)

    def make(store):
        records = open_records(store)
        begin.wait()
        made.append(SignIns.load(records))
        records.close()

    threads = [threading.Thread(target=make, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert len({notes.sign("abc", 1) for notes in made}) == 1
    with sqlite3.connect(tmp_path / "yard.db") as tables:
        assert tables.execute("SELECT length(value) FROM records WHERE kind = 'secret'").fetchall() == [(32,)]
    tables.close()


class Ring:
    """A ring whose clock is moved by hand."""

    def __init__(self):
        self.now = 1000.5
        self.keys = KeyRing(MemoryRecords(), clock=lambda: self.now, monotonic=lambda: 0.0)

    def signed(self, **options):
        key, token = self.keys.create("someone", read_scopes(["*:*"]), **options)
        return key, self.keys.sign_in(self.keys.find(token))


def test_a_sign_in_lasts_twelve_hours():
    ring = Ring()
    key, note = ring.signed()
    ring.now = 1000 + SIGN_IN_SECONDS - 0.1
    assert ring.keys.find_by_sign_in(note).key_id == key.id
    ring.now = 1000 + SIGN_IN_SECONDS
    with pytest.raises(HttpFault, match="ended") as refused:
        ring.keys.find_by_sign_in(note)
    assert (refused.value.status, refused.value.code) == (401, "auth.invalid")


def test_a_sign_in_does_not_outlast_its_key():
    ring = Ring()
    _, note = ring.signed(expires=2000.0)
    assert ring.keys.find_by_sign_in(note)
    ring.now = 2000.0
    with pytest.raises(HttpFault, match="expired"):
        ring.keys.find_by_sign_in(note)


def test_no_key_is_accepted_while_the_store_does_not_answer():
    seen = [0.0]
    keys = KeyRing(MemoryRecords(), monotonic=lambda: seen[0])
    _, token = keys.create("someone", read_scopes(["*:*"]))
    note = keys.sign_in(keys.find(token))
    seen[0] = 60.0
    with pytest.raises(HttpFault) as refused:
        keys.find_by_sign_in(note)
    assert refused.value.status == 503


def test_without_a_key_or_a_note_there_is_no_sign_in():
    ring = Ring()
    with pytest.raises(HttpFault) as refused:
        ring.keys.find_by_sign_in(None)
    assert refused.value.code == "auth.missing"
    with pytest.raises(ValueError, match="key"):
        ring.keys.sign_in(NOBODY)


@given(st.text(max_size=100) | st.from_regex(r"[A-Za-z0-9]{12}\.[0-9]{1,12}\.[A-Za-z0-9_-]{43}", fullmatch=True))
def test_no_text_that_was_not_signed_is_a_note(text):
    assert SignIns(bytes(32)).read(text) is None


@given(st.from_regex(r"[A-Za-z0-9]{12}", fullmatch=True), st.integers(0, 10**12))
def test_a_note_says_what_was_signed_to_the_same_secret_only(key_id, expires):
    note = SignIns(bytes(32)).sign(key_id, expires)
    assert SignIns(bytes(32)).read(note) == (key_id, expires)
    assert SignIns(b"x" * 32).read(note) is None
