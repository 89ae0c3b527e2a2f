"""What a model is held to: the output schema, bounded, with an object at its root."""

import pytest
from hypothesis import given, strategies as st

from engines.lm.support import FREE, WEATHER
from toolyard.engines.lm.response import Bounds, asked_for, response_format
from toolyard.model.tool import Tool
from toolyard.schema.compile import compile_schema

BOUNDS = Bounds(50, 4)


def inside(**node):
    return asked_for({"type": "object", "properties": {"x": node}}, BOUNDS)["properties"]["x"]


@pytest.mark.parametrize(
    ("node", "bounded"),
    [
        ({"type": "string"}, {"type": "string", "maxLength": 50}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"], "maxLength": 50}),
        ({"type": "string", "maxLength": 900}, {"type": "string", "maxLength": 900}),
        ({"type": "string", "minLength": 80}, {"type": "string", "minLength": 80, "maxLength": 80}),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "pattern": "^a{99}$"}, {"type": "string", "pattern": "^a{99}$"}),
        ({"type": "array"}, {"type": "array", "maxItems": 4}),
        ({"type": "array", "minItems": 9}, {"type": "array", "minItems": 9, "maxItems": 9}),
        ({"type": "number"}, {"type": "number"}),
        ({"not": {"type": "string"}}, {"not": {"type": "string"}}),
        ({"allOf": [{"type": "array"}, {"minItems": 9}]}, {"allOf": [{"type": "array"}, {"minItems": 9}]}),
        ({"anyOf": [{"type": "string"}, True]}, {"anyOf": [{"type": "string", "maxLength": 50}, True]}),
        ({"default": {"type": "string"}}, {"default": {"type": "string"}}),
    ],
)
def test_texts_and_lists_without_an_end_get_one(node, bounded):
    assert inside(**node) == bounded


def test_definitions_are_bounded_and_the_original_is_left_alone():
    schema = {"type": "object", "$defs": {"t": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/t"}}}
    assert asked_for(schema, BOUNDS)["$defs"] == {"t": {"type": "string", "maxLength": 50}}
    assert schema["$defs"] == {"t": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1], ["a"]),
        ({"type": "string"}, "a", 1),
        ({"type": ["object", "null"]}, None, 1),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5, "a"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 5, "a"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}},
            [1, [2, [3]]],
            [1, ["a"]],
        ),
    ],
)
def test_what_is_no_object_travels_in_an_envelope_that_means_the_same(schema, good, bad):
    asked = asked_for(schema, BOUNDS)
    assert asked["type"] == "object"
    compiled = compile_schema(asked)
    assert compiled.is_valid({"result": good})
    assert not compiled.is_valid({"result": bad})
    assert not compiled.is_valid(good)


def test_an_object_without_a_type_gets_one():
    assert asked_for({"properties": {}}, BOUNDS)["type"] == "object"


def test_the_name_is_one_that_servers_take():
    tool = Tool("get weather/now \u00e4" + "x" * 80, "w", output_parameters={"type": "object"})
    name = response_format(tool, BOUNDS)["json_schema"]["name"]
    assert name.startswith("get_weather_now__x") and len(name) == 64


def test_what_is_asked_for_is_no_more_than_the_server_can():
    assert response_format(WEATHER, BOUNDS, "text") is None
    assert response_format(WEATHER, BOUNDS, "json_object") == {"type": "json_object"}
    assert response_format(FREE, BOUNDS) == {"type": "json_object"}


LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "null"}, {"enum": ["a", 1]}, True])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda node: {"type": "array", "items": node}),
        st.dictionaries(st.sampled_from("abc"), inner).map(lambda some: {"type": "object", "properties": some}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"anyOf": some}),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.sampled_from(["a", "b" * 20, 1, None]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_whatever_the_bounded_schema_allows_the_schema_allows(schema, value):
    asked = compile_schema(asked_for(schema, Bounds(10, 3)))
    real = compile_schema(schema)
    envelope = "result" in asked_for(schema, BOUNDS).get("properties", {})
    if asked.is_valid({"result": value} if envelope else value):
        assert real.is_valid(value)
