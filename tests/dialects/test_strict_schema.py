from copy import deepcopy

import jsonschema_rs
import pytest
from hypothesis import given, settings

from conftest import examples
from dialects.strategies import accepted, inputs, junk
from toolyard.dialects.input_schema import accepts_null, object_root, strict_schema, without_added_nulls
from toolyard.dialects.payload import ChangeLog
from toolyard.schema.subschemas import References, children

SUPPORTED = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"),
    *("title", "description", "pattern", "format", "multipleOf", "minimum", "maximum", "minItems", "maxItems"),
    *("exclusiveMinimum", "exclusiveMaximum"),
}


def strict(schema):
    log = ChangeLog()
    root = object_root(schema, ChangeLog())
    return strict_schema(root, log), [(item.pointer, item.change) for item in log.rewrites("t")]


def nodes(schema):
    yield schema
    for _, sub in children(schema):
        if isinstance(sub, dict):
            yield from nodes(sub)


def member(schema, **more):
    return {"type": "object", "properties": {"a": schema}, **more}


@settings(max_examples=examples(40))
@given(inputs | junk)
def test_strict_schemas_use_supported_keywords_and_close_every_object(schema):
    before = deepcopy(schema)
    out, changes = strict(schema)
    assert schema == before
    if out is None:
        assert any("sent without strict" in change for _, change in changes)
        return
    for node in nodes(out):
        assert node.keys() <= SUPPORTED
        if "properties" in node:
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])


@settings(max_examples=examples(40))
@given(accepted)
def test_accepted_arguments_fit_the_strict_form_once_left_out_ones_are_null_and_come_back(pair):
    schema, arguments = pair
    out, changes = strict(schema)
    assert out is not None
    sent = filled(out, arguments, out)
    assert jsonschema_rs.is_valid(out, sent) or any("told apart" in change for _, change in changes)
    assert jsonschema_rs.is_valid(schema, without_added_nulls(schema, sent))


def filled(schema, value, root):
    """What a model must write in strict mode: null where it would leave a property out."""
    if "$ref" in schema:
        return filled(References(root).resolve(schema["$ref"]), value, root)
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], value, root) if isinstance(value, (dict, list)) else value
    if isinstance(value, list):
        return [filled(schema["items"], item, root) for item in value]
    if isinstance(value, dict):
        return {
            name: filled(sub, value[name], root) if name in value else None
            for name, sub in schema["properties"].items()
        }
    return value


def test_optional_properties_become_required_and_nullable():
    out, changes = strict(
        {
            "type": "object",
            "properties": {
                "must": {"type": "string"},
                "may": {"type": "string"},
                "pick": {"type": "string", "enum": ["x"]},
                "fixed": {"const": 5},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "null": {"type": ["string", "null"]},
                "old": {"type": "integer", "nullable": True},
            },
            "required": ["must"],
        }
    )
    assert out["required"] == ["must", "may", "pick", "fixed", "either", "null", "old"]
    assert out["properties"] == {
        "must": {"type": "string"},
        "may": {"type": ["string", "null"]},
        "pick": {"type": ["string", "null"], "enum": ["x", None]},
        "fixed": {"anyOf": [{"type": "integer", "const": 5}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "null": {"type": ["string", "null"]},
        "old": {"type": ["integer", "null"]},
    }
    assert changes == []


def test_definitions_are_carried_under_one_name_each_and_only_where_used():
    schema = {
        **member({"$ref": "#/definitions/A~1B"}, required=["a"]),
        "definitions": {"A/B": {"type": "object", "properties": {"self": {"$ref": "#/definitions/A~1B"}}}, "free": {}},
    }
    out, changes = strict(schema)
    assert out["properties"]["a"] == {"$ref": "#/$defs/A_1B"}
    assert list(out["$defs"]) == ["A_1B"]
    assert out["$defs"]["A_1B"]["properties"]["self"] == {"anyOf": [{"$ref": "#/$defs/A_1B"}, {"type": "null"}]}
    assert changes == []


def test_two_definitions_of_one_name_are_kept_apart():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/X"}, "b": {"$ref": "#/definitions/X"}},
        "$defs": {"X": {"type": "string"}},
        "definitions": {"X": {"type": "integer"}},
    }
    out, _ = strict(schema)
    assert out["$defs"] == {"X": {"type": "string"}, "X_2": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        ({"type": "string", "minLength": 3}, "/properties/a/minLength", "minLength dropped"),
        ({"type": "string", "format": "uri"}, "/properties/a/format", "format 'uri' dropped"),
        ({"type": "integer", "default": 3}, "/properties/a/default", "default dropped"),
        ({"anyOf": [{"type": "integer"}], "default": 3}, "/properties/a/default", "default dropped"),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "/properties/a/oneOf", "oneOf became anyOf"),
        (
            {"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": True},
            "/properties/a/additionalProperties",
            "undeclared properties",
        ),
        ({"type": "array", "prefixItems": [{"type": "null"}]}, "/properties/a/prefixItems", "tuple"),
        ({"type": "object", "properties": {"b": False, "c": {"type": "null"}}}, "/properties/a/properties/b", "never"),
    ],
)
def test_what_strict_mode_cannot_say_is_reported_where_it_stood(schema, pointer, words):
    out, changes = strict(member(schema))
    assert out is not None
    assert [where for where, change in changes if words in change] == [pointer]


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ({}, "a value of any type"),
        (True, "a value of any type"),
        ({"type": "object"}, "an object of free keys"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "an object of free keys"),
        ({"type": "array"}, "a value of any type"),
        ({"$ref": "other.json"}, "a reference that leads nowhere"),
        ({"anyOf": [False]}, "a value that nothing fits"),
    ],
)
def test_what_strict_mode_has_no_words_for_goes_without_strict(schema, what):
    out, changes = strict(member(schema))
    assert out is None
    assert [change for _, change in changes] == [f"sent without strict, which cannot describe {what}"]


def test_a_tool_without_parameters_can_be_strict():
    out, changes = strict({})
    assert out == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert changes == []


def test_keywords_of_the_root_are_reported_too():
    out, changes = strict(member({"type": "null"}, minProperties=1))
    assert "minProperties" not in out
    assert changes == [("/minProperties", "minProperties dropped: strict mode does not support it")]


def test_nulls_that_mean_left_out_are_removed_at_every_level():
    inner = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": ["integer", "null"]}}}
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/inner"}},
            "union": {"anyOf": [{"type": "string"}, inner]},
        },
        "required": ["list"],
        "$defs": {"inner": inner},
    }
    sent = {"a": None, "list": [{"x": None, "y": None}], "union": {"x": None, "y": 1}, "unknown": None}
    assert without_added_nulls(schema, sent) == {"list": [{"y": None}], "union": {"y": 1}, "unknown": None}


def test_a_required_null_is_the_models_mistake_and_stays():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert without_added_nulls(schema, {"a": None}) == {"a": None}


def test_schemas_that_refer_to_themselves_come_to_an_end():
    loop = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}], "properties": {"x": {"type": "string"}}}}}
    schema = {**loop, "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
    assert accepts_null({"$ref": "#/$defs/A"}, References(schema)) is False
    assert without_added_nulls(schema, {"a": {"x": None}}) == {"a": {}}
    assert strict(schema)[0] is None
