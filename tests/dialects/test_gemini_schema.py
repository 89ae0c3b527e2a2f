import json
from copy import deepcopy

import jsonschema_rs
import pytest
from hypothesis import given, settings

from conftest import examples
from dialects.strategies import accepted, inputs, junk
from toolyard.dialects.gemini import GEMINI_KEYWORDS, gemini_schema
from toolyard.dialects.payload import ChangeLog

TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}


def written(schema):
    log = ChangeLog()
    out = gemini_schema(schema, log)
    return out, [(item.pointer, item.change) for item in log.rewrites("t")]


def member(schema):
    out, changes = written({"type": "object", "properties": {"a": schema}})
    return out["properties"]["a"], [change for _, change in changes]


def json_schema(node):
    """The same in the words of JSON Schema, as the API reads it."""
    if "anyOf" in node:
        return {"anyOf": [json_schema(sub) for sub in node["anyOf"]]}
    out = {key: value for key, value in node.items() if key != "nullable"}
    out["type"] = node["type"].lower()
    if "properties" in node:
        out["properties"] = {name: json_schema(sub) for name, sub in node["properties"].items()}
    if "items" in node:
        out["items"] = json_schema(node["items"])
    return {"anyOf": [out, {"type": "null"}]} if node.get("nullable") else out


def check(node):
    """What the API would check."""
    assert node.keys() <= GEMINI_KEYWORDS
    if "anyOf" in node:
        assert node.keys() == {"anyOf"}
        assert len(node["anyOf"]) > 1
    else:
        assert node["type"] in TYPES
    assert ("items" in node) == (node.get("type") == "ARRAY")
    assert set(node.get("required", ())) <= set(node.get("properties", ()))
    assert all(isinstance(name, str) and name for name in node.get("enum", ()))
    assert "enum" not in node or node["type"] == "STRING"
    assert node.get("properties", True)
    for sub in (
        *node.get("properties", {}).values(),
        *node.get("anyOf", ()),
        *([node["items"]] if "items" in node else ()),
    ):
        check(sub)


@settings(max_examples=examples(40))
@given(inputs | junk)
def test_any_schema_becomes_one_gemini_accepts_and_is_not_touched(schema):
    before = deepcopy(schema)
    out, _ = written(schema)
    assert schema == before
    if out is not None:
        assert out["type"] == "OBJECT"
        check(out)


def test_real_catalogs_become_schemas_gemini_accepts(corpus):
    sample = [{"parameters": {"type": "dict", "properties": {"xs": {"type": "array", "items": {"type": "float"}}}}}]
    found = list(sample)
    for folder in corpus:
        for file in sorted(folder.glob("catalogs/*.jsonl")):
            found.extend(json.loads(line) for line in file.read_text().splitlines()[::7])
        for file in sorted(folder.glob("mcp_listings/*.json")):
            found.extend({"parameters": tool["inputSchema"]} for tool in json.loads(file.read_text()))
    checked = 0
    for entry in found:
        if isinstance(entry.get("parameters"), dict):
            before = deepcopy(entry["parameters"])
            out, _ = written(entry["parameters"])
            assert entry["parameters"] == before
            if out is not None:
                check(out)
                checked += 1
    assert checked >= len(sample)


@settings(max_examples=examples(40))
@given(accepted)
def test_accepted_arguments_are_accepted_by_what_gemini_is_told(pair):
    schema, arguments = pair
    out, _ = written(schema)
    assert jsonschema_rs.is_valid(json_schema(out), arguments)


@pytest.mark.parametrize(
    ("schema", "out"),
    [
        ({"type": "string"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "INTEGER", "nullable": True}),
        ({"type": "null"}, {"type": "NULL"}),
        ({"const": "x"}, {"type": "STRING", "enum": ["x"]}),
        ({"enum": ["x", None]}, {"type": "STRING", "enum": ["x"], "nullable": True}),
        ({"type": ["string", "null"], "enum": ["x"]}, {"type": "STRING", "enum": ["x"]}),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"type": "STRING", "enum": ["a", "b"]}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "STRING", "nullable": True}),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, {"type": "STRING", "minLength": 2}),
        ({"type": ["integer", "number"]}, {"type": "NUMBER"}),
        (
            {"type": ["string", "integer", "null"], "description": "d", "minLength": 1, "minimum": 2},
            {
                "anyOf": [
                    {"type": "STRING", "description": "d", "minLength": 1, "nullable": True},
                    {"type": "INTEGER", "description": "d", "minimum": 2, "nullable": True},
                ]
            },
        ),
        (
            {"type": "string", "maxLength": 9, "anyOf": [{"pattern": "a"}, {"pattern": "b"}]},
            {
                "anyOf": [
                    {"type": "STRING", "maxLength": 9, "pattern": "a"},
                    {"type": "STRING", "maxLength": 9, "pattern": "b"},
                ]
            },
        ),
        ({"type": "array", "items": False}, {"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 0}),
    ],
)
def test_what_gemini_can_say_is_said_without_loss(schema, out):
    assert member(schema) == (out, [])


