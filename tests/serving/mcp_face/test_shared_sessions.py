"""Sessions over several processes that share their records: any of them goes on with one, and all know its end."""

import threading
from contextlib import ExitStack

import pytest
from service_support import CORE, served
from waiting import SOON, until

from mcp_face.mcp_support import Session, events, result
from mcp_face.test_handshake import Waiting
from toolyard.app.mcp_block import McpBlock
from toolyard.serving.mcp.replays import Replays
from toolyard.serving.mcp.sessions import KIND, McpSessions
from toolyard.serving.mcp.streams import Stream
from toolyard.sessions.records import MemoryRecords


@pytest.fixture
def config(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_any_process_goes_on_with_a_session(config):
    with served(config) as one, served(config) as two:
        session = Session(one)
        session.served = two
        assert result(session.call("echo", {"text": "x"}))["structuredContent"] == {"text": "x"}
        assert result(session.send("logging/setLevel", {"level": "error"})) == {}
        assert session.end().status == 204
        session.served = one
        assert until(lambda: session.send("ping").status == 404)


def test_a_session_outlives_a_restart(config):
    with served(config) as one:
        session = Session(one)
    with served(config) as two:
        session.served = two
        assert result(session.send("ping")) == {}


def test_a_request_is_cancelled_through_another_process(config):
    waiting, answers = Waiting(), []
    with served(config, tools=[waiting.tool()]) as one, served(config) as two:
        session = Session(one)
        thread = threading.Thread(target=lambda: answers.append(session.call("desk__wait", number=5)))
        thread.start()
        assert waiting.began.wait(SOON)
        session.served = two
        assert session.notify("notifications/cancelled", {"requestId": 5}).status == 202
        thread.join(SOON)
        assert waiting.cancelled.is_set()
        assert answers[0].json["error"]["code"] == -32800


def test_every_process_tells_its_own_streams_of_a_change(config):
    body = {"description": "A tool.", "parameters": {"type": "object"}}
    with ExitStack() as stack:
        one, two = stack.enter_context(served(config)), stack.enter_context(served(config))
        first, second = [stack.enter_context(Session(each).listen()) for each in (one, two)]
        assert until(lambda: first.body and second.body)
        assert one.ask("PUT", "/v1/tools/shop::new", body).status == 201
        assert first.wait(1)[0]["method"] == "notifications/tools/list_changed"
        assert second.wait(1)[0]["method"] == "notifications/tools/list_changed"


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def shared_pair(idle=100):
    clock = Clock()
    records = MemoryRecords(clock=clock)
    records.shared = True
    return clock, *(McpSessions(records, idle=idle, most=10, clock=clock, wall=clock) for _ in range(2))


async def test_a_session_that_one_process_uses_is_not_over_in_another():
    clock, one, two = shared_pair()
    session = await one.open("k", "2025-11-25")
    for _ in range(10):
        clock.now += 60
        assert await two.find("k", session.id) is not None
        await one.sweep()
        await two.sweep()
    assert await one.find("k", session.id) is not None
    clock.now += 200
    await one.sweep()
    assert await two.find("k", session.id) is None


async def test_an_ended_session_is_not_brought_back_by_who_still_has_it_at_hand():
    clock, one, two = shared_pair()
    session = await one.open("k", "2025-11-25")
    assert await two.end("k", session.id)
    clock.now += 60
    assert not await one.keep(session)
    assert await one.find("k", session.id) is None
    assert await two.find("k", session.id) is None


async def test_a_busy_session_does_not_ask_the_store_each_time():
    clock, one, _ = shared_pair()
    session = await one.open("k", "2025-11-25")
    assert one.at_hand("k", session.id) is session
    assert one.at_hand("other", session.id) is None
    clock.now += 2
    assert one.at_hand("k", session.id) is None
    assert await one.find("k", session.id) is session
    assert one.at_hand("k", session.id) is session


async def test_whoever_has_most_sessions_loses_the_longest_unused():
    clock = Clock()
    records = MemoryRecords(clock=clock)
    sessions = McpSessions(records, idle=100, most=5, clock=clock, wall=clock)
    quiet = await sessions.open("quiet", "2025-11-25")
    loud = []
    for _ in range(20):
        clock.now += 1
        loud.append(await sessions.open("loud", "2025-11-25"))
    assert len(sessions) == 5
    assert await sessions.find("quiet", quiet.id) is not None
    assert await sessions.find("loud", loud[0].id) is None
    assert await sessions.find("loud", loud[-1].id) is not None
    assert len(records.all(KIND)) == 5


def test_the_answer_of_a_stream_is_kept_within_bounds():
    replays = Replays(most=3, most_bytes=1000)
    streams = [Stream(f"r{number}") for number in range(5)]
    for stream in streams:
        replays.add("k", "s", stream)
        stream.put_answer(b"x" * 400)
        replays.settle()
    kept = [stream for stream in streams if replays.find("k", "s", stream.name) is not None]
    assert kept == streams[3:]
    replays.forget("k", "s")
    assert replays.find("k", "s", "r4") is None


def test_whoever_keeps_most_answers_loses_their_own():
    replays = Replays(most=10, most_bytes=2000)
    quiet = Stream("quiet")
    quiet.put_answer(b"x" * 400)
    replays.add("quiet", "s", quiet)
    for number in range(50):
        stream = Stream(f"r{number}")
        stream.put_answer(b"x" * 400)
        replays.add("loud", "t", stream)
        replays.settle()
    assert replays.find("quiet", "s", "quiet") is quiet
    assert replays.find("loud", "t", "r49") is not None
    assert replays.find("loud", "t", "r40") is None


async def test_a_slow_reader_loses_the_oldest_notices_and_never_the_last_message():
    stream = Stream("s")
    for number in range(10_000):
        stream.put(b"%d" % number)
    stream.put(b"last" * 1_000_000)
    stream.end()
    stream.take_over("me")
    chunks = [chunk async for chunk in stream.read("me")]
    assert len(chunks) == 1
    assert chunks[0].endswith(b"last\n\n")
    assert stream.size < 5_000_000


def test_sessions_can_be_bounded_by_config():
    assert McpBlock().max_sessions == 10_000
    assert events(b"") == []
