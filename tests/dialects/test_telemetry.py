"""A call over MCP is one trace on both sides, and both note how long it took, by the semantic conventions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from waiting import SOON

from toolyard.dialects.telemetry import carry_trace, follow_trace, measure_request

HERE = Path(__file__).resolve().parent
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def told():
    done = subprocess.run(
        [sys.executable, str(HERE / "mcp_traced_calls.py")],
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        timeout=3 * SOON,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.process
def test_what_a_server_does_belongs_to_the_span_of_the_call_that_asked_for_it(told):
    calls = {span["id"]: span for span in told["spans"] if span.get("toolyard.namespace") == "far"}
    mine = next(span for span in told["spans"] if span["name"] == "mine")
    assert len(calls) == 3 and all(call["parent"] == mine["id"] for call in calls.values())
    assert all(
        call["mcp.method.name"] == "tools/call" and call["network.transport"] == "tcp" for call in calls.values()
    )
    served = [span for span in told["spans"] if span.get("toolyard.namespace") == "desk"]
    assert [span["gen_ai.tool.name"] for span in served] == ["add", "add", "refuse"]
    assert sorted(span["parent"] for span in served) == sorted(calls)
    assert {span["trace"] for span in told["spans"]} == {mine["trace"]} and all(span["remote"] for span in served)
    # A call by itself is no part of a conversation.
    assert not any("gen_ai.conversation.id" in span for span in served)


@pytest.mark.process
def test_both_sides_note_how_long_requests_took_and_how_they_failed(told):
    points = [point for point in told["points"] if point["mcp.method.name" if "mcp" in point["metric"] else "metric"]]
    calls = {
        (point["metric"], point["gen_ai.tool.name"], point.get("error.type")): point["count"]
        for point in points
        if "gen_ai.tool.name" in point
    }
    assert calls == {
        ("mcp.client.operation.duration", "desk__add", None): 2,
        ("mcp.client.operation.duration", "desk__refuse", "tool_error"): 1,
        ("mcp.server.operation.duration", "desk::add", None): 2,
        ("mcp.server.operation.duration", "desk::refuse", "tool_error"): 1,
        ("gen_ai.execute_tool.duration", "desk__add", None): 2,
        ("gen_ai.execute_tool.duration", "desk__refuse", "tool.execution_error"): 1,
        ("gen_ai.execute_tool.duration", "add", None): 2,
        ("gen_ai.execute_tool.duration", "refuse", "tool.execution_error"): 1,
    }
    assert all((point["unit"], point["bounds"]) == ("s", 14) for point in points)
    lists = {point["metric"] for point in points if point.get("mcp.method.name") == "tools/list"}
    assert lists == {"mcp.client.operation.duration", "mcp.server.operation.duration"}


def test_a_request_carries_the_trace_it_is_made_in_and_nothing_where_there_is_none():
    meta = {"progressToken": 1}
    assert carry_trace(meta) is meta
    context = SpanContext(int(TRACE[3:35], 16), int(TRACE[36:52], 16), is_remote=False, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(context)):
        assert carry_trace(meta) == {"progressToken": 1, "traceparent": TRACE}
    assert meta == {"progressToken": 1}


@pytest.mark.parametrize(
    "meta", [{}, {"traceparent": "nonsense"}, {"traceparent": 5}, {"traceparent": None, "tracestate": "a=b"}]
)
def test_what_names_no_trace_changes_nothing(meta):
    with follow_trace(meta):
        assert not trace.get_current_span().get_span_context().is_valid


def test_a_trace_is_followed_within_and_left_after_also_by_a_failure():
    with pytest.raises(ValueError), follow_trace({"traceparent": TRACE, "tracestate": "x=1"}):
        found = trace.get_current_span().get_span_context()
        assert (format(found.trace_id, "032x"), found.trace_state.get("x")) == (TRACE[3:35], "1")
        raise ValueError
    assert not trace.get_current_span().get_span_context().is_valid


def test_what_fails_is_noted_by_its_code_or_its_class():
    class CodedError(Exception):
        code = -32602

    for error, name in ((CodedError(), "-32602"), (TimeoutError(), "TimeoutError")):
        with pytest.raises(type(error)), measure_request("client", "tools/call") as attributes:
            raise error
        assert attributes == {"mcp.method.name": "tools/call", "error.type": name}
