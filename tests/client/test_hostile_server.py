"""Servers that are broken or hostile: the cost of their responses is bounded, and the error is clear."""

import json
from itertools import product

import pytest
from links.fake_server import respond, send_raw

from client.fake_wire import EXECUTE, TOOLS, FakeWire
from conftest import SOAK
from toolyard import ToolCall
from toolyard.client import RemoteToolEngine, RemoteToolRegistry, wire as module
from toolyard.model.errors import ConfigError, SourceUnavailable, ToolFailed, ToolyardError, Unavailable

DEEP = b"[" * 100_000 + b"]" * 100_000
ODD = [
    b"null",
    b"[]",
    b"{}",
    b"7",
    b"",
    b"{",
    b"\xff",
    b"NaN",
    DEEP,
    b"1" * 20_000,
    b'"\\ud800"',
    b'{"state":1,"state":2}',
]
SHAPES = [None, 7, "x", [7], [[]], [{}], {"a": 1}, 1e300, [{"source": 7}], [{"name": 7, "call_id": []}]]
SHAPES.append([{"source": "a", "loaded": "x", "rewrites": [], "rejected": [], "state": "ok", "error": None}])
FIELDS = ("tools", "results", "sources", "approvals", "state", "entries", "state_hash", "world_hash", "error", "id")
WAYS = {
    "refresh": lambda engine: engine.tool_registry.refresh(strict=True),
    "report": lambda engine: engine.tool_registry.server_report(),
    "execute": lambda engine: engine.execute("s", [ToolCall("n::echo", {"text": "a"})]),
    "state": lambda engine: engine.get_session_state("s"),
    "history": lambda engine: engine.get_session_history("s"),
    "state_hash": lambda engine: engine.state_hash("s"),
    "world_hash": lambda engine: engine.world_hash("s"),
    "world_diff": lambda engine: engine.world_diff("s"),
    "approvals": lambda engine: engine.approvals.list(),
    "approve": lambda engine: engine.approvals.approve("a"),
}
MEANT = {("state", "state"), ("state_hash", "state_hash"), ("world_hash", "world_hash")}
"""What is right there: a state may be any object, and a hash any text."""
OWN = {"refresh": "tools", "report": "sources", "execute": "results", "history": "entries", "approve": "id"}
"""The field that is looked at first, where it is not called like the way itself."""


@pytest.fixture
def server():
    with FakeWire() as fake:
        yield fake


@pytest.fixture
def engine(server):
    with RemoteToolEngine(server.url, retries=0) as found:
        yield found


def failure_of(way, engine):
    """What comes of it: an error that is raised, or that of a call's result."""
    try:
        found = WAYS[way](engine)
    except ToolyardError as error:
        return str(error)
    return found[0].error if way == "execute" else None


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_answer_is_said_to_be_none(way, server, engine):
    for body in ODD:
        server.otherwise = lambda request, body=body: respond(200, body)
        told = failure_of(way, engine)
        assert told is not None and server.url in told and len(told) < 1000, body[:40]


@pytest.mark.parametrize("way", WAYS)
def test_fields_of_another_type_are_errors_and_not_taken_over(way, server, engine):
    for field, shape in product(FIELDS, SHAPES):
        if (way, field) in MEANT and isinstance(shape, dict | str):
            continue
        # A field that is not looked at is as good as none, whatever its shape.
        if not SOAK and field != OWN.get(way, way) and shape != SHAPES[FIELDS.index(field)]:
            continue
        server.otherwise = lambda request, body={field: shape}: respond(200, body)
        told = failure_of(way, engine)
        assert told is not None and server.url in told, (field, shape)


def test_a_refusal_of_any_shape_is_an_error_of_bounded_length(server, engine):
    for error in ("x", [], {"code": 7}, {"code": ToolFailed.code, "message": "x" * 1_000_000}):
        server.otherwise = lambda request, error=error: respond(500, {"error": error})
        for way in WAYS:
            told = failure_of(way, engine)
            assert told is not None and len(told) <= 10_100


