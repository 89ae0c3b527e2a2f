"""API keys: made, found, revoked everywhere, expired by the clock, and refused when their store is silent."""

import logging
import sqlite3
import threading
import time

import msgspec
import pytest
from hypothesis import given, strategies as st
from sessions import conftest as places
from sessions.store.test_postgres import kill_connections
from waiting import Clock

from toolyard.model.errors import ConfigError, SessionError
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import ALL, NOBODY, KeyLimits, Scopes, read_scopes
from toolyard.serving.keys import SIGN_IN_SECONDS, KeyRing, SignIns
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


place, postgres_place, sqlite_place = places.place, places.postgres_place, places.sqlite_place

HR = read_scopes(["hr:list,execute"])


def refused(ring, token):
    with pytest.raises(HttpFault) as caught:
        ring.find(token)
    return caught.value


@pytest.fixture
def ring():
    return KeyRing(open_records(None))


def test_a_token_is_its_keys_principal(ring):
    key, token = ring.create("reports", HR, limits=KeyLimits(rate=5.0))
    principal = ring.find(token)
    assert (principal.key_id, principal.owner, principal.name) == (key.id, key.id, "reports")
    assert principal.scopes.allows("execute", "hr") and not principal.scopes.allows("admin", "hr")
    assert principal.limits == KeyLimits(rate=5.0)
    assert token == f"ty_{key.id}_{token[16:]}" and len(token) == 59 and key.id.isalnum()


def test_the_secret_of_a_key_is_not_stored(ring):
    key, token = ring.create("reports", HR)
    secret = token[16:]
    [record] = ring._records.all("key")
    assert secret.encode() not in record.value
    assert secret not in repr(key) and secret not in repr(ring.list()) and "digest" not in repr(key)


def test_no_two_keys_are_equal(ring):
    made = [ring.create("same", HR) for _ in range(20)]
    assert len({token for _, token in made}) == len({key.id for key, _ in made}) == 20
    assert [key.id for key in ring.list()] and ring.count_usable() == 20


@given(at=st.integers(0, 58), changed=st.text(max_size=2))
def test_a_changed_or_shortened_token_is_refused(at, changed):
    # What is drawn comes first: the first text takes seconds to draw, in which a ring would grow stale.
    ring = KeyRing(open_records(None))
    _, token = ring.create("x", ALL)
    other = token[:at] + changed + token[at + 1 :]
    if other != token:
        assert refused(ring, other).code == "auth.invalid"
    assert ring.find(token).name == "x"


@given(st.text(max_size=80))
def test_any_text_that_is_no_key_is_refused(text):
    ring = KeyRing(open_records(None))
    ring.create("x", ALL)
    fault = refused(ring, text)
    assert (fault.status, fault.code) == (401, "auth.invalid")


def test_a_request_without_a_key_is_told_how_to_send_one(ring):
    ring.load()
    fault = refused(ring, None)
    assert (fault.status, fault.code) == (401, "auth.missing")
    assert dict(fault.headers)[b"www-authenticate"].startswith(b"Bearer")


def test_a_key_expires_by_the_clock():
    clock = Clock(1_000_000.0)
    ring = KeyRing(open_records(None), clock=clock)
    key, token = ring.create("x", HR, expires=clock.now + 10)
    assert ring.find(token)
    assert (key.state(clock.now), ring.count_usable()) == ("usable", 1)
    clock.now += 10
    assert "expired" in refused(ring, token).message
    assert (key.state(clock.now), ring.count_usable()) == ("expired", 0)


def test_a_revoked_key_is_refused_at_once_and_stays_listed(ring):
    key, token = ring.create("x", HR)
    _, other = ring.create("y", HR)
    assert ring.revoke(key.id).revoked is not None
    assert "revoked" in refused(ring, token).message
    assert ring.find(other).name == "y"
    first = ring.list()[0]
    assert first.state(time.time()) == "revoked"
    assert ring.revoke(key.id) == first, "revoked once"
    assert ring.revoke("nobody") is None


