"""Streams of events: what is kept, lost, and read."""

import asyncio
import sys

from toolyard.serving.mcp.event_stream import EventStream, send_stream


async def test_notifications_are_lost_before_answers_and_a_hopeless_stream_as_a_whole():
    stream = EventStream()
    for number in range(2000):
        stream.put(b"notice %d" % number)
        if number % 100 == 0:
            stream.put_answer(b"answer %d" % number)
    stream.put_answer(b"a" * 2_000_000)
    stream.put(b"the newest")
    read = b""
    async for chunk in stream.read():
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
    stream.put_raw(event)
    task = asyncio.create_task(send_stream(send, stream))
    for _ in range(3):
        await asyncio.sleep(0)
    assert event in sent
    sent.clear()
    alone = bytes(1001)
    assert sys.getrefcount(event) == sys.getrefcount(alone), "it is here, and nowhere else"
    stream.end()
    await task


async def test_a_slow_reader_loses_the_oldest_notices_and_never_the_last_message():
    stream = EventStream()
    for number in range(10_000):
        stream.put(b"%d" % number)
    stream.put(b"last" * 1_000_000)
    stream.end()
    chunks = [chunk async for chunk in stream.read()]
    assert chunks[-1].endswith(b"last\n\n")
    assert sum(map(len, chunks)) < 5_000_000
