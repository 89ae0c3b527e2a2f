"""Sessions of ours for MCP clients."""

from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import RAN, desk_tools, served
from toolyard.app.blocks import McpBlock


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
