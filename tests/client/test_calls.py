"""The call log and the events of a server, through the remote client."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest
from links.fake_server import respond
from serving.routes.test_approvals import PAID, bank
from waiting import until

from client.cutting_proxy import CuttingProxy
from client.fake_wire import FakeWire
from client.served import served
from toolyard import ToolCall, ToolRegistry, function_tool
from toolyard.calls.journal import CallFilter
from toolyard.client import RemoteToolEngine
from toolyard.client.calls import RemoteJournal
from toolyard.client.wire import ServerWire
from toolyard.model.errors import (
    ApprovalError,
    ApprovalForbiddenError,
    ConfigError,
    DefinitionError,
    ToolyardError,
    Unavailable,
    UnknownApprovalError,
)
from toolyard.serving.identity import read_scopes


def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@pytest.fixture
def yard():
    with served(ToolRegistry([function_tool(double, namespace="n")])) as service:
        yield service


@pytest.fixture
def engine(yard):
    with RemoteToolEngine(yard.url) as engine:
        engine.setup("s")
        yield engine


def call(engine, *ids, x=1):
    engine.execute("s", [ToolCall("n::double", {"x": x}, each) for each in ids])


def read_ids(events, count):
    """Call ids of the next calls that ended."""
    found = []
    while len(found) < count:
        event = next(events)
        found += [event.about["call_id"]] if event.kind == "call.ended" else []
    return found


def test_calls_are_the_rows_that_the_server_has_page_by_page(engine, yard):
    call(engine, "a", "b", "c")
    call(engine, "bad", x="no number")
    kept = yard.yard.tool_engine.journal.list_calls(CallFilter(), 10).rows
    first = engine.journal.calls(limit=3)
    rest = engine.journal.calls(limit=3, cursor=first.next_cursor)
    assert [row.call_id for row in first.rows + rest.rows] == ["bad", "c", "b", "a"] and rest.next_cursor is None
    for far, here in zip(first.rows + rest.rows, kept, strict=True):
        assert far.to_dict() == here.to_dict() and far.number == here.number


async def test_the_filter_is_that_of_the_journal_in_this_process(engine):
    await engine.aexecute("s", [ToolCall("n::double", {"x": 1}, "good"), ToolCall("n::none", {}, "bad")])
    [failed] = (await engine.journal.acalls(CallFilter(errors=True, session_id="s"))).rows
    assert (failed.call_id, failed.code) == ("bad", "tool.not_found")
    for wanted in (CallFilter(tool="x*"), CallFilter(until=failed.time - 60), CallFilter(since=failed.time + 60)):
        assert (await engine.journal.acalls(wanted)).rows == []
    with pytest.raises(DefinitionError):
        await engine.journal.acalls(cursor="made up")


async def test_a_task_is_told_of_calls_as_they_are_made_and_goes_on_behind_the_event_that_it_names(engine):
    await engine.aexecute("s", [ToolCall("n::double", {"x": 1}, "before")])
    events = engine.journal.aevents(after="x-0")
    assert (await anext(events)).kind == "events.missed"
    await engine.aexecute("s", [ToolCall("n::double", {"x": 1}, each) for each in ("a", "b")])
    first = [await anext(events) for _ in range(4)]
    await events.aclose()
    assert [event.kind for event in first] == ["call.begun", "call.ended"] * 2
    again = engine.journal.aevents(after=first[1].id)
    assert [await anext(again), await anext(again)] == first[2:]
    await again.aclose()


def test_a_dropped_stream_goes_on_without_gap_or_double(yard, engine):
    address = urlsplit(yard.url)
    with (
        CuttingProxy((address.hostname, address.port)) as proxy,
        RemoteToolEngine(proxy.url, retries=5) as watcher,
    ):
        events = watcher.journal.events(after="x-0")
        assert next(events).kind == "events.missed"
        call(engine, "a")
        assert read_ids(events, 1) == ["a"]
        proxy.drop_all()
        call(engine, "b", "c")
        assert read_ids(events, 2) == ["b", "c"]
        events.close()
        until(lambda: yard.events.readers == 0)


def test_a_server_that_is_gone_or_refuses_is_an_error_of_its_kind():
    with served(ToolRegistry([function_tool(double, namespace="n")])) as yard:
        yard.keys.create("somebody", read_scopes(["*:*"]))
        with RemoteToolEngine(yard.url, api_key="made-up", load=False) as engine:
            with pytest.raises(ConfigError, match="check the key"):
                next(engine.journal.events())
            with pytest.raises(ConfigError, match="check the key"):
                engine.journal.calls()
    with RemoteToolEngine(yard.url, load=False, retry_delay=0.001) as engine, pytest.raises(Unavailable):
        next(engine.journal.events())


async def read_first_event(answers):
    """The first event of a server whose connections are answered so, one after the other, and closed."""
    left = iter(answers)

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        kind, body = next(left)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\nconnection: close\r\n\r\n"
        writer.write(head % kind + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        wire = ServerWire(f"http://127.0.0.1:{port}", retries=2, retry_delay=0.001)
        events = RemoteJournal(wire).aevents()
        try:
            return await anext(events)
        finally:
            await events.aclose()
            await wire.link.aclose()


@pytest.mark.parametrize("quiet", [b"", b"retry: 1\n\n", b": still here\n\n"])
async def test_streams_on_which_nothing_happens_are_taken_up_again_however_often_they_end(quiet):
    happened = b"id: 7\nevent: call.ended\ndata: {}\n\n"
    answers = [(b"text/event-stream", quiet)] * 8 + [(b"text/event-stream", happened)]
    assert (await read_first_event(answers)).id == "7"


async def test_what_is_no_stream_of_events_is_not_asked_for_without_end():
    with pytest.raises(Unavailable):
        await read_first_event([(b"text/html", b"<p>come back later</p>")] * 20)


@pytest.mark.parametrize(
    "duration", ["1" + "0" * 400, "-1" + "0" * 400, '"long"', "null"], ids=["high", "low", "text", "none"]
)
def test_a_page_with_a_duration_that_is_none_is_said_to_be_no_list_of_calls(yard, engine, duration):
    call(engine, "a")
    [row] = engine.journal.calls().rows
    page = {"calls": [{**row.to_dict(), "duration_ms": "?"}]}
    with FakeWire() as server, RemoteToolEngine(server.url, load=False) as other:
        server.otherwise = lambda request: respond(200, json.dumps(page).replace('"?"', duration).encode())
        with pytest.raises(ToolyardError, match="other than a list of calls"):
            other.journal.calls()


def test_a_held_call_comes_through_with_its_code_and_runs_once_somebody_approved_it_from_afar(tmp_path):
    PAID.clear()
    with bank(tmp_path) as yard:
        agent = RemoteToolEngine(yard.url, api_key=yard.key("bank:list,execute", name="robot"))
        boss = RemoteToolEngine(yard.url, api_key=yard.key("bank:list,approve", name="chief"))
        with agent, boss:
            agent.setup("s")
            send = lambda: agent.execute("s", [ToolCall("bank::pay", {"amount": 5})])[0]  # noqa: E731
            held = send()
            assert held.error_info.code == "tool.held"
            [found] = boss.approvals.list(state="pending", tool="bank::pay", session_id="s").approvals
            assert found.id == held.error_info.details["approval"]["id"] and found.expires > found.created
            with pytest.raises(ApprovalForbiddenError, match="a call of your own"):
                agent.approvals.approve(found.id)
            approved = boss.approvals.approve(found.id, "fine")
            assert (approved.state, approved.decided_by, approved.reason) == ("approved", "chief", "fine")
            assert send().result == 5 and PAID == [5]
            assert agent.approvals.get(found.id).outcome.code == "ok"
            with pytest.raises(ApprovalError, match="is decided already"):
                boss.approvals.deny(found.id)
            assert [one.state for one in boss.approvals.list(state="all").approvals] == ["used"]


def test_what_is_not_there_and_cursors_made_up_are_errors_of_their_kind(tmp_path):
    with bank(tmp_path) as yard, RemoteToolEngine(yard.url, api_key=yard.key("bank:list", name="robot")) as engine:
        for look in (engine.approvals.get, engine.approvals.approve, engine.approvals.deny):
            with pytest.raises(UnknownApprovalError):
                look("no/thing")
        with pytest.raises(DefinitionError):
            engine.approvals.list(cursor="made up")
