"""Sessions: what may not be lost, mixed up, or taken away."""

import asyncio
import re
import threading

import pytest
from service_support import CORE, RAN, desk_tools, served
from waiting import SOON, until

from mcp_face.mcp_support import Reading, Session, Stateless, events, frames, request, result
from mcp_face.test_handshake import Waiting, say
from mcp_face.test_shared_sessions import shared_pair
from toolyard import ToolContext, function_tool
from toolyard.app.mcp_block import McpBlock
from toolyard.serving.mcp.elsewhere import pass_cancel_on
from toolyard.serving.mcp.sessions import KIND, McpSessions
from toolyard.serving.mcp.streams import Stream
from toolyard.serving.mcp.underway import Underway
from toolyard.serving.mcp.wire import RANK
from toolyard.sessions.records import MemoryRecords


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


def test_a_level_set_elsewhere_ends_nothing(shared):
    waiting, answers = Waiting(), []
    with served(shared, tools=[waiting.tool()]) as one, served(shared) as two:
        session = Session(one)
        call = threading.Thread(target=lambda: answers.append(session.call("desk__wait", number=5)))
        call.start()
        assert waiting.began.wait(SOON)
        for served_by, level in ((two, "debug"), (one, "error"), (two, "info"), (one, "debug")):
            session.served = served_by
            assert result(session.send("logging/setLevel", {"level": level})) == {}
        assert not waiting.cancelled.is_set()
        waiting.end.set()
        call.join(SOON)
        assert result(answers[0])["structuredContent"] == {"result": "ended"}


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
    assert one.at_hand("k", session.id) is None


@pytest.mark.parametrize("last", ["s.5", "r1.2", "nothing", "x.y", "{}.999"])
def test_who_comes_back_with_an_id_that_is_not_known_is_told_that_something_may_have_changed(last):
    with served() as found:
        session = Session(found)
        with session.listen() as stream:
            assert until(lambda: stream.body)
            found.service.yard.tool_registry.add(*desk_tools())
            stream.wait(1)
            name = stream.ids[-1].partition(".")[0]
        assert until(lambda: len(found.service.mcp.hub) == 0)
        with session.listen(**{"last-event-id": last.format(name)}) as stream:
            assert len(stream.wait(1)) == 1
            found.service.yard.tool_registry.remove("desk::add")
            assert len(stream.wait(2)) == 2


@pytest.mark.parametrize("name", ["call_tool", "desk__count"])
def test_a_call_through_call_tool_may_be_sent_again_too(name):
    with served(tools=desk_tools(), mcp=McpBlock(expose="search")) as found:
        client = Stateless(found)
        inner = {"word": "one"}
        arguments = {"name": "desk__count", "arguments": inner} if name == "call_tool" else inner
        before = len(RAN)
        first, again = (
            result(client.call(name, arguments, meta={"toolyard/idempotency_key": "once"}, number=number))
            for number in (1, 2)
        )
        assert first == again
        assert len(RAN) == before + 1


def test_a_session_tool_may_be_sent_again_too():
    with served(tools=desk_tools(), mcp=McpBlock(sessions=True)) as found:
        client = Stateless(found)
        opened = [
            result(client.call("toolyard.session_open", {}, meta={"toolyard/idempotency_key": "open"}))
            for _ in range(2)
        ]
        assert opened[0] == opened[1]
        name = opened[0]["structuredContent"]["session_id"]
        arguments = {"session_id": name, "calls": [{"name": "desk::count", "arguments": {"word": "w"}}]}
        before = len(RAN)
        for _ in range(2):
            meta = {"toolyard/idempotency_key": "run"}
            assert not result(client.call("toolyard.session_execute", arguments, meta=meta))["isError"]
        assert len(RAN) == before + 1


class Stubborn:
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
    stubborn, answers = Stubborn(), {}
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
        (here,) = next(iter(found.service.mcp.sessions._owners.values())).values()
        stubborn.end.set()
        threads[0].join(SOON)
        assert answers["first"].json["error"]["code"] == -32800
        assert 5 in here.running, "the end of the first takes nothing from the second"
        session.notify("notifications/cancelled", {"requestId": 5})
        threads[1].join(SOON)
        assert answers["second"].json["error"]["message"] == "the request was cancelled"


