import pytest
from hypothesis import given, strategies as st

from toolyard.schema.admission import check_budget, is_plain
from toolyard.schema.compile import compile_schema
from toolyard.schema.normalise import normalise

FIVE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
    },
    "required": ["city"],
}


def test_the_usual_tool_is_clean():
    assert is_plain(FIVE, is_input=False)


@pytest.mark.parametrize("told", ["rules", "lm", "examples"])
def test_the_mark_of_an_inferred_output_is_plain(told):
    assert is_plain({**FIVE, "x-inferred": told}, is_input=False)
    assert normalise({"x-inferred": told}, is_input=False) == ({"x-inferred": told}, [])


@pytest.mark.parametrize("schema", [{"default": ""}, {"const": "string"}, {"example": "int", "default": "date"}])
def test_annotations_alone_are_no_properties(schema):
    assert normalise(schema, is_input=False) == (schema, [])


def test_a_property_that_has_the_name_of_a_remark_is_a_property():
    given = {"x-request-id": "string", "x-inferred": "string"}
    assert not is_plain(given, is_input=False)
    assert normalise(given, is_input=False)[0]["properties"].keys() == given.keys()


@pytest.mark.parametrize(
    "fragment",
    [
        {"type": "dict"},
        {"$ref": "#/$defs/a"},
        {"pattern": "a"},
        {"type": "string", "required": True},
        {"nullable": True},
        {"default": float("nan")},
        {"default": [float("inf")]},
        {"minimum": float("nan")},
        {"enum": []},
        {"x-mine": 1},
        {"x-inferred": "rules"},
        {"items": [{}]},
        {"description": 3},
        {"required": ["a", "a"]},
    ],
)
def test_anything_that_needs_a_closer_look_is_not(fragment):
    assert not is_plain({"type": "object", "properties": {"a": fragment}}, is_input=False)


def test_what_is_too_deep_too_large_or_not_json_is_not():
    deep: dict = {"type": "string"}
    for _ in range(14):
        deep = {"type": "array", "items": deep}
    large = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3_000)}}
    loop: dict = {"type": "object"}
    loop["items"] = loop
    for schema in (deep, large, loop, {"type": "object", 1: 2}, {"type": "object", "default": {1}}):
        assert not is_plain(schema, is_input=False)


names = st.sampled_from(["a", "type", "properties", "required", "items", "$ref", "enum"])
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "dict", "any"])
        | st.lists(st.sampled_from(["string", "null", "object"]), max_size=3),
        "description": st.text(max_size=5) | st.none(),
        "enum": st.lists(st.integers(0, 3) | st.text(max_size=2) | st.none(), max_size=4),
        "default": st.none() | st.floats() | st.lists(st.floats(), max_size=2) | st.text(max_size=3),
        "minimum": st.floats() | st.integers() | st.text(max_size=2),
        "minLength": st.integers(-1, 5) | st.floats(0, 3),
        "required": st.lists(names, max_size=3) | st.booleans(),
        "format": st.text(max_size=4),
        "pattern": st.sampled_from(["a", "("]),
        "uniqueItems": st.booleans(),
        "x-inferred": st.sampled_from(["rules", "lm", "examples", "string"]) | st.none(),
    },
)
schemas = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda base, extra: {**base, **extra},
        leaves,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(names, inner, max_size=3),
                "items": inner,
                "additionalProperties": inner | st.booleans(),
                "anyOf": st.lists(inner, min_size=0, max_size=3),
            },
        ),
    ),
    max_leaves=12,
)


@given(schemas)
def test_a_clean_schema_needs_no_rewrite_is_within_budget_and_compiles(schema):
    if not is_plain(schema, is_input=False):
        return
    assert normalise(schema, is_input=False) == (schema, [])
    check_budget(schema)
    compile_schema(schema)
