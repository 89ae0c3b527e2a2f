"""Events over HTTP: told to who may know, in order, once, and from where the reader stopped."""

import asyncio
import http.client
import json
import tempfile
import threading
import time
from pathlib import Path

import msgspec
import pytest
from engines.mcp.support import raw
from hypothesis import given, settings, strategies as st
from sessions.conftest import postgres_place  # noqa: F401 - fixtures
from starlette.requests import Request
from waiting import SOON, until

from conftest import SOAK, chosen_way, examples, ways_to_try
from serving.routes.test_approvals import bank, decide, held_id, invoke
from serving.service_support import CORE, served
from toolyard import ToolRegistry
from toolyard.app.toolyard import Toolyard
from toolyard.calls import journal, sql_journal
from toolyard.calls.journal import CallLogOptions
from toolyard.engines.python import PythonToolEngine
from toolyard.serving.identity import CALLER, Caller, Principal, read_scopes
from toolyard.serving.routes import events
from toolyard.serving.routes.events import EventFeed, EventRoutes
from toolyard.serving.streams import Subscribers
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.base import AddRows, AffectedRows, TrimLog
from toolyard.sessions.store.sqlite import SqliteStore

ANN = Principal("ann", "ann", read_scopes(["*:execute"]))
ADMIN = Principal("root", "root", read_scopes(["*:*"]))


class Reader:
    """A client that remembers nothing but the last id it was given."""

    def __init__(self, feed, principal):
        self.feed, self.principal = feed, principal
        self.last = None
        self.place = feed.newest
        self.read = []

    def look(self):
        if self.place is None or not self.feed.is_available(self.place):
            self.place = self.feed.newest
            self.read.append("missed")
            self.last = self.feed.write_id(self.place)
        chunk, self.place = self.feed.read_chunk(self.principal, self.place)
        for block in chunk.decode().split("\n\n")[:-1]:
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            self.last = lines["id"]
            self.read.append(msgspec.json.decode(lines["data"])["number"])

    def come_back(self):
        self.place = self.feed.find_place(self.last)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["ann", "bob", ""]), st.integers(1, 4)),
        st.tuples(st.sampled_from(["fill", "look", "drop", "come back", "others leave"])),
    ),
    max_size=40,
)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(deadline=None, max_examples=examples(80))
@given(steps=STEPS, principal=st.sampled_from([ANN, ADMIN]))
def test_a_reader_that_reconnects_gets_every_event_or_is_told_that_some_are_missing(kind, steps, principal):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module in (journal, sql_journal, events):
            patch.setattr(module, "KEPT_EVENTS", 6)
        patch.setattr(events, "_CHUNK_EVENTS", 3)
        store = SqliteStore(Path(folder) / "s.db") if kind == "sqlite" else None
        engine = PythonToolEngine(ToolRegistry(), sessions=Sessions(store))
        engine.keep_journal(CallLogOptions())
        feed = EventFeed(Toolyard(engine.tool_registry, engine))
        asyncio.run(feed.join())
        reader, put = Reader(feed, principal), []

        def fill():
            if store is not None:
                store.write(flush_rows())
            while (found := feed.journal.read_events(feed.newest))[0]:
                feed._append(*found)

        gone = False
        for step in steps:
            if step[0] == "put":
                for _ in range(step[2]):
                    feed.journal.add_event("call.ended", step[1], "n", {"number": len(put)})
                    put.append(step[1])
            elif step[0] == "fill":
                fill()
            elif step[0] == "others leave":
                # The last reader leaves, and another begins: the list is made anew.
                feed.leave()
                asyncio.run(feed.join())
            elif step[0] == "look" and not gone:
                reader.look()
            elif step[0] == "drop" and reader.last is not None:
                gone = True
            elif step[0] == "come back" and gone:
                gone = False
                reader.come_back()
        fill()
        if gone:
            reader.come_back()
        for _ in range(len(put) + 2):
            reader.look()
        mine = [number for number, owner in enumerate(put) if principal is ADMIN or owner == "ann"]
        numbers = [each for each in reader.read if each != "missed"]
        assert numbers == sorted(set(numbers)) and set(numbers) <= set(mine)
        if "missed" not in reader.read:
            assert numbers == mine
        engine.close()


