import json

import jsonschema_rs
import pytest
from mcp_types import CallToolResult

from dialects.strategies import tool
from toolyard.dialects import McpDialect
from toolyard.model import Effects, ErrorInfo, Tool, ToolCall, ToolResult

PERSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
LISTED = {
    "name": "find",
    "title": "Find",
    "description": "Finds.",
    "inputSchema": PERSON,
    "outputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "annotations": {"readOnlyHint": True, "openWorldHint": True},
    "icons": [{"src": "x.png"}],
    "_meta": {"k": 1},
}


def test_schemas_travel_whole():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [{"$ref": "#/$defs/A"}],
        "$defs": {"A": {}},
    }
    dialect = McpDialect([tool(parameters=schema)])
    assert dialect.format_tools()[0]["inputSchema"] == {**schema, "type": "object"}
    assert dialect.report == ()


def test_metadata_cannot_call_a_writing_tool_read_only():
    risky = tool(effects=Effects.WRITE, metadata={"annotations": {"readOnlyHint": True, "destructiveHint": False}})
    assert McpDialect([risky]).format_tools()[0]["annotations"] == {"readOnlyHint": False, "destructiveHint": False}


def test_real_listings_go_through_unchanged(corpus):
    listings = [[LISTED]]
    for folder in corpus:
        listings.extend(json.loads(file.read_text()) for file in sorted(folder.glob("mcp_listings/*.json")))
    for listing in listings:
        dialect = McpDialect(
            Tool(item["name"], "real", parameters=item["inputSchema"], output_parameters=item.get("outputSchema") or {})
            for item in listing
        )
        sent = dialect.format_tools()
        assert [item["inputSchema"] for item in sent] == [item["inputSchema"] for item in listing]
        assert [item.get("outputSchema") for item in sent] == [item.get("outputSchema") for item in listing]
        assert dialect.report == ()


def test_calls_are_params_or_requests():
    dialect = McpDialect([tool()])
    params = {"name": "hr__find", "arguments": {"id": 1}}
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    assert dialect.parse_calls(params) == [ToolCall("hr::find", {"id": 1}, None)]
    assert dialect.parse_calls(request) == [ToolCall("hr::find", {"id": 1}, "7")]
    assert dialect.parse_calls([request, params])[1].call_id is None
    assert dialect.parse_calls({**request, "method": "prompts/get"}) == []
    assert dialect.parse_calls({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}) == []
    assert dialect.format_calls([ToolCall("hr::find", {"id": 1})]) == [params]


def test_results_have_text_and_structure():
    dialect = McpDialect([tool()])
    plain, wrapped = dialect.format_results(
        [ToolResult(None, "hr::find", {"a": 1}), ToolResult("c", "hr::find", "Ada")]
    )
    assert plain == {
        "content": [{"type": "text", "text": '{"a": 1}'}],
        "structuredContent": {"a": 1},
        "isError": False,
    }
    assert wrapped == {
        "content": [{"type": "text", "text": "Ada"}],
        "structuredContent": {"result": "Ada"},
        "isError": False,
        "_meta": {"toolyard/call_id": "c"},
    }
    CallToolResult.model_validate(wrapped)


def test_errors_are_marked_and_structured():
    failed = ToolResult("c", "hr::find", error_info=ErrorInfo("tool.denied", "no", hint="ask"))
    (sent,) = McpDialect([tool()]).format_results([failed])
    assert sent["isError"] is True
    assert sent["structuredContent"] == {"error": failed.error_info.to_dict()}
    assert json.loads(sent["content"][0]["text"]) == sent["structuredContent"]


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}, {"a": 1}),
        ({"type": "string"}, "Ada"),
        ({"type": ["object", "null"]}, {"a": 1}),
        ({"anyOf": [{"type": "object"}, {"type": "string"}]}, {"a": 1}),
        (
            {
                "type": "array",
                "items": {"$ref": "#/$defs/A"},
                "$defs": {"A": {"type": "object", "properties": {"n": {"$ref": "#"}}}},
            },
            [{"n": []}],
        ),
    ],
)
def test_structured_results_fit_the_output_schema_that_was_sent(output, result):
    dialect = McpDialect([tool(output_parameters=output)])
    sent = dialect.format_tools()[0]["outputSchema"]
    assert sent["type"] == "object"
    (answer,) = dialect.format_results([ToolResult("c", "hr::find", result)])
    assert jsonschema_rs.is_valid(sent, answer["structuredContent"])


def test_a_wrapped_output_schema_is_reported():
    dialect = McpDialect([tool(output_parameters={"type": "string"})])
    dialect.format_tools()
    assert [item.change for item in dialect.report] == [
        'output schema wrapped as {"result": ...}: MCP wants an object there'
    ]


def test_a_tool_with_no_schema_still_declares_an_object():
    assert McpDialect([Tool("ping", "n")]).format_tools()[0]["inputSchema"] == {"type": "object"}
