"""Tools of an MCP server that are registered over HTTP."""

import pytest
from engines.mcp.support import raw

from serving.service_support import served

pytestmark = pytest.mark.process

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def bound(server, name="echo"):
    return {"parameters": SCHEMA, "binding": {"type": "mcp", "server": server, "tool_name": name}}


def test_a_registered_tool_is_called_on_the_server_that_the_yard_knows(tmp_path):
    with served({"tools": [{"type": "mcp", "namespace": "raw", **raw(tmp_path / "raw")}]}) as server:
        (source,) = {tool.source for tool in server.service.yard.tool_registry}
        for name in ("raw", source):
            made = server.ask("PUT", "/v1/tools/mine::say", bound(name))
            assert made.json["engine"] == "mcp"
            assert server.invoke("mine::say", {"text": "x"}).json["result"] == {"result": "x"}
        lost = server.ask("PUT", "/v1/tools/mine::lost", bound("elsewhere"))
        assert (lost.status, "engine" in lost.json) == (201, False)
        refused = server.invoke("mine::lost", {"text": "x"})
        assert (refused.status, refused.json["error"]["code"]) == (409, "tool.no_engine")


def test_who_may_not_change_everything_cannot_borrow_a_servers_tools(tmp_path):
    source = {"type": "mcp", "namespace": "raw", **raw(tmp_path / "raw")}
    store = {"store": "sqlite", "path": str(tmp_path / "yard.db")}
    with served({"tools": [source], "sessions": store}) as server:
        mine, all_of_it = server.key("mine:*"), server.key("*:admin")
        refused = server.ask("PUT", "/v1/tools/mine::say", bound("raw"), token=mine)
        assert (refused.status, refused.error["code"]) == (403, "auth.forbidden")
        assert server.ask("PUT", "/v1/tools/mine::say", bound("raw"), token=all_of_it).status == 201
