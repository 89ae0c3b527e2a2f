"""Every way to satisfy a schema: joined where schemas must hold together, marked where a value has to be checked."""

import pytest

from toolyard.schema.fold import find_ways

KIND = {"type": "object", "required": ["kind"]}


def ways_of(schema):
    return [(way.schema, way.checked) for way in find_ways(schema, schema)]


def test_schemas_that_must_hold_together_are_one_way():
    (way,) = ways_of({"allOf": [{"type": "integer", "minimum": 1}, {"type": "number", "minimum": 3, "maximum": 9}]})
    assert way == ({"type": "integer", "minimum": 3, "maximum": 9}, False)


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "string"}, {"type": "integer"}],
        [{"enum": [1, 2]}, {"const": 3}],
        [{"enum": [1]}, {"enum": [True]}],
        [{"type": "string"}, False],
    ],
)
def test_a_contradiction_has_no_way(parts):
    assert ways_of({"allOf": parts}) == []


def test_a_one_of_with_a_discriminating_constant_needs_no_check():
    branches = [{**KIND, "properties": {"kind": {"const": kind}}} for kind in ("push", "star")]
    assert [checked for _, checked in ways_of({"oneOf": branches})] == [False, False]
    assert [checked for _, checked in ways_of({"oneOf": [KIND, KIND]})] == [True, True]


def test_multiples_and_prefixes_are_joined_exactly():
    (way,) = ways_of({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}]})
    assert way == ({"multipleOf": 12}, False)
    (way,) = ways_of({"allOf": [{"prefixItems": [{"minimum": 1}]}, {"prefixItems": [{"maximum": 2}, True]}]})
    assert way == ({"prefixItems": [{"allOf": [{"minimum": 1}, {"maximum": 2}]}, True]}, False)


def test_what_cannot_be_said_as_one_schema_is_marked():
    (way,) = ways_of({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})
    assert way == ({"pattern": "a"}, True)


def test_a_schema_that_contains_itself_comes_to_an_end():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}], "type": "string"}}}
    (way,) = ways_of(schema)
    assert way[0]["type"] == "string"
