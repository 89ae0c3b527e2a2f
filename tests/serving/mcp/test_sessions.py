"""Sessions over several processes that share their records: any of them goes on with one, and all know its end; and the mail between them."""

import asyncio
import codecs
import json
import threading
from contextlib import ExitStack

import pytest
from waiting import SOON, Clock, until

from serving.mcp.mcp_support import Session, SseClient, StreamReader, make_request, read_events, read_result
from serving.mcp.test_handshake import Waiting
from serving.service_support import CORE, served
from toolyard import function_tool
from toolyard.app.blocks import McpBlock
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.mcp.event_stream import EventStream
from toolyard.serving.mcp.json_rpc import RANK
from toolyard.serving.mcp.sessions import KIND, InflightRequest, McpSessions, post_mail
from toolyard.sessions.records import MemoryRecords


@pytest.fixture
def config(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_any_process_continues_a_session(config):
    with served(config) as one, served(config) as two:
        session = Session(one)
        session.served = two
        assert read_result(session.call("echo", {"text": "x"}))["structuredContent"] == {"text": "x"}
        assert read_result(session.send("logging/setLevel", {"level": "error"})) == {}
        assert session.end().status == 204
        session.served = one
        assert until(lambda: session.send("ping").status == 404)


def test_a_session_outlives_a_restart(config):
    with served(config) as one:
        session = Session(one)
    with served(config) as two:
        session.served = two
        assert read_result(session.send("ping")) == {}


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


def shared_pair(idle=100):
    clock = Clock()
    records = MemoryRecords(clock=clock)
    records.shared = True
    return clock, *(McpSessions(records, idle=idle, most=10, clock=clock) for _ in range(2))


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


async def test_an_ended_session_is_not_restored_by_a_process_that_has_it_cached():
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
    assert one.find_cached("k", session.id) is session
    assert one.find_cached("other", session.id) is None
    clock.now += 2
    assert one.find_cached("k", session.id) is None
    assert await one.find("k", session.id) is session
    assert one.find_cached("k", session.id) is session


async def test_the_owner_of_most_sessions_loses_the_longest_unused():
    clock = Clock()
    records = MemoryRecords(clock=clock)
    sessions = McpSessions(records, idle=100, most=5, clock=clock)
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


def test_sessions_can_be_bounded_by_config():
    assert McpBlock().max_sessions == 10_000
    assert read_events(b"") == []


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_a_level_set_elsewhere_ends_nothing(shared):
    waiting, answers = Waiting(), []
    with served(shared, tools=[waiting.tool()]) as one, served(shared) as two:
        session = Session(one)
        call = threading.Thread(target=lambda: answers.append(session.call("desk__wait", number=5)))
        call.start()
        assert waiting.began.wait(SOON)
        for served_by, level in ((two, "debug"), (one, "error"), (two, "info"), (one, "debug")):
            session.served = served_by
            assert read_result(session.send("logging/setLevel", {"level": level})) == {}
        assert not waiting.cancelled.is_set()
        waiting.end.set()
        call.join(SOON)
        assert read_result(answers[0])["structuredContent"] == {"result": "ended"}


async def test_a_level_is_kept_over_what_another_process_wrote_and_not_said_to_be_if_the_session_is_over():
    _, one, two = shared_pair()
    session = await one.open("k", "2025-11-25")
    other = await two.find("k", session.id)
    assert await two.keep(other, RANK["error"])
    assert await one.keep(session)
    assert session.level == RANK["error"], "what the other one wrote holds"
    assert await one.keep(session, RANK["debug"])
    assert await two.keep(other)
    assert other.level == RANK["debug"]
    await two.end("k", session.id)
    assert not await one.keep(session, RANK["info"])
    assert one.find_cached("k", session.id) is None


def test_the_reader_of_a_stream_is_told_that_its_session_is_over():
    waiting = Waiting()
    with served(tools=[waiting.tool(speaks=True)]) as found:
        session = Session(found)
        body = make_request("tools/call", {"name": "desk__wait"}, 9)
        with StreamReader(found, "POST", "/mcp", body, session.headers) as stream:
            stream.wait(1)
            assert session.end().status == 204
            error = stream.wait(2)[-1]["error"]
            assert (error["code"], "the session is over" in error["message"]) == (-32800, True)


def test_a_session_in_which_a_call_runs_is_not_ended_for_a_new_one():
    waiting, answers = Waiting(), []
    with served(tools=[waiting.tool()], mcp=McpBlock(max_sessions=2)) as found:
        busy = Session(found)
        call = threading.Thread(target=lambda: answers.append(busy.call("desk__wait")))
        call.start()
        assert waiting.began.wait(SOON)
        others = [Session(found) for _ in range(5)]
        assert [each.send("ping").status for each in others] == [404, 404, 404, 404, 200]
        with others[-1].listen() as reading:
            assert until(lambda: reading.body)
            body = make_request("initialize", {"protocolVersion": "2025-11-25"})
            refused = found.post("/mcp", body)
            told = refused.json["error"]["data"]["error"]["code"]
            assert (refused.status, told, refused.json["id"]) == (429, "server.overloaded", 1)
        assert until(lambda: len(found.service.mcp.subscribers) == 0)
        assert Session(found).send("ping").status == 200
        waiting.end.set()
        call.join(SOON)
        assert read_result(answers[0])["structuredContent"] == {"result": "ended"}


async def test_an_owner_of_more_sessions_takes_none_from_an_owner_of_fewer():
    sessions = McpSessions(MemoryRecords(), idle=100, most=3)
    idle = await sessions.open("quiet", "2025-11-25")
    for _ in range(2):
        session = await sessions.open("loud", "2025-11-25")
        session.notices = EventStream()
    with pytest.raises(Exception, match="all sessions are in use"):
        await sessions.open("loud", "2025-11-25")
    assert sessions.find_cached("quiet", idle.id) is idle


async def test_requests_of_a_dropped_session_are_answered_with_the_reason():
    records = MemoryRecords()
    sessions = McpSessions(records, idle=100, most=3)
    session = await sessions.open("k", "2025-11-25")
    task = asyncio.ensure_future(asyncio.sleep(SOON))
    session.running[1] = underway = InflightRequest(task)
    await sessions.end("k", session.id)
    assert underway.reason == "over"
    with pytest.raises(asyncio.CancelledError):
        await task
    assert records.all(KIND) == []


async def test_the_number_of_undelivered_messages_is_limited():
    records = MemoryRecords()
    for _ in range(256):
        await post_mail(records, "session", b"{}")
    with pytest.raises(HttpFault, match="not taken yet"):
        await post_mail(records, "session", b"{}")
    await post_mail(records, "another", b"{}")
    assert len(records.all("mcp_mail")) == 257


def test_messages_of_other_workers_are_read_once_for_all_streams(config):
    with served(config) as one, served(config) as two:
        asked = []
        records = one.service.records
        real = records.aversion

        async def aversion(kind):
            asked.append(kind)
            return await real(kind)

        records.aversion = aversion
        clients = [SseClient(one) for _ in range(20)]
        assert until(lambda: asked.count("mcp_mail") >= 3)
        asked.clear()
        assert until(lambda: asked.count("mcp_mail") >= 5)
        # Looked at as often as anything else, not twenty times as often.
        assert asked.count("mcp_mail") <= 5 * asked.count("key") + 10
        for client in clients:
            client.found = two
            assert client.post(make_request("ping", number=7)).status == 202
        assert all(client.answer(7)["result"] == {} for client in clients)
        for client in clients:
            client.stream.close()
        assert until(lambda: one.service.records.all("mcp_sse") == [])


def test_an_unreadable_message_does_not_hold_up_others(config):
    with served(config) as one, served(config) as two:
        client, other = SseClient(one), SseClient(one)
        client.found = other.found = two
        with client.stream, other.stream:
            mark = codecs.BOM_UTF8 + json.dumps(make_request("ping", number=1)).encode()
            assert two.post(other.path, mark).status == 202
            two.service.records.put("mcp_mail", "of nobody", "0", b"{")
            two.service.records.put("mcp_mail", other.path.partition("session_id=")[2], "0", b"{")
            assert client.post(make_request("ping", number=2)).status == 202
            assert client.answer(2)["result"] == {} and other.answer(1)["result"] == {}
            assert until(lambda: [record.owner for record in one.service.records.all("mcp_mail")] == ["of nobody"])


class SlowToCancel:
    """A tool that takes its time to end once it was cancelled."""

    def __init__(self):
        self.began = [threading.Event(), threading.Event()]
        self.end = threading.Event()
        self.count = 0

    def tool(self):
        async def stubborn() -> str:
            """Waits."""
            self.began[self.count].set()
            self.count += 1
            try:
                await asyncio.sleep(SOON)
            except asyncio.CancelledError:
                await asyncio.to_thread(self.end.wait, SOON)
                raise
            return "never"

        return function_tool(stubborn, namespace="desk")


def test_an_id_that_is_used_again_belongs_to_the_newer_request():
    stubborn, answers = SlowToCancel(), {}
    with served(tools=[stubborn.tool()]) as found:
        session = Session(found)

        def call(which):
            answers[which] = session.call("desk__stubborn", number=5)

        threads = [threading.Thread(target=call, args=(which,)) for which in ("first", "second")]
        threads[0].start()
        assert stubborn.began[0].wait(SOON)
        session.notify("notifications/cancelled", {"requestId": 5})
        threads[1].start()
        assert stubborn.began[1].wait(SOON)
        (here,) = found.service.mcp.sessions._sessions.values()
        stubborn.end.set()
        threads[0].join(SOON)
        assert answers["first"].json["error"]["code"] == -32800
        assert 5 in here.running, "the end of the first takes nothing from the second"
        session.notify("notifications/cancelled", {"requestId": 5})
        threads[1].join(SOON)
        assert answers["second"].json["error"]["message"] == "the request was cancelled"
