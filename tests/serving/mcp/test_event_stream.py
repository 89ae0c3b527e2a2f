"""Streams of events: what is kept, lost, and read."""

import asyncio
import sys

import pytest

from serving.mcp.mcp_support import Session, frames
from serving.mcp.test_handshake import say
from serving.service_support import CORE, served
from toolyard import function_tool
from toolyard.serving.mcp.event_stream import EventStream, send_stream


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_no_two_streams_have_the_same_name_wherever_they_are(shared):
    tools = [function_tool(say, namespace="desk")]
    with served(shared, tools=tools) as one, served(shared, tools=tools) as two:
        session = Session(one)
        names = set()
        for each in (one, two, one, two):
            session.served = each
            ids = [number for number, _ in frames(session.call("desk__say").body)]
            names |= {number.partition(".")[0] for number in ids}
        assert len(names) == 4


async def test_notifications_are_lost_before_answers_and_a_hopeless_stream_as_a_whole():
    stream = EventStream()
    for number in range(2000):
        stream.put(b"notice %d" % number)
        if number % 100 == 0:
            stream.put_answer(b"answer %d" % number)
    stream.put_answer(b"a" * 2_000_000)
    stream.put(b"the newest")
    stream.take_over("me")
    read = b""
    async for chunk in stream.read("me"):
        read += chunk
        if b"the newest" in read:
            break
    assert [number for number in range(0, 2000, 100) if b"answer %d\n" % number not in read] == []
    assert b"notice" not in read
    assert stream.size == 0, "what was read is not kept"
    for _ in range(40):
        stream.put_answer(b"a" * 2_000_000)
    assert stream.is_broken
    assert stream.size == 0


async def test_nobody_holds_on_to_what_was_sent():
    sent = []

    async def send(message):
        sent.append(message.get("body"))

    stream, event = EventStream(), bytes(1000)
    stream.take_over("me")
    stream.put_raw(event)
    task = asyncio.create_task(send_stream(send, stream, "me"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert event in sent
    sent.clear()
    alone = bytes(1001)
    assert sys.getrefcount(event) == sys.getrefcount(alone), "it is here, and nowhere else"
    stream.end()
    await task


async def test_a_slow_reader_loses_the_oldest_notices_and_never_the_last_message():
    stream = EventStream("s")
    for number in range(10_000):
        stream.put(b"%d" % number)
    stream.put(b"last" * 1_000_000)
    stream.end()
    stream.take_over("me")
    chunks = [chunk async for chunk in stream.read("me")]
    assert len(chunks) == 1
    assert chunks[0].endswith(b"last\n\n")
    assert stream.size < 5_000_000
