"""The feed of events: whatever drops, a reader has everything it may see, once and in order, or is told otherwise."""

import asyncio
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from toolyard import ToolRegistry
from toolyard.app.toolyard import Toolyard
from toolyard.calls import journal, sql_journal
from toolyard.calls.journal import CallLogOptions
from toolyard.engines.python import PythonToolEngine
from toolyard.serving import event_feed
from toolyard.serving.event_feed import EventFeed
from toolyard.serving.identity import Principal, read_scopes
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
        for module in (journal, sql_journal, event_feed):
            patch.setattr(module, "KEPT_EVENTS", 6)
        patch.setattr(event_feed, "_CHUNK_EVENTS", 3)
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
