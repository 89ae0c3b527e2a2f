"""The call log and the events of a server, from afar."""

from urllib.parse import urlsplit

import pytest
from waiting import until

from client.cutting_proxy import CuttingProxy
from client.served import served
from toolyard import ToolCall, ToolRegistry, function_tool
from toolyard.calls.journal import CallFilter
from toolyard.client import RemoteToolEngine
from toolyard.model.errors import ConfigError, DefinitionError, Unavailable
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
    with served(ToolRegistry([function_tool(double, namespace="n")]), keys=True) as yard:
        yard.keys.create("somebody", read_scopes(["*:*"]))
        with RemoteToolEngine(yard.url, api_key="made-up", load=False) as engine:
            with pytest.raises(ConfigError, match="check the key"):
                next(engine.journal.events())
            with pytest.raises(ConfigError, match="check the key"):
                engine.journal.calls()
    with RemoteToolEngine(yard.url, load=False, retry_delay=0.001) as engine, pytest.raises(Unavailable):
        next(engine.journal.events())
