"""Tools of the server itself."""

import pytest

from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import CORE, RAN, desk_tools, served
from toolyard.app.blocks import McpBlock


@pytest.mark.parametrize("name", ["call_tool", "desk__count"])
def test_a_call_through_call_tool_may_be_sent_again_too(name):
    with served(tools=desk_tools(), mcp=McpBlock(expose="search")) as found:
        client = Stateless(found)
        inner = {"word": "one"}
        arguments = {"name": "desk__count", "arguments": inner} if name == "call_tool" else inner
        before = len(RAN)
        first, again = (
            read_result(client.call(name, arguments, meta={"toolyard/idempotency_key": "once"}, number=number))
            for number in (1, 2)
        )
        assert first == again
        assert len(RAN) == before + 1


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_expensive_reads_take_a_place_of_their_key(shared):
    with served(shared, tools=desk_tools(), mcp=McpBlock(expose="search", sessions=True)) as found:
        client = Stateless(found, found.key("*:*"))
        entered, reads = [], found.service.reads
        real = reads.try_place

        def enter(principal):
            entered.append(principal.name)
            return real(principal)

        reads.try_place = enter
        read_result(client.send("tools/list"))
        read_result(client.call("search_tools", {"query": "add"}))
        name = read_result(client.call("toolyard.session_open"))["structuredContent"]["session_id"]
        entered.clear()
        read_result(client.call("toolyard.session_state", {"session_id": name}))
        read_result(client.call("search_tools", {"query": "add"}))
        assert entered == ["someone", "someone"]


def test_a_search_in_a_namespace_that_is_not_there_says_which_may_be_meant():
    with served(tools=desk_tools(), mcp=McpBlock(expose="search")) as found:
        answer = read_result(Stateless(found).call("search_tools", {"query": "add", "namespace": "dsk"}))
        assert answer["structuredContent"]["tools"] == []
        assert answer["structuredContent"]["notes"] == ["namespace: dsk matches no tool; did you mean desk?"]


def test_a_session_tool_may_be_sent_again_too():
    with served(tools=desk_tools(), mcp=McpBlock(sessions=True)) as found:
        client = Stateless(found)
        opened = [
            read_result(client.call("toolyard.session_open", {}, meta={"toolyard/idempotency_key": "open"}))
            for _ in range(2)
        ]
        assert opened[0] == opened[1]
        name = opened[0]["structuredContent"]["session_id"]
        arguments = {"session_id": name, "calls": [{"name": "desk::count", "arguments": {"word": "w"}}]}
        before = len(RAN)
        for _ in range(2):
            meta = {"toolyard/idempotency_key": "run"}
            assert not read_result(client.call("toolyard.session_execute", arguments, meta=meta))["isError"]
        assert len(RAN) == before + 1
