"""HTTP with SSE, the oldest transport: one stream for all responses, and servers that misbehave on it."""

import json
import queue
import threading

import pytest
from waiting import SOON, until

from links.fake_server import FakeServer, respond
from links.mcp.conftest import SECRET, in_seconds, text_of
from links.mcp.web_server import chunk, event, result, text
from toolyard.links.mcp.finder import candidates
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallTimeout, Denied, Interrupted, ToolFailed, Unavailable


class SseServer(FakeServer):
    """Answers come on the stream at `/sse`, for requests at `/messages`."""

    def __init__(self, context=None):
        self.endpoint = "/messages?session=1"
        self.queue = queue.SimpleQueue()
        self.tools = {}
        self.streams = 0
        super().__init__(context)
        self.otherwise = self.choose

    def choose(self, request):
        if (request.method, request.path) == ("GET", "/sse"):
            return self.stream
        if (request.method, request.path) != ("POST", "/messages"):
            return respond(405 if request.path == "/sse" else 404)
        message = request.json
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize":
            self.say(result(request, {"protocolVersion": "2024-11-05", "capabilities": {}}))
        elif method == "tools/list":
            self.say(result(request, {"tools": [{"name": "echo"}]}))
        elif method == "tools/call":
            act = self.tools.get(params["name"])
            if act is None:
                self.say(result(request, text(params["arguments"].get("text", ""))))
            else:
                return act(request) or respond(202)
        return respond(202)

    def say(self, message):
        self.queue.put(event(message) if isinstance(message, dict) else message)

    def stream(self, connection, request):
        self.streams += 1
        mine = self.queue  # not looked up again: a slow stream would take what is said to the one after it
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        chunk(connection, f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
        while (data := mine.get()) is not None:
            chunk(connection, data)
        return False

    def close(self):
        self.queue.put(None)
        super().close()


@pytest.fixture
def sse():
    with SseServer() as server:
        yield server


@pytest.fixture
def link(sse, links):
    return links(McpServer(name="sse", url=f"{sse.url}/sse", headers=(("x-key", SECRET),)))


def works(link):
    return text_of(link.call("echo", {"text": "on"}, deadline=in_seconds(10))) == "on"


def test_requests_and_answers_go_separate_ways(sse, link):
    assert [tool["name"] for tool in link.list_tools().tools] == ["echo"]
    assert works(link)
    assert link.protocol == "2024-11-05"
    assert all(request.headers["x-key"] == SECRET for request in sse.requests)
    assert {request.query.get("session") for request in sse.asked("POST", "/messages")} == {"1"}


def test_requests_are_not_sent_to_another_origin(sse, links):
    with FakeServer() as other:
        sse.endpoint = f"{other.url}/messages"
        link = links(McpServer(name="sse", url=f"{sse.url}/sse", transport="sse", headers=(("x-key", SECRET),)))
        with pytest.raises(Denied, match="another origin"):
            link.list_tools()
        assert other.connections == []


def test_a_stream_that_ends_fails_the_calls_in_flight_and_is_opened_again(sse, link):
    sse.tools["die"] = lambda request: sse.queue.put(None)
    link.list_tools()
    with pytest.raises(Interrupted) as caught:
        link.call("die", {})
    assert caught.value.info.effect == "unknown"
    until(lambda: link.state == "down")
    assert works(link)
    assert sse.streams == 2


def test_a_request_that_is_refused_fails_alone(sse, link):
    link.list_tools()
    sse.tools["bad"] = lambda request: respond(500)
    with pytest.raises(ToolFailed, match="answered 500"):
        link.call("bad", {})
    assert works(link) and link.state == "up"


def test_an_answer_that_is_too_large_or_unreadable_fails_alone(sse, link):
    def huge(request):
        number = request.json["id"]
        sse.say(b'data: {"jsonrpc":"2.0","id":%d,"result":"' % number)
        for _ in range(20):
            sse.say(b"x" * 1024 * 1024)
        sse.say(b'"}\n\n')

    sse.tools["huge"] = huge
    sse.tools["bad"] = lambda request: sse.say(b'data: {"jsonrpc":"2.0","id":%d,"result":}\n\n' % request.json["id"])
    with pytest.raises(ToolFailed, match="larger than 16,777,216"):
        link.call("huge", {}, deadline=in_seconds(20))
    with pytest.raises(ToolFailed, match="no JSON-RPC message"):
        link.call("bad", {}, deadline=in_seconds(20))
    assert works(link)
    assert sse.streams == 1


def test_a_call_past_its_deadline_is_cancelled(sse, link):
    sse.tools["silent"] = lambda request: None
    link.list_tools()
    with pytest.raises(CallTimeout):
        link.call("silent", {}, deadline=in_seconds(0.3))
    until(lambda: json.loads(sse.requests[-1].body)["method"] == "notifications/cancelled")


def test_requests_of_the_server_are_answered(sse, link):
    link.list_tools()
    sse.say({"jsonrpc": "2.0", "id": 77, "method": "ping"})
    assert until(lambda: json.loads(sse.requests[-1].body) == {"jsonrpc": "2.0", "id": 77, "result": {}})


def test_a_stream_that_never_says_where_requests_go_fails_in_time(links):
    stop = threading.Event()

    def silent(connection, request):
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        stop.wait(SOON)
        return False

    with FakeServer() as server:
        server.otherwise = lambda request: silent
        link = links(McpServer(name="sse", url=f"{server.url}/sse", transport="sse"), connect_seconds=1)
        with pytest.raises(Unavailable, match="did not answer"):
            link.list_tools()
        stop.set()


def test_an_address_with_neither_kind_says_what_the_first_answered(links):
    with FakeServer() as server:
        link = links(McpServer(name="none", url=server.url))
        with pytest.raises(ToolFailed, match="none answered 404 Not Found") as caught:
            link.list_tools()
        assert "/mcp" in caught.value.info.hint
        tried = {(request.method, request.path) for request in server.requests}
    assert tried == {("POST", "/"), ("POST", "/mcp"), ("GET", "/"), ("GET", "/sse")}


@pytest.mark.parametrize(
    ("url", "transport", "expected"),
    [
        ("http://h", "auto", [("http", "http://h"), ("http", "http://h/mcp"), ("sse", "http://h"), ("sse", "http://h/sse")]),
        ("http://h/a/?k=v", "auto", [("http", "http://h/a/?k=v"), ("http", "http://h/a/mcp?k=v"),
                                     ("sse", "http://h/a/?k=v"), ("sse", "http://h/a/sse?k=v")]),
        ("http://h/mcp", "auto", [("http", "http://h/mcp"), ("sse", "http://h/mcp")]),
        ("http://h/sse/", "auto", [("sse", "http://h/sse/"), ("http", "http://h/sse/")]),
        ("http://h/x", "http", [("http", "http://h/x")]),
        ("http://h/x", "sse", [("sse", "http://h/x")]),
    ],
)  # fmt: skip
def test_where_a_server_is_looked_for(url, transport, expected):
    server = McpServer(name="x", url=url, transport=transport)
    assert candidates(server) == expected


@pytest.mark.parametrize("status", [404, 410])
def test_a_stream_behind_which_nobody_knows_us_any_more_is_opened_anew_and_the_call_made_there(sse, link, status):
    link.list_tools()
    old = sse.queue

    def gone(request):
        del sse.tools["gone"]
        sse.queue = queue.SimpleQueue()  # what is said from now on is not for the old stream, which stays open
        return respond(status)

    sse.tools["gone"] = gone
    assert text_of(link.call("gone", {"text": "on"}, deadline=in_seconds(20))) == "on"
    assert sse.streams == 2
    old.put(None)
