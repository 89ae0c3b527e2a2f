from copy import deepcopy

import jsonschema_rs
import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from dialects.strategies import accepted, inputs, junk
from toolyard.dialects.input_schema import object_root
from toolyard.dialects.payload import ChangeLog
from toolyard.schema.subschemas import References, iter_children

REFUSED_AT_THE_ROOT = {"anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"}


def rooted(schema):
    log = ChangeLog()
    return object_root(schema, log), [(item.pointer, item.change) for item in log.rewrites("t")]


def references(schema):
    found, stack = [], [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            found.extend([node["$ref"]] if isinstance(node.get("$ref"), str) else [])
            stack.extend(sub for _, sub in iter_children(node))
    return found


@settings(max_examples=examples(40))
@given(inputs | junk)
def test_any_schema_gets_a_plain_object_root_and_is_not_touched(schema):
    before = deepcopy(schema)
    out, _ = rooted(schema)
    assert out["type"] == "object"
    assert isinstance(out["properties"], dict)
    assert REFUSED_AT_THE_ROOT.isdisjoint(out)
    assert schema == before


def test_an_empty_schema_is_an_object_without_properties_and_nothing_is_reported():
    assert rooted({}) == ({"type": "object", "properties": {}}, [])


def test_a_root_reference_is_resolved_in_place_and_definitions_stay():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    out, changes = rooted({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert out == {**node, "$defs": {"Node": node}}
    assert changes == []


def test_a_root_allof_is_merged_without_loss():
    parts = [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]
    out, changes = rooted({"allOf": parts, "description": "both"})
    assert out == {
        "type": "object",
        "description": "both",
        "properties": {"a": {}, "b": {}},
        "required": ["a", "b"],
    }
    assert changes == []


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_root_alternatives_join_properties_and_keep_what_all_require(keyword):
    one = {
        "type": "object",
        "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
        "required": ["kind", "x"],
    }
    two = {"type": "object", "properties": {"kind": {"const": "b"}, "x": {"type": "integer"}}, "required": ["kind"]}
    out, changes = rooted({keyword: [one, two]})
    assert out == {
        "type": "object",
        "properties": {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": {"type": "integer"}},
        "required": ["kind"],
    }
    assert [pointer for pointer, _ in changes] == [f"/{keyword}"]


def test_a_single_alternative_that_can_be_an_object_is_no_loss():
    out, changes = rooted({"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}, False]})
    assert out == {"type": "object", "properties": {"a": {}}}
    assert changes == []


def test_one_of_several_required_lists_leaves_the_properties_alone():
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    out, changes = rooted(schema)
    assert out == {"type": "object", "properties": {"a": {}, "b": {}}}
    assert len(changes) == 1


def test_required_that_is_no_list_requires_nothing():
    for required in ("a", True, {"a": True}):
        out, _ = rooted({"anyOf": [{"properties": {"a": {}}, "required": required}, {"required": ["a"]}]})
        assert out == {"type": "object", "properties": {"a": {}}}


def test_keywords_refused_at_the_root_are_dropped_and_reported():
    out, changes = rooted({"type": "object", "not": {"required": ["a"]}, "enum": [{}], "const": {}})
    assert out == {"type": "object", "properties": {}}
    assert {pointer for pointer, _ in changes} == {"/not", "/enum", "/const"}


def test_a_root_that_is_no_object_is_made_one_and_reported():
    out, changes = rooted({"type": "string"})
    assert out["type"] == "object"
    assert changes == [("/type", "type string replaced by object: arguments are always an object")]


def test_references_into_a_part_that_is_gone_lead_to_a_copy_of_it():
    one = {"properties": {"x": {"type": "integer"}, "y": {"$ref": "#/anyOf/1/properties/z"}}}
    two = {"properties": {"z": {"$ref": "#/anyOf/0/properties/x"}}}
    out, _ = rooted({"anyOf": [one, two], "$defs": {"moved_1": {"title": "mine"}}})
    refs = References(out)
    assert out["$defs"]["moved_1"] == {"title": "mine"}
    targets = [refs.resolve(ref) for ref in references(out)]
    assert None not in targets
    assert {"type": "integer"} in targets


def test_alternatives_that_refer_to_the_root_come_to_an_end():
    out, _ = rooted({"anyOf": [{"$ref": "#"}, {"properties": {"a": {}}}]})
    assert "a" in out["properties"]


@settings(max_examples=examples(40))
@given(accepted)
def test_arguments_the_schema_accepts_are_accepted_by_its_rooted_form(pair):
    schema, arguments = pair
    out, changes = rooted({"allOf": [{key: value for key, value in schema.items() if key != "$defs"}], **_defs(schema)})
    assert jsonschema_rs.is_valid(out, arguments)
    assert changes == []


@settings(max_examples=examples(20))
@given(st.lists(accepted, min_size=2, max_size=3))
def test_arguments_of_any_closed_alternative_are_accepted_by_the_joined_object(pairs):
    closed = [{**schema, "additionalProperties": False} for schema, _ in pairs]
    branches = [{key: value for key, value in schema.items() if key != "$defs"} for schema in closed]
    out, _ = rooted({"anyOf": branches, **_defs(pairs[0][0])})
    for _, arguments in pairs:
        assert jsonschema_rs.is_valid(out, arguments)


def test_an_alternative_that_allows_by_pattern_keeps_the_joined_object_open():
    one = {"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": False}
    two = {"properties": {"b": {}}, "additionalProperties": False}
    out, _ = rooted({"anyOf": [one, two]})
    assert jsonschema_rs.is_valid(out, {"x1": 5})


def _defs(schema):
    return {"$defs": schema["$defs"]}
