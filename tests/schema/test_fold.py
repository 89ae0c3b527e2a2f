from copy import deepcopy

import jsonschema_rs
import pytest
from dialects.strategies import accepted
from hypothesis import given, settings

from conftest import examples
from toolyard.schema.fold import find_ways, fold_schema, intersect_schemas
from toolyard.schema.subschemas import References


def folded(schema):
    lost = []
    flat, followed = fold_schema(schema, References(schema), lost.append)
    return flat, followed, lost


def met(left, right):
    lost = []
    return intersect_schemas(left, right, lost.append), lost


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": ["null", "integer"]}, {"type": "null"}),
        ({"type": ["integer", "string"]}, {"type": ["number", "string"]}, {"type": ["integer", "string"]}),
        ({"minimum": 1, "maxLength": 9}, {"minimum": 3, "maxLength": 5}, {"minimum": 3, "maxLength": 5}),
        ({"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}, {"enum": [2, 3]}),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"uniqueItems": False}, {"uniqueItems": True}, {"uniqueItems": True}),
        ({"not": {"const": 1}}, {"not": {"const": 2}}, {"not": {"anyOf": [{"const": 1}, {"const": 2}]}}),
        (
            {"additionalProperties": {"type": "string"}},
            {"additionalProperties": False},
            {"additionalProperties": False},
        ),
        ({"items": True}, {"items": {"type": "string"}}, {"items": {"type": "string"}}),
        (
            {"properties": {"a": {"minimum": 1}}},
            {"properties": {"a": {"maximum": 2}, "b": {}}},
            {"properties": {"a": {"allOf": [{"minimum": 1}, {"maximum": 2}]}, "b": {}}},
        ),
        ({"anyOf": [{"minimum": 1}]}, {"anyOf": [{}, {"type": "null"}]}, None),
    ],
)
def test_what_both_say_is_kept_without_loss(left, right, both):
    result, lost = met(left, right)
    assert lost == []
    if both is None:
        both = {"anyOf": [{"minimum": 1}, {"allOf": [{"minimum": 1}, {"type": "null"}]}]}
    assert result == both


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"type": "string"}, {"type": "integer"}),
        ({"enum": [1]}, {"enum": [2]}),
        ({"pattern": "a"}, {"pattern": "b"}),
        ({"minimum": 1}, {"minimum": "junk"}),
        ({"required": ["a"]}, {"required": "junk"}),
        ({"properties": {}}, {"properties": 5}),
        ({"items": {}}, {"items": [1]}),
        ({"anyOf": [{"const": i} for i in range(5)]}, {"anyOf": [{"const": i} for i in range(4)]}),
    ],
)
def test_what_cannot_be_joined_keeps_the_first_and_says_so(left, right):
    result, lost = met(left, right)
    assert result == left
    assert len(lost) == 1


def test_closed_objects_are_joined_as_their_author_meant_and_that_is_said():
    one = {"properties": {"a": {}}, "additionalProperties": False}
    two = {"properties": {"b": {}}, "additionalProperties": False}
    result, lost = met(one, two)
    assert result["properties"] == {"a": {}, "b": {}}
    assert "forbid each other's properties" in lost[0]


def test_the_words_of_the_referring_schema_win():
    schema = {"$ref": "#/$defs/A", "description": "billing", "$defs": {"A": {"description": "any", "type": "string"}}}
    flat, followed, lost = folded(schema)
    assert (flat["description"], flat["type"]) == ("billing", "string")
    assert followed == ("#/$defs/A",)
    assert lost == []


def test_a_schema_that_contains_itself_is_folded_once():
    flat, followed, lost = folded({"allOf": [{"$ref": "#"}], "type": "object"})
    assert flat == {"type": "object"}
    assert followed == ("#",)
    assert lost == []


def test_references_that_lead_nowhere_are_named():
    flat, _, lost = folded({"$ref": "other.json", "type": "object"})
    assert flat == {"type": "object"}
    assert lost == ["$ref 'other.json' leads nowhere in this schema; it is left out"]


def test_a_schema_that_doubles_itself_is_cut_rather_than_followed():
    doubling = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(30)} | {"d30": {"title": "end"}}
    _, _, lost = folded({"$ref": "#/$defs/d0", "$defs": doubling})
    assert "more than 500 schemas judge one value; the rest are left out" in lost


@settings(max_examples=examples(40))
@given(accepted, accepted)
def test_a_fold_accepts_what_the_allof_accepts(one, two):
    schema = {"allOf": [one[0], two[0]], "$defs": one[0]["$defs"]}
    before = deepcopy(schema)
    flat, _, _ = folded(schema)
    for _, value in (one, two):
        if jsonschema_rs.is_valid(schema, value):
            assert jsonschema_rs.is_valid(flat, value)
    assert schema == before


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
