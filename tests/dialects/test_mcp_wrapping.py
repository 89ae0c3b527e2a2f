"""The wrapper `{"result": ...}`, put on by servers and taken off here."""

import pytest
from hypothesis import given, strategies as st

from toolyard import InvalidSchemaError, Tool
from toolyard.dialects.mcp import McpDialect, is_wrapped, plain_output, plain_value

LEAVES = st.sampled_from(
    [{"type": "integer"}, {"type": "string", "minLength": 1}, {"enum": [1, "a"]}, {"type": "null"}]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda schema: {"type": "array", "items": schema}),
        st.lists(inner, min_size=1, max_size=3).map(lambda schemas: {"anyOf": schemas}),
        inner.map(lambda schema: {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": schema}}),
    ),
    max_leaves=6,
)


def wrapped(inner, **more):
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **more}


@given(SCHEMAS)
def test_what_our_own_server_wraps_comes_out_as_it_was(schema):
    (listed,) = McpDialect([Tool("a", "n", output_parameters=schema)]).format_tools()
    assert plain_output(listed["outputSchema"]) == schema
    assert is_wrapped(schema)


def test_definitions_beside_the_wrapper_come_along():
    defs = {"a": {"type": "integer"}}
    found = plain_output(wrapped({"type": "array", "items": {"$ref": "#/$defs/a"}}, **{"$defs": defs, "title": "out"}))
    assert found == {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": defs}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "integer"},
        wrapped({"type": "object"}),
        wrapped({"type": "object", "properties": {"a": {}}}),
        wrapped({}),
        wrapped(True),
        wrapped({"type": "integer"}, additionalProperties=False),
        {**wrapped({"type": "integer"}), "required": []},
        {**wrapped({"type": "integer"}), "properties": {"result": {"type": "integer"}, "b": {}}},
        {**wrapped({"type": "integer"}), "properties": 5},
    ],
)
def test_what_is_no_wrapper_stays(schema):
    assert plain_output(schema) is None


def test_a_schema_past_all_limits_is_refused_before_it_is_followed():
    deep = {"type": "integer"}
    for _ in range(200):
        deep = {"allOf": [deep]}
    with pytest.raises(InvalidSchemaError):
        plain_output(wrapped(deep))


@pytest.mark.parametrize(
    ("structured", "content", "schema", "value"),
    [
        ({"result": 5}, [{"type": "text", "text": "5"}], {}, 5),
        ({"result": 5}, [{"type": "text", "text": "five"}], {}, {"result": 5}),
        ({"result": 5}, [], {"type": "integer"}, 5),
        ({"result": 5}, [{"type": "text", "text": "5"}], {"type": "object"}, {"result": 5}),
        ({"result": 5, "more": 6}, [], {"type": "integer"}, {"result": 5, "more": 6}),
        ([5], [], {"type": "array"}, [5]),
        ({"result": 5}, None, {}, {"result": 5}),
        ({"result": 5}, ["odd"], {}, {"result": 5}),
    ],
)
def test_a_value_leaves_its_wrapper_where_the_schema_or_else_the_text_says_so(structured, content, schema, value):
    assert plain_value(structured, content, schema) == value