class TestEndless:
    def test_pages_of_a_catalog_that_lead_nowhere_end_the_reading(self, server):
        server.otherwise = lambda request: respond(
            200,
            {"tools": [], "generation": 1, "next_cursor": str(len(server.requests))}
            if request.path == TOOLS[1]
            else {"supported_api_versions": ["v1"]},
        )
        with pytest.raises(SourceUnavailable, match="pages have no end"):
            RemoteToolRegistry(server.url, retries=0)
        assert len(server.asked(*TOOLS)) == 1

    def test_a_page_of_more_tools_than_were_asked_for_is_not_taken(self, server):
        server.acts[TOOLS] = [respond(200, {"tools": [{}] * 100_000, "generation": 1})]
        with pytest.raises(SourceUnavailable, match="100,000 tools, where 1,000 were asked for"):
            RemoteToolRegistry(server.url, retries=0)

    @pytest.mark.parametrize("after", [0, -1, None])
    def test_a_history_that_goes_round_in_circles_is_an_error(self, server, engine, after):
        entry = {"id": 1, "call": {"name": "n::echo"}, "result": {"call_id": None, "name": "n::echo"}}
        entries = [entry] if after is not None else []
        server.otherwise = lambda request: respond(200, {"entries": entries, "next": 5 if after is None else after})
        with pytest.raises(Unavailable, match="pages have no end|other than a page of a history"):
            engine.get_session_history("s")
        assert len(server.asked("GET", "/v1/sessions/s/history")) == 1

    def test_a_list_has_a_bound_in_bytes_over_all_its_pages(self, server, monkeypatch):
        monkeypatch.setattr(module, "MAX_LIST_BYTES", 10_000)
        tools = [{**server.tools[0], "description": "x" * 3000}]
        server.otherwise = lambda request: respond(
            200, {"tools": tools, "generation": 1, "next_cursor": str(len(server.requests))}
        )
        server.acts["GET", "/v1/version"] = [respond(200, {"supported_api_versions": ["v1"]})]
        with pytest.raises(SourceUnavailable, match="goes on for more than 10,000 bytes"):
            RemoteToolRegistry(server.url, retries=0)
        assert len(server.asked(*TOOLS)) <= 4

    def test_a_body_without_an_end_is_cut_off_at_the_limit(self, server):
        def flood(connection, request):
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")

        with RemoteToolEngine(server.url, retries=0, max_bytes=1_000_000) as engine:
            server.otherwise = lambda request: flood
            told = failure_of("state", engine)
        assert "larger than 1,000,000 bytes" in told


class TestManyValues:
    def test_more_values_than_anybody_sends_are_not_even_read(self, server, engine, monkeypatch):
        monkeypatch.setattr(module, "MAX_VALUES", 1000)
        server.otherwise = lambda request: respond(200, b'{"state":{"a":[' + b"0," * 2000 + b"0]}}")
        assert "more than 1,000 values" in failure_of("state", engine)

    def test_commas_in_texts_are_no_values(self, server, engine, monkeypatch):
        monkeypatch.setattr(module, "MAX_VALUES", 1000)
        state = {"text": 'a,"\\' * 5000}
        server.otherwise = lambda request: respond(200, json.dumps({"state": state}).encode())
        assert engine.get_session_state("s") == state


def test_results_of_calls_that_are_another_number_leave_the_effect_unknown(server, engine):
    good = {"call_id": None, "name": "n::echo", "result": 1, "error": None, "metadata": {}}
    server.acts[EXECUTE] = [respond(200, {"results": [good] * 1000})]
    [result] = WAYS["execute"](engine)
    assert "1000 results for 1 calls" in result.error and result.error_info.effect == "unknown"


def test_what_is_no_http_is_an_error_of_the_address(server):
    server.otherwise = lambda request: send_raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n\r\n")
    with pytest.raises((ConfigError, SourceUnavailable), match="does not answer in HTTP"):
        RemoteToolRegistry(server.url, retries=0)
