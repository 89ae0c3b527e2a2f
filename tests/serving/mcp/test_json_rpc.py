"""Arguments that headers repeat."""

import base64

import pytest
from hypothesis import given, strategies as st

from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import served
from toolyard import function_tool
from toolyard.dialects.mcp_protocol import decode_header
from toolyard.serving.mcp.json_rpc import RpcFault, check_header_params, read_header_params

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "where": {
            "type": "object",
            "properties": {"dry": {"type": "boolean", "x-mcp-header": "X-Dry"}},
        },
        "note": {"type": "string"},
    },
}
WANTED = read_header_params(SCHEMA)


def wrapped(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?=".encode()


def test_nested_arguments_are_found_by_their_paths():
    assert {each.name: each.path for each in WANTED} == {
        "Mcp-Param-Region": ("region",),
        "Mcp-Param-Count": ("count",),
        "Mcp-Param-X-Dry": ("where", "dry"),
    }


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "string", "x-mcp-header": ""},
        {"type": "string", "x-mcp-header": "a b"},
        {"type": "string", "x-mcp-header": 3},
        {"type": "number", "x-mcp-header": "N"},
        {"type": ["string"], "x-mcp-header": "N"},
        {"x-mcp-header": "N"},
        {"type": "string", "x-mcp-header": "REGION"},
        {"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}},
        {"anyOf": [{"type": "string", "x-mcp-header": "Any"}]},
    ],
)
def test_an_annotation_that_is_not_valid_takes_all_of_the_tools_headers_away(broken):
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "broken": broken}}
    assert read_header_params(schema) == ()


def test_an_annotation_inside_a_default_or_an_example_is_ignored():
    schema = {"type": "object", "properties": {"a": {"type": "object", "default": {"x-mcp-header": 3}}}}
    assert read_header_params(schema) == ()
    assert read_header_params({**SCHEMA, "examples": [{"x-mcp-header": 3}]}) == WANTED


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, []),
        ({"region": None}, []),
        ({"region": "eu"}, [(b"mcp-param-region", b"eu")]),
        ({"region": "eu"}, [(b"mcp-param-region", b" eu\t")]),
        ({"region": "größe"}, [(b"mcp-param-region", wrapped("größe"))]),
        ({"count": 42}, [(b"mcp-param-count", b"42")]),
        ({"count": 42}, [(b"mcp-param-count", b"42.0")]),
        ({"count": -0}, [(b"mcp-param-count", b"-0")]),
        ({"count": 10**30}, [(b"mcp-param-count", str(10**30).encode())]),
        ({"where": {"dry": True}}, [(b"mcp-param-x-dry", b"true")]),
        ({"where": 3}, []),
        ({"note": "x"}, [(b"mcp-param-other", b"whatever")]),
    ],
)
def test_headers_that_repeat_their_arguments_pass(arguments, headers):
    check_header_params(WANTED, arguments, headers)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, []),
        ({"region": "eu"}, [(b"mcp-param-region", b"us")]),
        ({"region": "eu"}, [(b"mcp-param-region", b"EU")]),
        ({"region": "eu"}, [(b"mcp-param-region", b"eu"), (b"mcp-param-region", b"eu")]),
        ({}, [(b"mcp-param-region", b"eu")]),
        ({"region": []}, [(b"mcp-param-region", b"[]")]),
        ({"region": "eu"}, [(b"mcp-param-region", b"=?base64?ZXU?=")]),
        ({"region": "e"}, [(b"mcp-param-region", b"=?base64?ZR==?=")]),
        ({"region": "eu"}, [(b"mcp-param-region", b"=?base64?Z X U=?=")]),
        ({"region": "\ufffd"}, [(b"mcp-param-region", b"=?base64?/w==?=")]),
        ({"count": 42}, [(b"mcp-param-count", b"4.2e1")]),
        ({"count": 42}, [(b"mcp-param-count", b"42.5")]),
        ({"where": {"dry": True}}, [(b"mcp-param-x-dry", b"True")]),
    ],
)
def test_headers_that_say_something_else_are_refused(arguments, headers):
    with pytest.raises(RpcFault) as fault:
        check_header_params(WANTED, arguments, headers)
    assert fault.value.code == -32020


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_any_text_can_be_repeated_in_base64(text):
    assert decode_header(wrapped(text)) == text


def place(region: str, where: dict | None = None) -> str:
    """Somewhere."""
    return region


def test_a_call_is_checked_against_its_headers():
    with served(tools=[function_tool(place, namespace="desk", parameters=SCHEMA)]) as found:
        client = Stateless(found)
        good = client.call("desk__place", {"region": "eu"}, headers={"Mcp-Param-Region": "eu"})
        assert read_result(good)["structuredContent"] == {"result": "eu"}
        bad = client.call("desk__place", {"region": "eu"}, headers={"Mcp-Param-Region": "us"})
        assert (bad.status, bad.json["error"]["code"], bad.json["id"]) == (400, -32020, 1)
        assert client.call("desk__place", {"region": "eu"}).json["error"]["code"] == -32020
        # Whoever routes by headers knows the listed name alone, but the tool must not be reached unchecked by another.
        assert client.call("desk::place", {"region": "eu"}).json["error"]["code"] == -32020
