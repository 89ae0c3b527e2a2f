"""The `server.mcp` block: what it takes, and how it says what it does not."""

import jsonschema_rs
import pytest

from toolyard.app.blocks import McpBlock, ServerBlock
from toolyard.model.errors import ConfigError
from toolyard.schema.options import read_options
from toolyard.schema.options_schema import options_schema

MCP_SCHEMA = options_schema(McpBlock)

GOOD = [
    {},
    {"enabled": False},
    {"expose": "search", "sessions": True, "names": "bare"},
    {"page_size": 1, "session_idle_seconds": 0.5, "max_sessions": 1, "max_streams": 1},
    {"instructions": "Ask for the weather first."},
]
BAD = [
    ({"expose": "some"}, "mcp.expose"),
    ({"enabled": "yes"}, "mcp.enabled"),
    ({"sessions": 1}, "mcp.sessions"),
    ({"names": "short"}, "mcp.names"),
    ({"page_size": 0}, "mcp.page_size"),
    ({"page_size": True}, "mcp.page_size"),
    ({"session_idle_seconds": 0}, "mcp.session_idle_seconds"),
    ({"session_idle_seconds": "1"}, "mcp.session_idle_seconds"),
    ({"max_sessions": 0}, "mcp.max_sessions"),
    ({"max_streams": 1.5}, "mcp.max_streams"),
    ({"instructions": ""}, "mcp.instructions"),
    ({"expos": "all"}, "mcp"),
    ([], "mcp"),
]


@pytest.mark.parametrize("block", GOOD)
def test_schema_and_reader_take_the_same(block):
    assert jsonschema_rs.is_valid(MCP_SCHEMA, block)
    read = read_options(McpBlock, block, "mcp")
    assert all(getattr(read, key) == value for key, value in block.items())


@pytest.mark.parametrize(("block", "where"), BAD)
def test_a_wrong_value_is_named_by_its_key(block, where):
    assert not jsonschema_rs.is_valid(MCP_SCHEMA, block)
    with pytest.raises(ConfigError, match=rf"^{where}: "):
        read_options(McpBlock, block, "mcp")


def test_mcp_is_served_by_default_and_configured_in_the_server_block():
    assert ServerBlock().mcp == McpBlock() == read_options(ServerBlock, {}, "server").mcp
    assert McpBlock().enabled
    assert read_options(ServerBlock, {"mcp": {"expose": "search"}}, "server").mcp.expose == "search"
    assert options_schema(ServerBlock)["properties"]["mcp"]["properties"] == MCP_SCHEMA["properties"]


def test_every_key_is_described():
    assert set(MCP_SCHEMA["properties"]) == set(McpBlock.__struct_fields__)
    assert all(each["description"] for each in MCP_SCHEMA["properties"].values())
