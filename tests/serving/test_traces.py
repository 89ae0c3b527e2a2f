"""A trace goes on through a server: from the headers of a request to what its calls send, whoever traces."""

import json

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import served
from toolyard import ToolCall, function_tool
from toolyard.client import RemoteToolEngine

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"


def read_trace() -> str:
    """The trace that this call belongs to."""
    found = trace.get_current_span().get_span_context()
    state = found.trace_state.to_header()
    return f"{found.trace_id:032x}-{found.span_id:016x} {state}".strip() if found.is_valid else "none"


async def read_trace_async() -> str:
    """The same on the event loop."""
    return read_trace()


@pytest.fixture(scope="module")
def far():
    tools = [function_tool(made, namespace="far") for made in (read_trace, read_trace_async)]
    with served({"tools": []}, tools=tools) as server:
        yield server


@pytest.fixture(scope="module")
def near(far, tmp_path_factory):
    body = {"application/json": {"schema": {"type": "object", "properties": {"args": {"type": "object"}}}}}
    get = {"operationId": "ask", "requestBody": {"content": body}, "responses": {"200": {"description": "ok"}}}
    paths = {"/v1/tools/far::read_trace:invoke": {"post": get}}
    spec = tmp_path_factory.mktemp("spec") / "spec.json"
    document = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": paths}
    spec.write_text(json.dumps({**document, "servers": [{"url": far.url}]}))
    config = {
        "tools": [
            {"type": "rest", "spec": str(spec), "namespace": "rest", "base_url": far.url},
            {"type": "mcp", "url": f"{far.url}/mcp", "namespace": "mcp"},
        ]
    }
    with served(config) as server:
        yield server


WAYS = {
    "v1": lambda server, name, args, sent: server.invoke(name, args, headers=sent).json["result"],
    "calls": lambda server, name, args, sent: server.post(
        "/v1/calls", {"calls": [{"name": name, "arguments": args}]}, headers=sent
    ).json["results"][0]["result"],
    "arp": lambda server, name, args, sent: server.arp(f"{name} {hash(str(sent))}", name, args, headers=sent).json[
        "result"
    ],
    "mcp": lambda server, name, args, sent: read_result(Stateless(server).call(name, args, meta=sent))[
        "structuredContent"
    ],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["far::read_trace", "far::read_trace_async"])
def test_a_call_belongs_to_the_trace_of_its_request(far, way, name):
    said = str(WAYS[way](far, name, {}, {"traceparent": PARENT, "tracestate": "a=b"}))
    assert f"{PARENT[3:-3]} a=b" in said
    assert "none" in str(WAYS[way](far, name, {}, {}))


@pytest.mark.parametrize("way", ["v1", "arp"])
@pytest.mark.parametrize(
    "bad", ["", "x", PARENT[:-1], "ff" + PARENT[2:], PARENT.replace("4bf9", "zzzz"), "\xe9", "0" * 9999]
)
def test_a_header_that_names_no_trace_is_ignored_in_silence(far, way, bad, caplog):
    assert "none" in str(WAYS[way](far, "far::read_trace", {}, {"traceparent": bad.encode("latin-1")}))
    assert caplog.messages == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "args"), [("rest::ask", {"args": {}}), ("mcp::far__read_trace", {})])
def test_what_a_call_sends_goes_on_with_the_trace(near, way, name, args):
    said = str(WAYS[way](near, name, args, {"traceparent": PARENT, "tracestate": "a=b"}))
    assert f"{PARENT[3:-3]} a=b" in said
    assert "none" in str(WAYS[way](near, name, args, {}))


def test_the_meta_of_an_mcp_request_goes_before_the_headers_it_came_with(far):
    answer = Stateless(far).call("far::read_trace", meta={"traceparent": PARENT}, headers={"traceparent": OTHER})
    assert PARENT[3:-3] in str(read_result(answer))


def test_a_remote_engine_passes_on_the_trace_that_it_is_called_in(far):
    context = SpanContext(int(PARENT[3:35], 16), int(PARENT[36:52], 16), is_remote=False, trace_flags=TraceFlags(1))
    with RemoteToolEngine(far.url) as engine, trace.use_span(NonRecordingSpan(context)):
        engine.setup("traced")
        [answer] = engine.execute("traced", [ToolCall("far::read_trace")])
    assert answer.result == PARENT[3:-3]
