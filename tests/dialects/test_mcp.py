import json

import jsonschema_rs
import pytest

from dialects.strategies import tool
from toolyard.dialects import McpDialect
from toolyard.dialects.mcp import wraps
from toolyard.model import Effects, Tool

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


def test_properties_are_objects_as_clients_check_that_each_is():
    schema = {"type": "object", "properties": {"a": True, "b": False, "c": {"properties": {"d": True}}}}
    (sent,) = McpDialect([tool(parameters=schema, output_parameters=schema)]).format_tools()
    written = {**schema, "properties": {**schema["properties"], "a": {}, "b": {"not": {}}}}
    assert (sent["inputSchema"], sent["outputSchema"]) == (written, written)


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
    wrapped = wraps(dialect.names.tools[0]) or not isinstance(result, dict)
    assert jsonschema_rs.is_valid(sent, {"result": result} if wrapped else result)


def test_a_wrapped_output_schema_is_reported():
    dialect = McpDialect([tool(output_parameters={"type": "string"})])
    dialect.format_tools()
    assert [item.change for item in dialect.report] == [
        'output schema wrapped as {"result": ...}: MCP wants an object there'
    ]


def test_a_tool_with_no_schema_still_declares_an_object():
    assert McpDialect([Tool("ping", "n")]).format_tools()[0]["inputSchema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("pattern", "is_kept"),
    [
        (r"^[a-z0-9_.-]+$", True),
        (r"^(?:\d{3}|[^\s,\-]{1,}\.)(?=x)\/?$", True),
        (r"^[\w.]+@[\w-]+$", True),
        (r"^arn:aws\-cn:.+$", False),
        (r"^[A-Z\~]+$", False),
        (r"^[\w-.]+$", False),
        (r"^(?i)abc$", False),
        (r"^{[a-z]+}$", False),
        (r"^[a-z]{1,3}?-(?:a|b)*?x+$", True),
        (r"^(?:a|b)++$", False),
        (r"^a{2}{3}$", False),
    ],
)
def test_patterns_of_output_schemas_that_javascript_refuses_are_left_out(pattern, is_kept):
    """The SDK for TypeScript compiles every output schema of a list, and rejects the list if one fails."""
    parts = {"type": "object", "properties": {"pattern": {"type": "string", "pattern": pattern}}}
    tool = Tool("a", "n", output_parameters=parts)
    dialect = McpDialect([tool])
    sent = dialect.format_tools()[0]["outputSchema"]["properties"]["pattern"]
    assert sent == ({"type": "string", "pattern": pattern} if is_kept else {"type": "string"})


@pytest.mark.parametrize(
    ("part", "left"),
    [
        ({"not": {"pattern": "(?i)^x-"}}, {}),
        ({"oneOf": [{"pattern": "(?i)^a"}, {"pattern": "(?i)^b"}]}, {}),
        ({"patternProperties": {"(?i)^x-": {}}, "additionalProperties": False}, {}),
        ({"allOf": [{"patternProperties": {"(?i)^x-": {}}}], "unevaluatedProperties": False}, {"allOf": [{}]}),
    ],
)
def test_an_output_schema_without_such_patterns_allows_all_that_it_allowed(part, left):
    tool = Tool("a", "n", output_parameters={"type": "object", "properties": {"b": {"title": "B", **part}}})
    assert McpDialect([tool]).format_tools()[0]["outputSchema"]["properties"] == {"b": {"title": "B", **left}}