def test_the_reader_of_a_stream_is_told_that_its_session_is_over():
    waiting = Waiting()
    with served(tools=[waiting.tool(speaks=True)]) as found:
        session = Session(found)
        body = request("tools/call", {"name": "desk__wait"}, 9)
        with Reading(found, "POST", "/mcp", body, session.headers) as stream:
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
            body = request("initialize", {"protocolVersion": "2025-11-25"})
            refused = found.post("/mcp", body)
            assert (refused.status, refused.error["code"]) == (429, "server.overloaded")
        assert until(lambda: len(found.service.mcp.hub) == 0)
        assert Session(found).send("ping").status == 200
        waiting.end.set()
        call.join(SOON)
        assert result(answers[0])["structuredContent"] == {"result": "ended"}


async def test_who_has_more_sessions_takes_none_from_who_has_fewer():
    sessions = McpSessions(MemoryRecords(), idle=100, most=3)
    idle = await sessions.open("quiet", "2025-11-25")
    for _ in range(2):
        session = await sessions.open("loud", "2025-11-25")
        session.notices = Stream("n")
        session.notices.take_over("somebody")
    with pytest.raises(Exception, match="all sessions are in use"):
        await sessions.open("loud", "2025-11-25")
    assert sessions.at_hand("quiet", idle.id) is idle


def test_a_stop_waits_for_an_answer_that_is_read_on_another_connection():
    waiting = Waiting()
    with served(tools=[waiting.tool(speaks=True)]) as found:
        session = Session(found)
        body = request("tools/call", {"name": "desk__wait"}, 9)
        with Reading(found, "POST", "/mcp", body, session.headers) as stream:
            stream.wait(1)
            last = stream.ids[-1]
        again = session.listen(**{"last-event-id": last})
        assert until(lambda: len(found.service.mcp.hub) == 1)
        # Told in the loop before anything else of the stop is done.
        threading.Timer(0.3, waiting.end.set).start()
    assert until(lambda: again.over)
    assert again.messages[-1]["result"]["structuredContent"] == {"result": "ended"}
    again.close()


async def test_cancels_of_what_is_not_here_are_few_and_small():
    records = MemoryRecords()
    records.shared = True
    for number in range(200):
        await pass_cancel_on(records, "session", f"{number}" + "x" * 60_000)
    kept = records.all("mcp_cancel")
    assert len(kept) == 64
    assert max(len(record.name) for record in kept) <= 64


class Odd:
    """What cannot even be shown."""

    def __repr__(self):
        raise ValueError("no")


def odd(ctx: ToolContext) -> str:
    """Logs what is no JSON."""
    loop = []
    loop.append(loop)
    for data in (object(), Odd(), loop, "\ud800", {1, 2}, {"deep": {("a", 1): 2}}):
        ctx.log(data, "warning")
    ctx.log("odd level", ["x"])
    ctx.report("much")
    return "said"


def test_what_is_no_json_is_logged_as_it_would_be_shown():
    with served(tools=[function_tool(odd, namespace="desk")]) as found:
        params = {"name": "desk__odd", "_meta": {"progressToken": "p"}}
        answer = Session(found).send("tools/call", params)
        assert result(answer)["structuredContent"] == {"result": "said"}
        told = [each["params"]["data"] for each in events(answer.body) if each.get("method") == "notifications/message"]
        assert re.match("<object object", told[0])
        assert told[1] == "<Odd>"
        assert len(told) >= 6


def test_what_costs_much_to_read_takes_a_place_of_its_reader(shared):
    with served(shared, tools=desk_tools(), mcp=McpBlock(expose="search", sessions=True)) as found:
        client = Stateless(found, found.key("*:*"))
        entered, reads = [], found.service.reads
        real = reads.enter

        def enter(principal):
            entered.append(principal.name)
            return real(principal)

        reads.enter = enter
        result(client.send("tools/list"))
        result(client.call("search_tools", {"query": "add"}))
        name = result(client.call("toolyard.session_open"))["structuredContent"]["session_id"]
        entered.clear()
        result(client.call("toolyard.session_state", {"session_id": name}))
        result(client.call("search_tools", {"query": "add"}))
        assert entered == ["someone", "someone"]


async def test_a_session_is_dropped_with_what_runs_in_it_told_why():
    records = MemoryRecords()
    sessions = McpSessions(records, idle=100, most=3)
    session = await sessions.open("k", "2025-11-25")
    task = asyncio.ensure_future(asyncio.sleep(SOON))
    session.running[1] = underway = Underway(task)
    await sessions.end("k", session.id)
    assert underway.reason == "over"
    with pytest.raises(asyncio.CancelledError):
        await task
    assert records.all(KIND) == []
