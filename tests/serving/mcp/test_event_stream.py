"""Streams of events: what is kept, lost, and read."""

import asyncio
import sys

from toolyard.serving.mcp.event_stream import EventStream, KeptReplies, ReplyStream, send_stream


async def test_notifications_are_dropped_before_answers_and_an_unread_stream_is_given_up():
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


async def test_sent_events_are_released():
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


async def test_a_slow_reader_loses_the_oldest_notices_and_never_the_newest():
    stream = EventStream()
    for number in range(10_000):
        stream.put(b"%d" % number)
    stream.put(b"last" * 1_000_000)
    stream.end()
    chunks = [chunk async for chunk in stream.read()]
    assert chunks[-1].endswith(b"last\n\n")
    assert sum(map(len, chunks)) < 5_000_000


async def read_all(stream):
    return b"".join([chunk async for chunk in stream.read()])


async def test_the_number_of_kept_replies_is_limited():
    kept = KeptReplies(most=3, most_bytes=1000)
    replies = [kept.begin("k", "s") for _ in range(5)]
    for reply in replies:
        reply.put(b"x" * 400, is_last=True)
        kept.settle()
    found = [await read_all(kept.resume("k", "s", f"{reply.name}.0")) for reply in replies]
    assert [bool(text) for text in found] == [False, False, False, True, True]


async def test_the_newest_events_of_a_reply_are_kept():
    reply = ReplyStream("r")
    for number in range(1000):
        reply.put(b"%d" % number)
    reply.put(b"last" * 500_000)
    reply.put(b"the answer", is_last=True)
    assert reply.size < 2_100_000
    text = await read_all(reply.resume(0))
    assert text.endswith(b"the answer\n\n")
    assert await read_all(reply.resume(1001)) == text[text.index(b"id: r.1002") :]


async def test_a_resumed_reply_ends_the_previous_stream():
    reply = ReplyStream("r")
    first = reply.stream
    reply.put(b"one")
    second = reply.resume(1)
    assert first.is_over
    second.end()
    reply.put(b"two" * 100)
    assert second.size == 0
    third = reply.resume(0)
    reply.put(b"three", is_last=True)
    text = await read_all(third)
    assert all(part in text for part in (b"one", b"two", b"three"))
