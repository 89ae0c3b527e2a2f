"""The first HTTP transport."""

import re
import threading

import pytest
from service_support import CORE, desk_tools, served
from waiting import SOON, until

from mcp_face.mcp_support import Reading, request
from toolyard import function_tool


class Older:
    """A client of the first version: one stream, and posts to where it says."""

    def __init__(self, found, token=None):
        self.found = found
        self.token = token
        self.stream = Reading(found, "GET", "/sse", None, {"accept": "text/event-stream"}, token)
        assert self.stream.status == 200
        assert until(lambda: b"\n\n" in self.stream.body)
        self.path = re.search(rb"event: endpoint\ndata: (\S+)\n", self.stream.body)[1].decode()

    def post(self, body, token=None):
        return self.found.post(self.path, body, token=token or self.token)

    def ask(self, method, params=None, number=1):
        assert self.post(request(method, params, number)).status == 202
        return self.answer(number)

    def answer(self, number):
        def found():
            return [each for each in self.stream.messages if each.get("id") == number]

        assert until(found)
        return found()[-1]


@pytest.fixture
def desk():
    with served(tools=desk_tools()) as found:
        yield found


def test_answers_come_on_the_stream(desk):
    client = Older(desk)
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
    client = Older(desk)
    with client.stream:
        client.ask("initialize", {"protocolVersion": "2024-11-05"}, 0)
        desk.service.yard.tool_registry.remove("desk::add")
        assert until(
            lambda: any(each.get("method") == "notifications/tools/list_changed" for each in client.stream.messages)
        )


def test_what_runs_ends_with_the_stream():
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
        client = Older(found)
        client.post(request("tools/call", {"name": "desk__wait"}))
        assert began.wait(SOON)
        client.stream.close()
        assert ended.wait(SOON)
        assert until(lambda: not found.service.mcp.sse)
        assert client.post(request("ping")).status == 404


def test_a_stream_belongs_to_its_key(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as found:
        mine, other = found.key("*:*"), found.key("*:*")
        assert found.get("/sse").status == 401
        client = Older(found, mine)
        with client.stream:
            assert client.ask("ping")["result"] == {}
            assert client.post(request("ping"), token=other).status == 404


def test_what_is_no_message_is_refused(desk):
    client = Older(desk)
    with client.stream:
        assert client.post(b"{").status == 400
        assert client.post(b"[]").status == 400
        assert client.post({"jsonrpc": "2.0", "id": 7}).status == 202
        assert client.answer(7)["error"]["code"] == -32600
        assert desk.post("/messages", request("ping")).status == 404
        assert desk.post("/messages?session_id=x", request("ping")).status == 404
        assert desk.get("/sse", headers={"accept": "application/json"}).status == 406
        assert desk.ask("HEAD", "/sse").status == 405


def test_a_message_that_another_worker_got_is_answered_on_the_stream(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as one, served(config) as two:
        client = Older(one)
        with client.stream:
            client.found = two
            assert client.ask("ping", number=1)["result"] == {}
            called = client.ask("tools/call", {"name": "echo", "arguments": {"text": "x"}}, 2)
            assert called["result"]["structuredContent"] == {"text": "x"}
        assert until(lambda: two.post(client.path, request("ping")).status == 404)
