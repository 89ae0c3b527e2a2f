import copy

import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import InvalidSchemaError
from toolyard.schema.admission import admit_schema
from toolyard.schema.compile import compile_schema
from toolyard.schema.normalise import is_property_map, normalise

CITY = {"type": "string"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            {"type": "dict", "properties": {"a": {"type": "float"}}},
            {"type": "object", "properties": {"a": {"type": "number"}}},
        ),
        ({"properties": {"a": CITY}}, {"type": "object", "properties": {"a": CITY}}),
        ({"a": CITY, "b": {"type": "int"}}, {"type": "object", "properties": {"a": CITY, "b": {"type": "integer"}}}),
        ({"a": "string", "b": "int"}, {"type": "object", "properties": {"a": CITY, "b": {"type": "integer"}}}),
        (
            [{"name": "a", "type": "str", "required": True}, {"name": "b", "type": "int"}],
            {"type": "object", "properties": {"a": CITY, "b": {"type": "integer"}}, "required": ["a"]},
        ),
        (
            {"type": "object", "properties": {"a": {**CITY, "required": True}, "b": {**CITY, "required": False}}},
            {"type": "object", "properties": {"a": CITY, "b": CITY}, "required": ["a"]},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "tuple", "items": {"type": "any"}}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": [CITY, {"type": "int"}]}}},
            {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [CITY, {"type": "integer"}]}}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "nullable": True, "enum": ["x"]}}},
            {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", None]}}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}},
            {"type": "object", "properties": {"a": {"type": "integer", "exclusiveMinimum": 0}}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": "5"}}, "required": "a"},
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5}}, "required": ["a"]},
        ),
        ({"type": "object", "properties": None, "required": None}, {"type": "object"}),
        ({"type": "object", "city": CITY}, {"type": "object", "properties": {"city": CITY}}),
        ({"$schema": DRAFT_7}, {"type": "object", "$schema": DRAFT_7}),
        ({"$top": "The number."}, {"type": "object", "properties": {"$top": {"description": "The number."}}}),
        ({"city": "string", "title": "str"}, {"type": "object", "properties": {"city": CITY, "title": CITY}}),
        (
            {"a": "The name of the city.", "b": "int"},
            {"type": "object", "properties": {"a": {"description": "The name of the city."}, "b": {"type": "integer"}}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "ENUM", "choices": [1, 2]}, "b": {**CITY, "help": "x"}}},
            {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {**CITY, "description": "x"}}},
        ),
        (
            {"a": {"type": "select", "llm_description": "x", "options": [{"value": "1", "label": {"en": "One"}}]}},
            {"type": "object", "properties": {"a": {"type": "string", "description": "x", "enum": ["1"]}}},
        ),
        (
            {"type": "object", "properties": {"a": {**CITY, "optional": True}, "b": CITY}},
            {"type": "object", "properties": {"a": CITY, "b": CITY}, "required": ["b"]},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {**CITY, "required": True}}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": CITY}}},
        ),
        (
            {"type": "object", "properties": {"a": {**CITY, "required": "true"}}},
            {"type": "object", "properties": {"a": CITY}, "required": ["a"]},
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/x", "nullable": True}}, "$defs": {"x": CITY}},
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}},
                "$defs": {"x": CITY},
            },
        ),
        (
            {"type": "object", "properties": {"a": {"type": ["string", "string"]}}},
            {"type": "object", "properties": {"a": {"type": ["string"]}}},
        ),
        ({"properties": CITY, "b": CITY}, {"type": "object", "properties": {"properties": CITY, "b": CITY}}),
    ],
)
def test_catalog_dialects_become_what_their_author_meant_and_each_change_is_listed(written, meant):
    before = copy.deepcopy(written)
    schema, changes = normalise(written)
    assert schema == meant
    assert changes
    assert written == before
    compile_schema(schema)


def test_plain_json_schema_is_left_alone():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"type": {"type": "string"}, "items": {"items": [CITY]}, "required": {"type": "boolean"}},
        "required": ["type"],
        "x-vendor": {"type": "dict"},
    }
    assert normalise(schema) == (schema, [])


def test_data_inside_default_and_enum_is_not_a_schema():
    schema = {"type": "object", "properties": {"a": {"default": {"type": "dict"}, "enum": [{"type": "float"}, 1]}}}
    assert normalise(schema) == (schema, [])


