"""What a fault does: it delays a call, comes in its place, or loses or alters its answer."""

import pytest
from call_support import call, codes, engine_of, executions, registry_of
from fault_support import Counted, plan

from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import Content, text
from toolyard.model.errors import ToolFailed


@pytest.mark.parametrize(
    ("kind", "code", "effect", "retryable"),
    [
        ("network_error", "tool.unavailable", "none", True),
        ("rate_limit", "tool.unavailable", "none", True),
        ("timeout", "tool.timeout", "none", True),
        ("auth", "tool.execution_error", "none", False),
        ("not_found", "tool.execution_error", "none", False),
    ],
)
def test_an_error_comes_in_place_of_the_call_and_is_recorded(kind, code, effect, retryable):
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": kind, "message": "so there"})) as engine:
        (result,) = engine.execute("s", [call("look", "c1")])
        assert counted.calls == 0
        info = result.error_info
        assert (info.code, info.message, info.effect, info.retryable) == (code, "so there", effect, retryable)
        assert result.metadata == {"fault": {"type": kind, "rule": 0}}
        assert executions(engine)[0]["tool_output"]["metadata"] == {"fault": {"type": kind, "rule": 0}}


def test_a_rate_limit_says_when_to_come_back():
    with engine_of(Counted().tool(), faults=plan({"type": "rate_limit", "retry_after": 7})) as engine:
        assert engine.execute("s", [call("look")])[0].error_info.retry_after == 7.0
    with engine_of(Counted().tool(), faults=plan({"type": "rate_limit"})) as engine:
        assert engine.execute("s", [call("look")])[0].error_info.retry_after == 1.0


@pytest.mark.parametrize(
    ("kind", "effect"), [("network_error", "unknown"), ("timeout", "unknown"), ("schema_violation", "done")]
)
def test_an_answer_can_be_lost_after_the_tool_was_called(kind, effect):
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": kind, "after_call": True})) as engine:
        (result,) = engine.execute("s", [call("look")])
        assert (counted.calls, result.error_info.effect) == (1, effect)
    reading = Counted()
    with engine_of(reading.tool(), effects="read", faults=plan({"type": kind, "after_call": True})) as engine:
        assert engine.execute("s", [call("look")])[0].error_info.effect == "none"


def test_an_unparseable_result_is_a_garbled_piece_of_the_real_one():
    counted = Counted({"city": "Oslo"})
    with engine_of(counted.tool(), faults=plan({"type": "unparseable_result"})) as engine:
        results = engine.execute("s", [call("look") for _ in range(20)])
    assert counted.calls == 20
    for result in results:
        piece = result.result.removeprefix("<garbled: ").removesuffix(">")
        assert not result.is_error and piece and '{"city":"Oslo"}'.startswith(piece)
    assert len({result.result for result in results}) > 1


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}),
        ({"items": [1, 2, 3, 4]}, {"items": [1, 2]}),
        ([1, 2, 3], [1]),
        ("abcdef", "abc"),
        ({}, {}),
        (7, None),
        (Content([text("abcd")]), "ab"),
    ],
)
def test_a_partial_result_is_the_first_half(whole, part):
    with engine_of(Counted(whole).tool(), faults=plan({"type": "partial_result"})) as engine:
        result = engine.execute("s", [call("look")])[0]
        assert (result.result, result.metadata) == (part, {"fault": {"type": "partial_result", "rule": 0}})


def test_a_stale_read_is_the_last_answer_to_the_same_call():
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": "stale_read", "after": 1})) as engine:
        results = engine.execute("s", [call("look", place=place) for place in ("a", "b", "a", "a")])
        assert [result.result["seen"] for result in results] == [1, 2, 1, 1]
        assert [bool(result.metadata) for result in results] == [False, False, True, True]
        assert counted.calls == 4
    writing = Counted()
    with engine_of(writing.tool(), effects="write", faults=plan({"type": "stale_read"})) as engine:
        results = engine.execute("s", [call("look"), call("look")])
        assert [result.result["seen"] for result in results] == [1, 2] and results[1].metadata == {}


def test_latency_delays_the_answer_and_changes_nothing_else(monkeypatch):
    slept = []
    monkeypatch.setattr("toolyard.calls.drive.time.sleep", slept.append)
    with engine_of(Counted().tool(), faults=plan({"type": "latency", "seconds": 600})) as engine:
        result = engine.execute("s", [call("look")])[0]
        assert slept == [600]
        assert result.result == {"place": "here", "seen": 1}
        assert result.metadata["fault"]["type"] == "latency"


@pytest.mark.parametrize("kind", ["latency", "not_found"])
def test_who_waits_past_the_deadline_times_out_and_is_not_called(kind):
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": kind, "seconds": 60})) as engine:
        (result,) = engine.execute("s", [call("look")], timeout=0.05)
        assert (result.error_info.code, result.error_info.effect) == ("tool.timeout", "none")
        assert counted.calls == 0


def test_a_wrong_answer_is_not_checked_and_a_late_one_is():
    def look() -> dict:
        """Look."""
        return {"n": "no number"}

    options = {"output_parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    for kind, ok in (("unparseable_result", True), ("partial_result", True), ("latency", False)):
        rule = {"type": kind, **({"seconds": 0} if kind == "latency" else {})}
        with PythonToolEngine(registry_of(look, **options), output_check="strict", faults=plan(rule)) as engine:
            engine.setup("s")
            (result,) = engine.execute("s", [call("look")])
            assert (not result.is_error) == ok
            assert "output_violations" not in result.metadata


def test_a_tool_that_fails_by_itself_has_no_fault_to_show():
    def look() -> int:
        """Look."""
        raise ToolFailed("by itself")

    for kind, shown in (("unparseable_result", False), ("partial_result", False), ("latency", True)):
        rule = {"type": kind, **({"seconds": 0} if kind == "latency" else {})}
        with engine_of(look, faults=plan(rule)) as engine:
            (result,) = engine.execute("s", [call("look")])
            assert result.error == "by itself" and ("fault" in result.metadata) == shown


def test_refused_calls_meet_no_fault():
    with engine_of(Counted().tool(), faults=plan({"type": "auth"})) as engine:
        engine.execute("s", [call("nothing"), call("look", wrong=1)])
        assert codes(engine) == ["tool.not_found", "tool.invalid_args"]


def test_a_real_retry_does_not_undo_a_fault():
    counted = Counted()
    faults = plan({"type": "network_error"})
    with engine_of(counted.tool(), effects="read", retries=3, retry_delay=0, faults=faults) as engine:
        (result,) = engine.execute("s", [call("look")])
        assert result.error_info.code == "tool.unavailable" and counted.calls == 0 and "attempts" not in result.metadata


async def test_a_call_that_is_cancelled_while_it_is_kept_waiting_was_never_made():
    import asyncio

    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": "latency", "seconds": 600})) as engine:
        task = asyncio.ensure_future(engine.aexecute("s", [call("look")]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counted.calls == 0 and executions(engine) == []


def test_a_fault_is_in_the_trace_as_the_error_it_is():
    from call_support import Listener

    from toolyard.calls.tracer import Tracer

    listener = Listener()
    with engine_of(Counted().tool(), tracer=Tracer([listener]), faults=plan({"type": "rate_limit"})) as engine:
        engine.execute("s", [call("look")])
    assert [event.code for event in listener.events] == ["tool.unavailable"]
