from copy import deepcopy

import pytest
from dialects.strategies import schemas
from hypothesis import given, settings

from conftest import examples
from toolyard.schema.subschemas import References, allowed_values, iter_children, map_children, map_references, types_of

ROOT = {
    "$defs": {"A": {"type": "string"}, "a/b": {"type": "integer"}, "m%n": True},
    "properties": {"$ref": {"$anchor": "here", "type": "null"}},
    "anyOf": [{"title": "first"}],
    "default": {"$anchor": "not a schema"},
}


@pytest.mark.parametrize(
    ("ref", "target"),
    [
        ("#", ROOT),
        ("#/$defs/A", {"type": "string"}),
        ("#/$defs/a~1b", {"type": "integer"}),
        ("#/$defs/m%25n", True),
        ("#/anyOf/0", {"title": "first"}),
        ("#here", {"$anchor": "here", "type": "null"}),
    ],
)
def test_references_inside_the_document_are_followed(ref, target):
    assert References(ROOT).resolve(ref) == target


@pytest.mark.parametrize(
    "ref", ["#/nope", "#/anyOf/1", "#/anyOf/x", "#nope", "other.json", "http://x/#", 5, None, "#/anyOf"]
)
def test_anything_else_leads_nowhere(ref):
    assert References(ROOT).resolve(ref) is None


def test_keys_under_properties_are_names_and_defaults_are_data():
    found = dict(iter_children(ROOT))
    assert found[("properties", "$ref")] == {"$anchor": "here", "type": "null"}
    assert not any(path[0] == "default" for path in found)


@settings(max_examples=examples(40))
@given(schemas)
def test_rebuilding_visits_every_subschema_once_and_changes_nothing_by_itself(schema):
    before = deepcopy(schema)
    seen = []

    def visit(sub):
        seen.append(sub)
        return sub

    assert map_children(schema, visit) == before
    assert seen == [sub for _, sub in iter_children(schema) if isinstance(sub, dict)]
    assert schema == before


def test_references_are_changed_wherever_there_are_schemas_and_nowhere_else():
    before = {
        "properties": {"$ref": {"$ref": "#/a"}, "list": {"items": {"allOf": [{"$dynamicRef": "#/b"}]}}},
        "default": {"$ref": "#/a"},
        "$ref": {"a property": "of that name"},
    }
    after = map_references(before, str.upper)
    assert after["properties"] == {"$ref": {"$ref": "#/A"}, "list": {"items": {"allOf": [{"$dynamicRef": "#/B"}]}}}
    assert (after["default"], after["$ref"]) == (before["default"], before["$ref"])


def test_type_may_be_one_name_or_a_list():
    assert types_of("string") == ["string"]
    assert types_of(["string", "null", 5]) == ["string", "null"]
    assert types_of(None) == []


def test_const_is_an_enum_of_one():
    assert allowed_values({"const": None}) == [None]
    assert allowed_values({"enum": [1, 2]}) == [1, 2]
    assert allowed_values({"enum": "junk"}) is None
    assert allowed_values({}) is None
