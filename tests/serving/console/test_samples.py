"""Samples have the shape that a schema asks for, and schemas that go on for ever do not."""

import pytest

from toolyard.schema.subschemas import References
from toolyard.serving.console.form import draft_arguments, make_fields
from toolyard.serving.console.samples import MAX_STEPS, make_sample


def sample(schema):
    return make_sample(schema, References(schema), iter(range(MAX_STEPS)))


LINE = {"type": "object", "properties": {"sku": {"type": "string"}, "gift": {}}, "required": ["sku"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": LINE}, [{"sku": ""}]),
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}, "b": LINE}}, {"a": 3, "b": {"sku": ""}}),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}]}, ["", False]),
        ({"type": "object", "properties": {"pair": {"prefixItems": [{"enum": ["x"]}, {"type": "number"}], "type": "array"}}}, {"pair": ["x", 0]}),
        ({"oneOf": [{"type": "null"}, {"properties": {"kind": {"const": "card"}}}]}, {"kind": "card"}),
        ({"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}, {"day": "2026-01-31"}),
        ({"type": "object", "default": {"x": 1}, "properties": {"y": {}}}, {"x": 1}),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "object"}, {}),
        ({}, {}),
    ],
)  # fmt: skip
def test_a_sample_of_a_nested_schema_has_all_its_levels(schema, expected):
    assert sample(schema) == expected


def test_a_sample_of_a_recursive_schema_is_finite():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    deep = sample({"$ref": "#/$defs/node", "$defs": {"node": node}})
    assert deep == {"next": {"next": {"next": {"next": {}}}}}


def test_the_default_of_a_property_counts_before_that_of_a_branch():
    branches = [{"type": "integer", "default": 3}, {"type": "string"}]
    assert draft_arguments(make_fields({"type": "object", "properties": {"a": {"default": 5, "anyOf": branches}}})) == {
        "a": 5
    }


def test_all_samples_of_one_form_share_the_steps():
    wide = {"type": "object", "properties": {f"p{n}": {} for n in range(8)}}
    for _ in range(3):
        wide = {"type": "object", "properties": {f"p{n}": wide for n in range(8)}}
    fields = make_fields({"type": "object", "properties": {"a": wide, "b": wide}, "required": ["a", "b"]})
    assert len(str(draft_arguments(fields))) < 50 * MAX_STEPS


def test_a_control_for_json_shows_the_shape_and_one_for_bytes_is_told_apart():
    [lines, file, text] = make_fields(
        {
            "type": "object",
            "properties": {
                "lines": {"type": "array", "items": LINE},
                "file": {"type": "string", "contentEncoding": "base64"},
                "text": {"type": "string"},
            },
        }
    )
    assert '"sku": ""' in lines.placeholder and lines.shown == ""
    assert file.base64 and "bytes, as base64" in file.rules and not text.base64