@pytest.mark.parametrize(
    ("schema", "out", "words"),
    [
        ({"oneOf": [{"minimum": 1, "type": "integer"}, {"maximum": 5, "type": "integer"}]}, None, "oneOf became anyOf"),
        ({"minLength": 2}, {"type": "STRING", "minLength": 2}, "type string read"),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
            {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}, "maxItems": 2},
            "positions of a tuple",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "OBJECT"},
            "additionalProperties dropped",
        ),
        ({"type": "number", "multipleOf": 3}, {"type": "NUMBER"}, "multipleOf dropped"),
        ({"type": "object", "required": ["zz"]}, {"type": "OBJECT"}, "required names that are not declared"),
        ({"type": "object", "properties": {"never": False}}, {"type": "OBJECT"}, "never allowed"),
        ({"not": {"type": "string"}, "type": "string"}, {"type": "STRING"}, "not dropped"),
        ({"anyOf": [False], "type": "string"}, {"type": "STRING"}, "accepts nothing"),
        ({"$ref": "other.json", "type": "string"}, {"type": "STRING"}, "leads nowhere"),
        ({}, None, "any type became a union"),
        (True, None, "any type became a union"),
    ],
)
def test_what_gemini_cannot_say_is_reported(schema, out, words):
    result, changes = member(schema)
    assert out is None or result == out
    assert any(words in change for change in changes)


def test_alternatives_told_apart_by_a_discriminator_stay_exclusive():
    cat, dog = ({"type": "object", "properties": {"kind": {"const": kind}}} for kind in ("cat", "dog"))
    out, changes = member({"oneOf": [cat, dog], "discriminator": {"propertyName": "kind"}})
    assert [branch["properties"]["kind"]["enum"] for branch in out["anyOf"]] == [["cat"], ["dog"]]
    assert changes == ["discriminator dropped: Gemini has no such keyword"]


def test_closed_objects_are_reported_once_however_many_there_are():
    closed = {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False}
    _, changes = written({"type": "object", "properties": {"a": closed, "b": closed}, "additionalProperties": False})
    assert len(changes) == 1


def test_a_tool_without_parameters_has_no_schema_at_all():
    assert written({}) == (None, [])
    assert written({"type": "object", "properties": {}}) == (None, [])


def test_recursion_is_unrolled_and_then_left_open_with_a_note():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    out, changes = written(
        {"type": "object", "properties": {"head": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    )
    first = out["properties"]["head"]["properties"]["next"]
    assert first["properties"]["next"] == {"type": "OBJECT", "description": "Recursive: the same shape as Node above."}
    assert [pointer for pointer, _ in changes] == ["/properties/head/properties/next/properties/next"]


def test_a_schema_that_explodes_when_inlined_is_left_open_in_time():
    wide = {f"p{i}": {"$ref": "#/$defs/N"} for i in range(40)}
    deep = {"type": "object", "properties": wide}
    layers = {
        f"L{i}": {"type": "object", "properties": {c: {"$ref": f"#/$defs/L{i + 1}"} for c in "abcd"}} for i in range(12)
    }
    schema = {
        "$defs": {"N": deep, **layers, "L12": {"type": "string"}},
        "properties": {"x": {"$ref": "#/$defs/L0"}, **wide},
    }
    out, changes = written(schema)
    check(out)
    assert any("too large" in change for _, change in changes)
    assert len(json.dumps(out)) < 2_000_000


def test_properties_named_like_keywords_survive():
    names = ["$ref", "anyOf", "type", "required", "properties", "$defs", "enum", "items"]
    out, changes = written(
        {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    )
    assert list(out["properties"]) == names
    assert out["required"] == names
    assert changes == []