def test_keys_are_required_from_the_first_one_on_even_if_none_is_left(ring):
    ring.load()
    assert not ring.required
    key, _ = ring.create("x", HR)
    assert ring.required
    ring.revoke(key.id)
    assert (ring.required, ring.count_usable()) == (True, 0)
    ring._records.remove("key", "", key.id)
    ring.load()
    assert ring.required
    unreadable = open_records(None)
    unreadable.put("key", "", "x", b"garbage")
    other = KeyRing(unreadable)
    other.load()
    assert other.required


async def test_other_processes_learn_of_new_and_revoked_keys(place):
    here, there = (KeyRing(open_records(place.open())) for _ in range(2))
    there.load()
    key, token = here.create("x", HR)
    assert refused(there, token).code == "auth.invalid"
    await there.poll()
    assert there.find(token).name == "x"
    here.revoke(key.id)
    await there.poll()
    assert "revoked" in refused(there, token).message


def test_text_that_resembles_a_key_is_refused(ring):
    _, token = ring.create("x", HR)
    near = ("", "ty_", token + "x", token[:-1], "Ty_" + token[3:], token[:15] + "-" + token[16:])
    for text in (*near, token[:-1] + "?", "ty_" + "a" * 12 + token[15:]):
        assert refused(ring, text).code == "auth.invalid"


async def test_when_the_store_is_silent_nobody_is_let_in(sqlite_place):
    store, monotonic = sqlite_place.open(), Clock(1_000_000.0)
    ring = KeyRing(open_records(store), monotonic=monotonic)
    _, token = ring.create("x", HR)
    store.close()
    for _ in range(5):
        monotonic.now += 1
        with pytest.raises(SessionError):
            await ring.poll()
        assert ring.find(token), "a short silence is borne"
    monotonic.now += 0.1
    fault = refused(ring, token)
    assert (fault.status, fault.code, fault.retryable) == (503, "auth.unavailable", True)


def test_before_the_keys_were_read_nobody_is_let_in(ring):
    _, token = ring.create("x", HR)
    assert refused(KeyRing(ring._records), token).status == 503


async def test_a_lost_connection_to_the_store_is_not_felt(postgres_place):
    ring = KeyRing(open_records(postgres_place.open()))
    _, token = ring.create("x", HR)
    kill_connections(postgres_place.address)
    before = ring._loaded_at
    await ring.poll()
    assert ring._loaded_at > before
    assert ring.find(token)


def test_a_key_that_cannot_be_read_locks_out_itself_alone(ring, caplog):
    key, token = ring.create("x", HR)
    bad = msgspec.structs.replace(key, id="abcdefghijkl", scopes=("hr:fly",))
    ring._records.put("key", "", "abcdefghijkl", msgspec.msgpack.encode(bad))
    ring._records.put("key", "", "garbage", b"\xc1")
    with caplog.at_level(logging.WARNING):
        ring.load()
    assert ring.find(token).name == "x"
    assert "abcdefghijkl" in caplog.text and "garbage" in caplog.text
    assert refused(ring, "ty_abcdefghijkl" + token[15:]).code == "auth.invalid"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"scopes": Scopes()}, "without scopes"),
        ({"expires": 1.0}, "future"),
        ({"expires": float("nan")}, "future"),
        ({"limits": KeyLimits(rate=0.0)}, "rate"),
        ({"limits": KeyLimits(rate=float("inf"))}, "rate"),
        ({"limits": KeyLimits(burst=0.5)}, "burst"),
        ({"limits": KeyLimits(concurrency=0)}, "concurrency"),
    ],
)
def test_a_key_with_invalid_fields_is_not_created(ring, options, reason):
    with pytest.raises(ConfigError, match=reason):
        ring.create(**{"name": "x", "scopes": HR, **options})
    assert ring.list() == []
