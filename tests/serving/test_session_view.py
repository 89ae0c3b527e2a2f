"""How many sessions one key may have: counted where they are, so that no key takes the room of all."""

import asyncio
import gc
import threading
from contextlib import closing

import pytest

from serving.service_support import CORE, served
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.session_view import SessionQuota, describe_session, list_sessions
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore


@pytest.fixture
def config(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "yard.db")}}


@pytest.fixture
def yard(config):
    with served(config, sessions_per_key=5) as server:
        server.one, server.two = server.key("*:list,execute"), server.key("*:simulate")
        yield server


def begin(yard, token, **body):
    return yard.post("/v1/sessions", body, token=token)


def test_a_key_that_has_its_share_leaves_room_for_others(yard):
    assert [begin(yard, yard.one).status for _ in range(7)] == [201] * 5 + [429] * 2
    refused = begin(yard, yard.one)
    assert refused.error["code"] == "session.quota" and refused.error["retryable"] is False
    assert refused.error["details"]["sessions_per_key"] == 5 and "DELETE" in refused.error["details"]["hint"]
    assert begin(yard, yard.two).status == 201


def test_a_branch_counts_as_a_session(yard):
    assert [begin(yard, yard.one, session_id=f"s{number}").status for number in range(5)] == [201] * 5
    branch = yard.post("/v1/sessions/s0/fork", {}, token=yard.one)
    assert (branch.status, branch.error["code"]) == (429, "session.quota")


def test_ending_one_makes_room_for_another_at_once(yard):
    for number in range(5):
        begin(yard, yard.one, session_id=f"s{number}")
    assert begin(yard, yard.one).status == 429
    assert yard.ask("DELETE", "/v1/sessions/s3", token=yard.one).status == 204
    assert begin(yard, yard.one).status == 201
    assert begin(yard, yard.one).status == 429


def test_a_session_that_could_not_be_created_does_not_count(yard):
    begin(yard, yard.one, session_id="taken")
    assert [begin(yard, yard.one, session_id="taken").status for _ in range(10)] == [409] * 10
    assert [begin(yard, yard.one).status for _ in range(5)] == [201] * 4 + [429]


def test_a_repeated_request_gets_its_answer_however_many_there_are(yard):
    again = {"headers": {"idempotency-key": "k"}, "token": yard.one}
    first = yard.post("/v1/sessions", {}, **again)
    for _ in range(4):
        begin(yard, yard.one)
    assert begin(yard, yard.one).status == 429
    assert yard.post("/v1/sessions", {}, **again).json == first.json
    refused = {"headers": {"idempotency-key": "other"}, "token": yard.one}
    assert yard.post("/v1/sessions", {}, **refused).status == 429
    yard.ask("DELETE", f"/v1/sessions/{first.json['session_id']}", token=yard.one)
    assert yard.post("/v1/sessions", {}, **refused).status == 201, "a refusal is not kept as the answer"


def test_many_at_once_get_no_more_than_one_after_the_other(yard):
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(begin(yard, yard.one).status)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] * 5 + [429] * 15


def test_a_key_that_may_neither_execute_nor_simulate_begins_no_session(yard):
    token = yard.key("*:list,admin")
    assert (begin(yard, token).status, begin(yard, token).error["code"]) == (403, "auth.forbidden")
    branch = yard.post("/v1/sessions/whatever/fork", {}, token=token)
    assert (branch.status, branch.error["code"]) == (403, "auth.forbidden")


def test_without_keys_there_is_no_quota():
    with served(CORE, sessions_per_key=2) as yard:
        assert [yard.post("/v1/sessions", {}).status for _ in range(5)] == [201] * 5


@pytest.fixture(params=["memory", "sqlite"])
def sessions(request, tmp_path):
    if request.param == "memory":
        yield lambda **options: Sessions(**options)
        return
    opened = []

    def make(**options):
        opened.append(SqliteStore(tmp_path / "s.db"))
        return Sessions(opened[-1], **options)

    yield make
    for store in opened:
        store.close()


async def begun(quota, sessions, owner, name):
    async with quota.reserve(owner):
        sessions.open(name, owner=owner)


async def test_what_other_processes_did_is_known_at_once(tmp_path):
    with closing(SqliteStore(tmp_path / "s.db")) as near, closing(SqliteStore(tmp_path / "s.db")) as far:
        here, there = Sessions(near), Sessions(far)
        quota = SessionQuota(here, 3)
        await begun(quota, here, "ann", "one")
        there.open("two", owner="ann")
        there.open("three", owner="ann")
        there.open("not hers", owner="bob")
        with pytest.raises(HttpFault, match="limit of 3 sessions"):
            await begun(quota, here, "ann", "four")
        there.drop("two", "ann")
        await begun(quota, here, "ann", "four")
        here.close()
        there.close()


async def test_sessions_that_expired_do_not_count(sessions):
    now = [1000.0]
    all_of_them = sessions(ttl=60.0, clock=lambda: now[0])
    quota = SessionQuota(all_of_them, 2)
    await begun(quota, all_of_them, "ann", "one")
    await begun(quota, all_of_them, "ann", "two")
    now[0] += 100.0
    await begun(quota, all_of_them, "ann", "three")
    assert all_of_them.count("ann") == 1
    all_of_them.close()


async def test_a_session_being_created_counts_and_locks_of_idle_owners_are_dropped(sessions):
    all_of_them = sessions()
    quota = SessionQuota(all_of_them, 1)

    async def hold():
        async with quota.reserve("ann"):
            await asyncio.sleep(0)
            all_of_them.open("one", owner="ann")

    first, second = await asyncio.gather(hold(), hold(), return_exceptions=True)
    assert (first, type(second)) == (None, HttpFault)
    del first, second
    gc.collect()
    assert not quota._locks
    all_of_them.close()


async def test_every_process_tells_the_same_time_of_use(tmp_path):
    now = [1000.0]
    with closing(SqliteStore(tmp_path / "s.db")) as near, closing(SqliteStore(tmp_path / "s.db")) as far:
        nodes = [Sessions(store, clock=lambda: now[0]) for store in (near, far)]
        here, there = nodes
        here.open("s", owner="ann")
        there.find("s", "ann")
        for node in (here, there, there, here):
            session = node.find("s", "ann")
            now[0] += 1
            await node.aenter(session)
            now[0] += 1
            write = node.addition(session, b"{}", {})
            node.write(write)
            session.commit(write.entry, at=write.at)
            now[0] += 1
            node.leave(session)
            views = [await describe_session(node, "ann", "s") for node in nodes]
            assert views[0] == views[1]
            assert views[0]["used"] == here.date_of(write.used).isoformat(timespec="milliseconds")
            assert [list_sessions(node, "ann")[0][2] for node in nodes] == [write.used] * 2
        here.close()
        there.close()