@pytest.mark.parametrize("happens", ["an event", "the end"])
async def test_a_stream_does_not_wait_if_something_happened_while_it_was_sending(monkeypatch, happens):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 100 * SOON)
    engine = PythonToolEngine(ToolRegistry())
    engine.keep_journal(CallLogOptions())
    feed, over, sent = EventFeed(Toolyard(engine.tool_registry, engine)), [False], []
    await feed.join()
    request = Request({"type": "http", CALLER: Caller(ADMIN)})

    async def send(message):
        sent.append(message["body"])
        over[0] = happens == "the end" or len(sent) == 2
        if len(sent) == 1:
            feed.journal.add_event("call.ended", "", "n", {"number": 1})
            await feed._fill_list()

    async with asyncio.timeout(SOON):
        await EventRoutes(feed, Subscribers(1))._send_events(request, send, feed.newest, over)
    assert len(sent) == (1 if happens == "the end" else 2)
    await engine.aclose()


def flush_rows():
    return AddRows()


def test_what_is_trimmed_before_a_feed_that_began_empty_has_read_it_is_told_as_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(sql_journal, "KEPT_EVENTS", 6)
    store = SqliteStore(tmp_path / "s.db")
    engine = PythonToolEngine(ToolRegistry(), sessions=Sessions(store))
    feed = EventFeed(Toolyard(engine.tool_registry, engine))
    asyncio.run(feed.join())
    reader = Reader(feed, ADMIN)
    for number in range(10):
        feed.journal.add_event("call.ended", "", "n", {"number": number})
    store.write(flush_rows())
    store.write(TrimLog("events", 5, 100, AffectedRows()))
    feed._append(*feed.journal.read_events(feed.newest))
    reader.look()
    assert reader.read == ["missed"]
    engine.close()


def test_a_chunk_is_encoded_once_for_readers_with_equal_rights():
    engine = PythonToolEngine(ToolRegistry())
    feed = EventFeed(Toolyard(engine.tool_registry, engine))
    asyncio.run(feed.join())
    feed.journal.add_event("call.ended", "ann", "n", {"number": 1})
    feed._append(*feed.journal.read_events(0))
    first, _ = feed.read_chunk(ANN, 0)
    again, _ = feed.read_chunk(Principal("ann", "again", read_scopes(["*:execute"])), 0)
    assert first is again and b'"number":1' in first
    assert feed.read_chunk(Principal("bob", "bob", read_scopes(["*:execute"])), 0) == (b"", 1)
    engine.close()


