import json

import jsonschema_rs
import pytest
from mcp_types import CallToolResult, TextContent, Tool as SdkTool

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


def test_titles_icons_hints_and_other_keys_are_kept():
    (found,) = McpDialect().parse_tools({"tools": [LISTED], "nextCursor": None}, "n")
    assert found.effects is Effects.READ
    assert found.output_parameters == LISTED["outputSchema"]
    assert found.metadata == {
        "title": "Find",
        "icons": [{"src": "x.png"}],
        "annotations": {"openWorldHint": True},
        "_meta": {"k": 1},
    }
    sent = McpDialect([found]).format_tools()[0]
    assert {key: sent[key] for key in ("title", "annotations", "icons")} == {
        key: LISTED[key] for key in ("title", "annotations", "icons")
    }


@pytest.mark.parametrize(
    ("hints", "effects", "kept"),
    [
        ({"readOnlyHint": True}, Effects.READ, {}),
        ({"readOnlyHint": True, "destructiveHint": True}, Effects.READ, {"destructiveHint": True}),
        ({"destructiveHint": True}, Effects.WRITE, {}),
        ({"readOnlyHint": False, "destructiveHint": False}, Effects.WRITE, {"destructiveHint": False}),
        ({"readOnlyHint": None}, Effects.UNKNOWN, {}),
        ({"destructiveHint": False}, Effects.UNKNOWN, {"destructiveHint": False}),
        ({}, Effects.UNKNOWN, {}),
    ],
)
def test_hints_say_what_a_tool_does_to_the_world(hints, effects, kept):
    (found,) = McpDialect().parse_tools([{**LISTED, "annotations": hints}], "n")
    assert found.effects is effects
    assert found.metadata.get("annotations", {}) == kept
    assert McpDialect().parse_tools(McpDialect([found]).format_tools(), "n")[0].effects is effects


def test_metadata_cannot_call_a_writing_tool_read_only():
    risky = tool(effects=Effects.WRITE, metadata={"annotations": {"readOnlyHint": True, "destructiveHint": False}})
    assert McpDialect([risky]).format_tools()[0]["annotations"] == {"readOnlyHint": False, "destructiveHint": False}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tools: tools,
        lambda tools: {"tools": tools},
        lambda tools: {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}},
    ],
)
def test_listings_are_read_in_every_wrapping(wrap):
    assert McpDialect().parse_tools(wrap([LISTED]), "n")[0].qualified_name == "n::find"


def test_tools_of_the_sdk_are_read():
    sdk = SdkTool.model_validate(LISTED)
    (found,) = McpDialect().parse_tools([sdk], "n")
    assert (found.parameters, found.effects) == (PERSON, Effects.READ)


def test_real_listings_go_through_unchanged(corpus):
    listings = [[LISTED]]
    for folder in corpus:
        listings.extend(json.loads(file.read_text()) for file in sorted(folder.glob("mcp_listings/*.json")))
    for listing in listings:
        dialect = McpDialect(McpDialect().parse_tools(listing, "real"))
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
    assert dialect.parse_results(answer)[0].result == result


def test_a_wrapped_output_schema_is_reported():
    dialect = McpDialect([tool(output_parameters={"type": "string"})])
    dialect.format_tools()
    assert [item.change for item in dialect.report] == [
        'output schema wrapped as {"result": ...}: MCP wants an object there'
    ]


def test_results_of_other_servers_are_understood():
    text = {"type": "text", "text": "21 degrees"}
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    dialect = McpDialect()
    assert dialect.parse_results({"content": [text]})[0].result == "21 degrees"
    assert dialect.parse_results({"content": [text, image]})[0].result == [text, image]
    assert dialect.parse_results({"content": [text], "structuredContent": {"t": 21}})[0].result == {"t": 21}
    assert dialect.parse_results({"content": [text], "structuredContent": {"result": 5}})[0].result == {"result": 5}
    assert dialect.parse_results({"content": [text], "isError": True})[0].error == "21 degrees"
    assert dialect.parse_results(CallToolResult.model_validate({"content": [text], "isError": True}))[0].is_error


def test_json_rpc_answers_carry_the_id_and_protocol_errors():
    dialect = McpDialect()
    good = {"jsonrpc": "2.0", "id": 3, "result": {"content": [{"type": "text", "text": "1"}]}}
    bad = {"jsonrpc": "2.0", "id": 4, "error": {"code": -32602, "message": "unknown tool"}}
    first, second = dialect.parse_results([good, bad])
    assert (first.call_id, first.result) == ("3", 1)
    assert (second.call_id, second.error) == ("4", "unknown tool")
    assert second.error_info.details == {"code": -32602}


def test_a_tool_with_no_schema_still_declares_an_object():
    assert McpDialect([Tool("ping", "n")]).format_tools()[0]["inputSchema"] == {"type": "object"}


@pytest.mark.parametrize("content", ["5", ({"type": "text", "text": "5"},), [TextContent(type="text", text="5")]])
def test_a_wrapped_value_is_taken_out_however_the_text_beside_it_is_held(content):
    body = {"id": "1", "content": content, "structuredContent": {"result": 5}}
    assert [result.result for result in McpDialect().parse_results([body])] == [5]
