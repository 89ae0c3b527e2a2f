"""MCP over HTTP: one path for all versions, and the two of the first version."""

import asyncio
import json
import socket
import struct
import threading

import pytest
from waiting import SOON, Hung, until

from serving.mcp.mcp_support import META, Session, SseClient, Stateless, make_request, read_events, read_result
from serving.service_support import CORE, desk_tools, served
from toolyard import function_tool


def reset(line):
    """Be gone at once, without a word."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def test_a_call_whose_client_disconnects_before_it_begins_is_not_run():
    ran = threading.Event()

    async def run() -> str:
        """Says that it ran."""
        ran.set()
        return "ran"

    with served(tools=[function_tool(run, namespace="desk")]) as found:
        face, held = found.service.mcp, threading.Event()
        real = face.current_names

        async def late():
            held.set()
            await asyncio.to_thread(until, lambda: not found.limit.open)
            return await real()

        face.current_names = late
        body = json.dumps(make_request("tools/call", {"name": "desk__run", "_meta": META})).encode()
        head = (
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nmcp-method: tools/call\r\n"
            f"mcp-name: desk__run\r\nmcp-protocol-version: 2026-07-28\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        line = socket.create_connection(("127.0.0.1", found.port), timeout=SOON)
        line.sendall(head.encode() + body)
        assert held.wait(SOON)
        reset(line)
        assert until(lambda: not face.is_stale)
        face.current_names = real
        assert read_result(Stateless(found).call("echo", {"text": "x"}))
        assert not ran.is_set()


@pytest.mark.parametrize("takes", ["application/json, text/event-stream", "text/event-stream"])
def test_a_conflict_of_idempotency_keys_is_the_answer_to_the_request(takes):
    with served(tools=desk_tools()) as found:
        client = Session(found)
        meta = {"_meta": {"toolyard/idempotency_key": "once"}}
        accept = {"accept": takes}
        client.send("tools/call", {"name": "desk__add", "arguments": {"a": 1, "b": 1}, **meta})
        params = {"name": "desk__add", "arguments": {"a": 2, "b": 1}, **meta}
        other = client.send("tools/call", params, number=9, headers=accept)
        told = other.json if "json" in other.headers["content-type"] else read_events(other.body)[-1]
        assert (other.status, told["jsonrpc"], told["id"], told["error"]["code"]) == (200, "2.0", 9, -32000)
        assert told["error"]["data"]["error"]["code"] == "request.conflict"


@pytest.fixture
def desk():
    with served(tools=desk_tools()) as found:
        yield found


def test_answers_come_on_the_stream(desk):
    client = SseClient(desk)
    with client.stream:
        greeting = client.ask("initialize", {"protocolVersion": "2024-11-05"}, 0)["result"]
        assert greeting["protocolVersion"] == "2024-11-05"
        assert client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        names = [tool["name"] for tool in client.ask("tools/list", number=2)["result"]["tools"]]
        assert "echo" in names
        called = client.ask("tools/call", {"name": "desk__add", "arguments": {"a": 1, "b": 2}}, 3)
        assert called["result"]["structuredContent"] == {"result": 3}
        assert client.ask("nothing", number=4)["error"]["code"] == -32601
        assert client.ask("ping", number="five")["result"] == {}


def test_a_client_is_told_of_changes(desk):
    client = SseClient(desk)
    with client.stream:
        client.ask("initialize", {"protocolVersion": "2024-11-05"}, 0)
        desk.service.yard.tool_registry.remove("desk::add")
        assert until(
            lambda: any(each.get("method") == "notifications/tools/list_changed" for each in client.stream.messages)
        )


def test_running_calls_end_with_the_stream():
    import asyncio

    began, ended = threading.Event(), threading.Event()

    async def wait() -> str:
        """Waits to be cancelled."""
        began.set()
        try:
            await asyncio.sleep(SOON)
        finally:
            ended.set()
        return "never"

    with served(tools=[function_tool(wait, namespace="desk")]) as found:
        client = SseClient(found)
        client.post(make_request("tools/call", {"name": "desk__wait"}))
        assert began.wait(SOON)
        client.stream.close()
        assert ended.wait(SOON)
        assert until(lambda: not found.service.mcp.sse_clients)
        assert client.post(make_request("ping")).status == 404


def test_a_stream_belongs_to_its_key(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as found:
        mine, other = found.key("*:*"), found.key("*:*")
        assert found.get("/sse").status == 401
        client = SseClient(found, mine)
        with client.stream:
            assert client.ask("ping")["result"] == {}
            assert client.post(make_request("ping"), token=other).status == 404


def test_an_invalid_message_is_refused(desk):
    client = SseClient(desk)
    with client.stream:
        assert client.post(b"{").status == 400
        assert client.post(b"[]").status == 400
        assert client.post({"jsonrpc": "2.0", "id": 7}).status == 202
        assert client.answer(7)["error"]["code"] == -32600
        assert desk.post("/messages", make_request("ping")).status == 404
        assert desk.post("/messages?session_id=x", make_request("ping")).status == 404
        assert desk.get("/sse", headers={"accept": "application/json"}).status == 406
        assert desk.ask("HEAD", "/sse").status == 405


def test_a_failure_of_the_server_is_an_error_whose_cause_is_logged(caplog):
    async def fail():
        raise RuntimeError("a bug")

    with served(CORE) as found:
        found.service.mcp.current_names = fail
        client = SseClient(found)
        with client.stream:
            assert client.ask("tools/list")["error"] == {"code": -32603, "message": "the server failed; its log has it"}
    lines = [record for record in caplog.records if record.name == "toolyard.serving.mcp.message_client"]
    assert [line.getMessage() for line in lines] == ["tools/list: failed with RuntimeError"]


def test_a_message_to_another_worker_is_answered_on_the_stream(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as one, served(config) as two:
        client = SseClient(one)
        with client.stream:
            client.found = two
            assert client.ask("ping", number=1)["result"] == {}
            called = client.ask("tools/call", {"name": "echo", "arguments": {"text": "x"}}, 2)
            assert called["result"]["structuredContent"] == {"text": "x"}
        assert until(lambda: two.post(client.path, make_request("ping")).status == 404)


def test_a_call_that_goes_on_past_its_deadline_is_counted_by_itself_alone():
    hung = Hung()
    stuck = function_tool(hung.__call__, namespace="desk", name="hang")
    with served(tools=[stuck], call_timeout=0.5) as found:
        client = SseClient(found)
        with client.stream:
            late = client.ask("tools/call", {"name": "desk__hang"}, 1)["result"]
            assert late["structuredContent"]["error"]["code"] == "tool.timeout"
            for number in range(2, 22):
                # Called with a key of its own, so that it takes the way of calls that wait.
                meta = {"toolyard/call_id": f"c{number}"}
                params = {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}
                assert client.ask("tools/call", params, number)["result"]["isError"] is False
            admission = found.service.admission
            assert until(lambda: (admission.running, admission.aside) == (0, 1))
            hung.end.set()
            assert until(lambda: admission.aside == 0)


def big(size: int) -> str:
    """So many letters."""
    return "x" * size


def endpoint(line):
    data = b""
    while b"data: /messages" not in data or not data.endswith(b"\n\n\r\n"):
        data += line.recv(4096)
    return data.partition(b"data: ")[2].split(b"\n")[0].decode()


def opened(found, path="/sse", more="", *, buffer=None):
    """A connection that has asked for a stream, and reads nothing by itself."""
    line = socket.socket()
    if buffer is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    line.settimeout(SOON)
    line.connect(("127.0.0.1", found.port))
    line.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n{more}\r\n".encode())
    return line


def read_until(line, words):
    """What comes until all of these have."""
    data, missing = bytearray(), list(words)
    while missing:
        more, end = line.recv(1 << 20), max(0, len(data) - 100)
        assert more, "the stream ended before"
        data += more
        missing = [word for word in missing if data.find(word, end) < 0]
    return data


def test_a_slow_reader_gets_every_answer():
    with served(tools=[function_tool(big, namespace="desk")]) as found, opened(found, buffer=65536) as line:
        path = endpoint(line)
        numbers = range(1, 9)
        for number in numbers:
            params = {"name": "desk__big", "arguments": {"size": 400_000}}
            assert found.post(path, make_request("tools/call", params, number)).status == 202
        assert until(lambda: not next(iter(found.service.mcp.sse_clients.values())).running)
        words = [b'"id":%d,"result"' % number for number in numbers]
        assert read_until(line, words)


def test_messages_of_a_client_that_does_not_read_are_refused():
    with served(tools=[function_tool(big, namespace="desk")]) as found, opened(found, buffer=65536) as line:
        path, number = endpoint(line), 0
        client = next(iter(found.service.mcp.sse_clients.values()))
        while not client.is_full:
            number += 1
            params = {"name": "desk__big", "arguments": {"size": 3_000_000}}
            assert found.post(path, make_request("tools/call", params, number)).status == 202
            assert until(lambda: not client.running)
        refused = found.post(path, make_request("ping", number=1000))
        assert (refused.status, refused.error["code"]) == (429, "server.overloaded")
        read_until(line, [b'"id":%d,"result"' % each for each in range(1, number + 1)])
        assert until(lambda: not client.is_full)
        assert found.post(path, make_request("ping", number=1001)).status == 202
        assert read_until(line, [b'"id":1001,"result"'])


def test_read_answers_are_released():
    with served(tools=[function_tool(big, namespace="desk")]) as found:
        client = SseClient(found)
        with client.stream:
            answer = client.ask("tools/call", {"name": "desk__big", "arguments": {"size": 1_000_000}}, 1)
            assert len(answer["result"]["structuredContent"]["result"]) == 1_000_000
            (here,) = found.service.mcp.sse_clients.values()
            assert until(lambda: here.stream.size == 0)


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_clients_that_are_gone_at_once_leave_nothing_behind(shared):
    with served(shared) as found:
        for _ in range(200):
            reset(opened(found))
        assert until(lambda: not found.service.mcp.sse_clients)
        assert until(lambda: len(found.service.mcp.subscribers) == 0)
        assert until(lambda: found.service.records.all("mcp_sse") == [])


def test_the_subscriptions_of_a_client_are_limited():
    with served() as found:
        client = SseClient(found)
        with client.stream:
            params = {"notifications": {"toolsListChanged": True}, "_meta": META}
            for number in range(17):
                client.post(make_request("subscriptions/listen", params, number))
            error = client.answer(16)["error"]
            assert (error["code"], "16 subscriptions" in error["message"]) == (-32000, True)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
            assert client.post(cancel).status == 202
            client.post(make_request("subscriptions/listen", params, 20))
            acknowledged = "notifications/subscriptions/acknowledged"
            assert until(lambda: [each.get("method") for each in client.stream.messages].count(acknowledged) == 17)