def test_a_reader_that_comes_while_another_has_the_list_filled_goes_on_where_it_was(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    engine = PythonToolEngine(ToolRegistry(), sessions=Sessions(store))
    feed = EventFeed(Toolyard(engine.tool_registry, engine))
    for number in range(5):
        feed.journal.add_event("call.ended", "", "n", {"number": number})
    store.write(flush_rows())

    async def come_back():
        await feed.join()
        return feed.find_place("s-3")

    async def both():
        return await asyncio.gather(come_back(), come_back())

    assert asyncio.run(both()) == [3, 3]
    engine.close()


async def test_who_has_read_in_another_process_goes_on_in_one_that_has_readers_and_has_not_looked_yet(tmp_path):
    stores = [SqliteStore(tmp_path / "s.db") for _ in range(2)]
    engines = [PythonToolEngine(ToolRegistry(), sessions=Sessions(store)) for store in stores]
    one, two = (EventFeed(Toolyard(engine.tool_registry, engine)) for engine in engines)
    await one.join()
    await two.join()
    reader = Reader(one, ADMIN)
    for number in range(3):
        one.journal.add_event("call.ended", "", "n", {"number": number})
    stores[0].write(flush_rows())
    await one._fill_list()
    reader.look()
    reader.feed = two
    await two.join()
    reader.come_back()
    one.journal.add_event("call.ended", "", "n", {"number": 3})
    stores[0].write(flush_rows())
    await two._fill_list()
    reader.look()
    assert reader.read == [0, 1, 2, 3]
    for engine in engines:
        engine.close()


class Stream:
    """One open stream, read by hand."""

    def __init__(self, yard, token=None, last=None):
        self._line = http.client.HTTPConnection("127.0.0.1", yard.port, timeout=SOON)
        token = token or getattr(yard, "token", None)
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._line.request("GET", "/v1/events", headers=headers | ({} if last is None else {"last-event-id": last}))
        self.answer = self._line.getresponse()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.headers["content-type"] == "text/event-stream"
        self.last = last
        self._next()  # when to come back

    def _next(self):
        """The next block; None at the end."""
        found = {}
        while line := self.answer.readline():
            if line == b"\n":
                self.last = found.get("id", self.last)
                return found
            name, _, value = line.decode().rstrip("\n").partition(": ")
            found[name] = value
        return None

    def read(self, kind=None):
        """The next event (of a kind), with its data."""
        while (block := self._next()) is not None:
            if "data" in block and (kind is None or block["event"] == kind):
                return block["event"], json.loads(block["data"])
        return None

    def close(self):
        self.answer.close()
        self._line.close()


def config_of(kind, folder):
    return CORE if kind == "memory" else {**CORE, "sessions": {"store": "sqlite", "path": str(folder / "s.db")}}


@pytest.fixture(params=ways_to_try("memory", "sqlite"))
def yard(request, tmp_path):
    with served(config_of(chosen_way(request), tmp_path)) as server:
        yield server


def say(yard, text, **options):
    """A call whose id is found again in its events."""
    body = {"calls": [{"name": "core::echo", "arguments": {"text": "hidden"}, "call_id": text}]}
    assert yard.post("/v1/calls", body, **options).status == 200


def test_a_call_is_told_when_it_begins_and_when_it_ends_without_what_it_carried(yard):
    stream = Stream(yard)
    say(yard, "c-1")
    kind, begun = stream.read()
    assert (kind, begun["tool"], begun["effects"]) == ("call.begun", "core::echo", "read")
    kind, ended = stream.read()
    assert (kind, ended["id"], ended["call_id"]) == ("call.ended", begun["id"], "c-1")
    assert "duration_ms" in ended and "hidden" not in json.dumps([begun, ended])
    yard.post("/v1/calls", {"calls": [{"name": "core::nothing"}]})
    kind, failed = stream.read()
    assert (kind, failed["code"]) == ("call.ended", "tool.not_found")
    until(lambda: yard.get(f"/v1/calls/{ended['id']}").status == 200)
    assert yard.get(f"/v1/calls/{ended['id']}").json == ended
    stream.close()


def test_who_comes_back_is_told_what_happened_meanwhile_once(yard):
    stream = Stream(yard)
    say(yard, "a")
    assert [stream.read()[0] for _ in range(2)] == ["call.begun", "call.ended"]
    stream.close()
    say(yard, "b")
    stream = Stream(yard, last=stream.last)
    assert [stream.read()[1].get("call_id") for _ in range(2)] == [None, "b"]
    say(yard, "c")
    assert stream.read("call.ended")[1]["call_id"] == "c"
    stream.close()


def test_who_names_an_event_that_is_not_here_is_told_that_some_may_be_missed(yard):
    for last in ("x", "s-99999999999999999", "s--1", "0", "deadbeef-3", "\xff", "s-" + "9" * 40):
        stream = Stream(yard, last=last)
        kind, told = stream.read()
        assert kind == "events.missed" and "GET /v1/calls" in told["message"], last
        say(yard, "a")
        assert [stream.read()[0] for _ in range(2)] == ["call.begun", "call.ended"]
        stream.close()


def test_keys_are_told_of_their_own_calls_and_admins_of_all(tmp_path):
    with served(config_of("sqlite", tmp_path)) as yard:
        admin, ann, bob = (yard.key(scope, name=scope) for scope in ("*:*", "*:list,execute", "core:execute,admin"))
        streams = [Stream(yard, token) for token in (admin, ann, bob)]
        for number, token in enumerate((ann, bob, ann)):
            say(yard, f"c-{number}", token=token)
        told = [
            [stream.read("call.ended")[1]["call_id"] for _ in range(count)]
            for stream, count in zip(streams, (3, 2, 1), strict=True)
        ]
        assert told == [["c-0", "c-1", "c-2"], ["c-0", "c-2"], ["c-1"]]
        for stream in streams:
            stream.close()
        assert yard.get("/v1/events").status == 401


def test_a_stream_ends_when_its_key_does(tmp_path):
    with served(config_of("sqlite", tmp_path)) as yard:
        admin = yard.key("*:*")
        doomed, kept = Stream(yard, token := yard.key("*:execute", name="doomed")), Stream(yard, admin)
        yard.service.keys.revoke(token[3:15])
        assert doomed.read() is None
        doomed.close()
        say(yard, "still", token=admin)
        assert kept.read("call.ended")[1]["call_id"] == "still"
        kept.close()


def test_a_stream_ends_when_its_key_expires(tmp_path):
    with served(config_of("sqlite", tmp_path)) as yard:
        admin = yard.key("*:*")
        doomed = Stream(yard, yard.key("*:execute", name="doomed", expires=time.time() + 1.5))
        kept = Stream(yard, admin)
        assert doomed.read() is None
        doomed.close()
        say(yard, "still", token=admin)
        assert kept.read("call.ended")[1]["call_id"] == "still"
        kept.close()


def test_approvers_are_told_of_held_calls_until_they_are_used_or_expire_and_others_are_not(tmp_path):
    with bank(tmp_path, expires=1.5) as yard:
        boss, other = Stream(yard, yard.boss), Stream(yard, yard.key("core:execute,approve", name="other"))
        first = held_id(invoke(yard, 1))
        assert decide(yard, first).status == 200
        assert invoke(yard, 1).status == 200
        second = held_id(invoke(yard, 2))
        told = [boss.read()]
        while told[-1][0] != "approval.expired":
            told.append(boss.read())
        # Once it is used, its outcome is a change, too.
        assert list(dict.fromkeys((kind, about["id"]) for kind, about in told)) == [
            *((f"approval.{state}", first) for state in ("pending", "approved", "used")),
            *((f"approval.{state}", second) for state in ("pending", "expired")),
        ]
        assert {about["tool"] for _, about in told} == {"bank::pay"}
        mine = Stream(yard, last=boss.last)
        boss.close()
        yard.service.end_waits()
        assert other.read() is mine.read() is None
        other.close()
        mine.close()


def test_a_stream_ends_when_the_server_stops():
    with served() as yard:
        stream = Stream(yard)
        yard.service.end_waits()
        assert stream.read() is None
        stream.close()


def test_a_source_that_changes_or_dies_is_told(tmp_path):
    path = tmp_path / "more.yaml"
    path.write_text("tools: [{name: one, namespace: m}]")
    with served({"tools": [{"type": "file", "path": str(path)}]}) as yard:
        stream = Stream(yard)
        until(lambda: yard.service.events._snapshot is not None)
        seen = []
        for text in ("tools: [{name: one, namespace: m}, {name: two, namespace: m}]", "tools: [", "tools: []"):
            path.write_text(text)
            assert yard.ask("POST", "/v1/reload").status == 200
            kind, told = stream.read()
            seen.append((kind, told["state"]))
        assert seen == [("source.changed", "ok"), ("source.died", "stale"), ("source.recovered", "ok")]
        stream.close()


@pytest.mark.process
def test_a_server_of_several_that_dies_is_told(tmp_path):
    path = tmp_path / "desktop.json"
    away = {"gone": {"command": "no-such-program"}}
    path.write_text(json.dumps({"mcpServers": {"notes": raw(tmp_path / "notes")}}))
    with served({"tools": [{"type": "mcp_config", "path": str(path)}]}) as yard:
        stream = Stream(yard)
        until(lambda: yard.service.events._snapshot is not None)
        for more, event in ((away, "source.died"), ({}, "source.recovered")):
            path.write_text(json.dumps({"mcpServers": {"notes": raw(tmp_path / "notes"), **more}}))
            yard.ask("POST", "/v1/reload")
            assert stream.read()[0] == event
        stream.close()


@pytest.fixture(params=["sqlite", "postgres"] if SOAK else ["postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return {"store": "sqlite", "path": str(tmp_path / "s.db")}
    found = request.getfixturevalue("postgres_place")
    return {"store": "postgres", "dsn": found.address, "schema": found.schema}


def test_two_nodes_tell_what_either_does_in_one_order_and_either_takes_a_reader_over(place):
    config = {**CORE, "sessions": place}
    with served(config) as one, served(config) as two:
        streams = [Stream(one), Stream(two)]

        def make_calls(node, name):
            for number in range(10):
                say(node, f"{name}-{number}")

        threads = [threading.Thread(target=make_calls, args=pair) for pair in ((one, "a"), (two, "b"))]
        for thread in threads:
            thread.start()
        told = [[stream.read() for _ in range(20)] for stream in streams]
        last = streams[0].last
        for thread in threads:
            thread.join()
        rest = [stream.read() for stream in streams for _ in range(20)]
        assert told[0] + rest[:20] == told[1] + rest[20:]
        ended = [about["call_id"] for kind, about in told[0] + rest[:20] if kind == "call.ended"]
        assert sorted(ended) == sorted(f"{name}-{number}" for name in "ab" for number in range(10))
        streams[0].close()
        other = Stream(two, last=last)
        assert [other.read() for _ in range(20)] == rest[:20]
        other.close()
        streams[1].close()


def test_many_streams_hear_of_one_call():
    number = 500 if SOAK else 100
    with served(max_connections=1000) as yard:
        streams = [Stream(yard) for _ in range(number)]
        say(yard, "all")
        assert all(stream.read("call.ended")[1]["call_id"] == "all" for stream in streams)
        assert yard.service.events.readers == number
        for stream in streams:
            stream.close()
        until(lambda: yard.service.events.readers == 0)