@pytest.mark.parametrize("options", [5, True, {}, [], [{"value": "a"}, "b"]])
def test_options_that_list_no_values_stay_as_they_are(options):
    schema = {"type": "object", "properties": {"a": {"type": "string", "enum": ["a"], "options": options}}}
    assert normalise(schema) == (schema, [])


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {"a": {"type": "strng"}}}, "/properties/a/type: unknown type 'strng'"),
        ({"type": "array"}, "input of a tool is an object"),
        ({"type": "object", "properties": 3}, "/properties: must be an object"),
        ({"type": "object", "properties": {"a": 3}}, "/properties/a: a schema must be an object, not integer"),
        ("object", "must be an object"),
        ([{"type": "string"}], "each with a 'name'"),
        ({"type": "object", "properties": {"a": {"description": ["x"]}}}, "must be text"),
        ({"type": "object", "properties": {"a": {"default": float("nan")}}}, "NaN"),
        ({"type": "object", "properties": {"a": {"minimum": float("inf")}}}, "finite"),
        ({"type": "object", "x-rank": float("nan")}, "NaN"),
    ],
)
def test_unreadable_schemas_are_refused_with_their_pointer(schema, says):
    with pytest.raises(InvalidSchemaError) as caught:
        normalise(schema)
    assert says in str(caught.value)


def test_a_schema_that_contains_itself_or_is_3000_deep_is_refused_not_a_crash():
    loop: dict = {"type": "object", "properties": {}}
    loop["properties"]["again"] = loop
    deep: dict = {}
    for _ in range(3_000):
        deep = {"type": "array", "items": deep}
    for schema in (loop, {"type": "object", "properties": {"a": deep}}):
        with pytest.raises(InvalidSchemaError, match="deeper"):
            normalise(schema)


def test_an_output_schema_may_describe_anything_and_seal_tools_maps_are_wrapped():
    assert normalise({"type": "str"}, is_input=False)[0] == {"type": "string"}
    assert normalise(True, is_input=False)[0] == {}
    assert normalise({"a": {"type": "str"}}, is_input=False)[0] == {"type": "object", "properties": {"a": CITY}}


@pytest.mark.parametrize(
    ("schema", "is_map"),
    [
        ({"properties": {"a": CITY}}, False),
        ({"title": "Object", "properties": {"a": CITY}}, False),
        ({"additionalProperties": {"type": "string"}}, False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, False),
        ({"items": {"type": "array"}, "name": CITY}, True),
        ({"type": CITY}, True),
        ({"description": "text"}, False),
    ],
)
def test_property_maps_and_schemas_are_distinguished(schema, is_map):
    assert is_property_map(schema) is is_map


keys = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "a", "default", "anyOf", "minimum", "nullable"]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "dict", "float", "x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@given(junk)
def test_any_json_is_normalised_or_refused_and_a_second_pass_changes_nothing(value):
    try:
        schema, _ = normalise(value)
    except InvalidSchemaError:
        return
    again, changes = normalise(schema)
    assert again == schema
    assert changes == []


def test_values_that_contain_themselves_or_share_their_parts_do_not_hang():
    loop: list = []
    loop.append(loop)
    shared: list = ["a"]
    for _ in range(60):
        shared = [shared, shared]
    for value in (loop, shared):
        schema, _ = normalise({"type": "object", "properties": {"a": {"default": value}}})
        assert schema["properties"]["a"]["default"] is value
    nested: dict = {"type": "string"}
    for _ in range(60):
        nested = {"type": "object", "properties": {"a": nested, "b": nested}}
    with pytest.raises(InvalidSchemaError, match="subschemas"):
        normalise(nested)


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("integer", "5", 5),
        ("number", "0.5", 0.5),
        ("boolean", "False", False),
        ("array", '["a"]', ["a"]),
        ("object", "{}", {}),
        ("string", "5", "5"),
        ("integer", "", ""),
        ("integer", "none", "none"),
        (["integer", "null"], "None", None),
        (["integer", "null"], "many", "many"),
        (["integer", "string"], "5", "5"),
        ("array", "[" * 100_000, "[" * 100_000),
    ],
)
def test_a_default_that_is_text_is_read_as_its_type_says(kind, written, read):
    admitted = admit_schema({"type": "object", "properties": {"a": {"type": kind, "default": written}}})
    assert admitted.schema["properties"]["a"]["default"] == read
    assert bool(admitted.changes) is (written != read)


def test_if_only_optional_parameters_are_marked_the_others_are_required():
    schema, _ = normalise({"a": {"type": "str"}, "b": {"type": "int, optional"}, "c": {"type": "str", "default": "x"}})
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"] == {"type": "integer"}
    schema, _ = normalise({"a": "str (required)", "b": "int"})
    assert schema["required"] == ["a"]


def test_a_pattern_of_javascript_costs_no_tool():
    schema = {"type": "object", "properties": {"mail": {"type": "string", "pattern": r"^[\w-.]+@[\w-.]+$"}}}
    found, changes = normalise(schema)
    assert found["properties"]["mail"]["pattern"] == r"^[\w\-.]+@[\w\-.]+$"
    assert [change.pointer for change in changes] == ["/properties/mail/pattern"]
    compile_schema(found)
