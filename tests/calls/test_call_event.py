"""One event per call, with the facts of that call, and as JSON whatever they are."""

import asyncio
import json

import pytest
from call_support import SOON, Hung, Listener, Spans, call, engine_of, make_event, registry_of
from msgspec import UNSET

from toolyard.calls.call_event import json_bytes
from toolyard.calls.policy import Policy, Rule
from toolyard.calls.tracer import Tracer
from toolyard.engines.base import ToolEngine
from toolyard.model.call import ToolCall
from toolyard.words.redactor import Redactor


def add(x: int) -> int:
    return x + 1


def fail():
    raise ValueError("no")


def stop():
    raise KeyboardInterrupt


def traced(*functions, **options):
    listener = Listener()
    return listener, engine_of(*functions, tracer=Tracer([listener], **options.pop("tracing", {})), **options)


def test_every_call_is_told_once_with_its_facts():
    listener, engine = traced(add, fail, policy=Policy([Rule("deny", tools="n::gone")]))
    engine.execute("s", [call("add", "id", x="1"), call("fail"), call("none"), call("add", x="no")])
    tool = engine.tool_registry.snapshot.names["n::add"][0].tool
    first, second, third, fourth = listener.events
    assert (first.name, first.call_id, first.session_id, first.mode) == ("n::add", "id", "s", "execute")
    assert (first.seq, first.engine, first.coercions, first.attempts) == (1, "python", 1, 1)
    assert (first.definition_hash, first.code, first.effect) == (tool.definition_hash, None, None)
    assert (second.code, second.effect, second.seq) == ("tool.execution_error", "unknown", 2)
    assert (third.name, third.code, third.engine, third.definition_hash) == ("n::none", "tool.not_found", None, None)
    assert fourth.code == "tool.invalid_args"
    assert all(event.latency >= 0 and event.owner is None for event in listener.events)
    assert all(event.arguments is UNSET and event.result is UNSET for event in listener.events)


def test_a_simulation_says_that_it_is_one_and_an_owner_is_named():
    listener, engine = traced(add)
    engine.setup("mine", owner="ann")
    engine.simulate("s", [call("add", x=1)])
    engine.execute("mine", [call("add", x=1)], owner="ann")
    assert [(event.mode, event.owner) for event in listener.events] == [("simulate", None), ("execute", "ann")]


def test_a_bare_name_is_told_in_full():
    listener, engine = traced(add)
    engine.execute("s", [ToolCall("add", {"x": 1})])
    assert listener.events[0].name == "n::add"


def test_an_interrupted_call_is_told_too_and_no_span_stays_open():
    spans = Spans()
    engine = engine_of(add, stop, tracer=Tracer([spans]))
    with pytest.raises(KeyboardInterrupt):
        engine.execute("s", [call("add", x=1), call("stop")])
    assert [event.code for event in spans.events] == [None, "tool.interrupted"]
    assert spans.open == []


async def test_a_cancelled_call_is_told_too():
    began = asyncio.Event()

    async def wait():
        began.set()
        await asyncio.sleep(SOON)

    spans = Spans()
    engine = engine_of(wait, tracer=Tracer([spans]))
    task = asyncio.ensure_future(engine.aexecute("s", [call("wait")]))
    await began.wait()
    assert spans.open == ["n::wait"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [event.code for event in spans.events] == ["tool.interrupted"]
    assert spans.open == []


async def test_a_call_cancelled_while_it_waits_for_a_place_leaves_no_span_open():
    hung, spans = Hung(), Spans()

    def hang():
        return hung()

    engine = engine_of(hang, max_concurrent_calls=1, tracer=Tracer([spans]))
    engine.setup("t")
    first = asyncio.ensure_future(engine.aexecute("s", [call("hang")]))
    await asyncio.to_thread(hung.began.wait, SOON)
    second = asyncio.ensure_future(engine.aexecute("t", [call("hang")]))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    hung.end.set()
    await first
    assert spans.open == []
    assert [(event.code, event.effect) for event in spans.events] == [("tool.interrupted", "none"), (None, None)]


def test_what_an_engine_notes_is_told_without_secrets():
    class Noting(ToolEngine):
        def answer(self, invocation):
            invocation.notes = {"history": {"dropped": 3}, "server": "of hidden-key"}
            return 1

    listener, redactor = Listener(), Redactor(["hidden-key"])
    engine = Noting(registry_of(add), tracer=Tracer([listener], redactor=redactor))
    engine.setup("s")
    engine.execute("s", [call("add", x=1), call("none")])
    assert listener.events[0].notes == {"history": {"dropped": 3}, "server": "of [redacted]"}
    assert listener.events[1].notes is None


@pytest.mark.parametrize("value", ["\ud800", 2**64, -(2**64), 10**30, {"a": ["\udfff"]}, float("nan"), [1.5, None]])
def test_json_is_made_of_any_value(value):
    assert json_bytes(value).isascii()
    json.loads(json_bytes(make_event(arguments=value)))


def test_json_of_an_event_has_a_form_for_every_value_a_call_can_carry():
    odd = make_event(arguments={"n": 2**80, "half": "\ud800", "neg": -(2**70)}, error="\udfff")
    line = json_bytes(odd)
    assert b"\n" not in line
    back = json.loads(line)
    assert back["arguments"] == {"n": 2**80, "half": "\ud800", "neg": -(2**70)}
    assert back["error"] == "\udfff"
    assert "result" not in back
