from toolyard.dialects.gemini import json_schema


def test_types_nulls_and_numbers_are_those_of_json_schema():
    schema = {
        "type": "OBJECT",
        "properties": {
            "b": {"type": "STRING", "nullable": True, "minLength": "2"},
            "a": {"type": "ARRAY", "items": {"type": "integer"}, "max_items": 3},
            "c": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
            "d": {"type": "STRING", "enum": ["x"], "nullable": True},
            "type": {"type": "TYPE_UNSPECIFIED"},
        },
        "required": ["a"],
        "propertyOrdering": ["a", "b"],
    }
    out = json_schema(schema)
    assert out == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            "b": {"type": ["string", "null"], "minLength": 2},
            "c": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
            "d": {"type": ["string", "null"], "enum": ["x", None]},
            "type": {},
        },
        "required": ["a"],
    }
    assert list(out["properties"])[:2] == ["a", "b"]


def test_what_is_no_schema_allows_anything():
    assert json_schema("junk") == {}
    assert json_schema({"properties": {"a": 5}}) == {"properties": {"a": {}}}
