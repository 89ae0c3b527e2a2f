import json

import pytest
from hypothesis import given, strategies as st

from toolyard.schema import compile_schema
from toolyard.schema.typed_json import typed_decoder

names = st.sampled_from(["a", "b", "c"])
leaves = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": st.integers(0, 2), "maxLength": st.integers(1, 3)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("integer")}, optional={"minimum": st.integers(-2, 2), "exclusiveMaximum": st.integers(1, 5)}
    ),
    st.sampled_from([{"type": "number"}, {"type": "boolean"}, {"type": "null"}, {}, {"description": "x"}]),
    st.builds(
        lambda values: {"type": "string", "enum": values},
        st.lists(st.sampled_from(["x", "yy", ":"]), min_size=1, unique=True),
    ),
    st.builds(lambda values: {"type": "integer", "enum": values}, st.lists(st.integers(0, 3), min_size=1, unique=True)),
    st.just({"type": "string", "const": "x"}),
    st.sampled_from(
        [
            {"type": ["string", "null"]},
            {"type": ["integer", "string"]},
            {"type": ["number", "null"]},
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        ]
    ),
)


def objects(inner):
    return st.builds(
        lambda properties, required, closed: {
            "type": "object",
            "properties": properties,
            "required": [name for name in required if name in properties],
            **({"additionalProperties": False} if closed else {}),
        },
        st.dictionaries(names, inner, max_size=3),
        st.lists(names, unique=True),
        st.booleans(),
    )


schemas = objects(
    st.recursive(
        leaves,
        lambda inner: (
            objects(inner)
            | st.fixed_dictionaries(
                {"type": st.just("array"), "items": inner}, optional={"maxItems": st.integers(0, 2)}
            )
        ),
        max_leaves=6,
    )
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 2.0, 10**30])
    | st.sampled_from(["", "x", "yy", ":", "zzzz", "\\"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(schemas, st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), values, max_size=3), st.booleans())
def test_what_it_accepts_is_the_text_itself_and_fits_the_schema(schema, value, spaced):
    read = typed_decoder(schema)
    assert read is not None
    text = json.dumps(value, separators=None if spaced else (",", ":"), ensure_ascii=False)
    got = read(text)
    if got is not None:
        assert got == json.loads(text)
        assert json.dumps(got) == json.dumps(json.loads(text))
        assert compile_schema(schema).is_valid(got)


@given(schemas)
def test_a_value_of_the_schemas_own_shape_is_usually_decided(schema):
    read = typed_decoder(schema)
    if not schema["required"]:
        assert read("{}") == {}


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 1}', '{"a": 1, "b": 2}', '{"a": 1', "[]", "1", '"a"', "", '{"a": 1.0}', "\ud800", '{"a": 1e400}'],
)
def test_what_it_cannot_vouch_for_is_left_to_the_validator(text):
    read = typed_decoder({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert read('{"a": 1}') == {"a": 1}
    assert read(text) is None


@pytest.mark.parametrize(
    "property_",
    [
        {"type": "string", "pattern": "x"},
        {"$ref": "#"},
        {"oneOf": [{"type": "string"}]},
        {"anyOf": [{"type": "string"}, {"pattern": "x"}]},
        {"type": "number", "minimum": 1},
        {"type": "integer", "minimum": 10**30},
        {"type": "array", "uniqueItems": True},
        {"enum": ["a", 1]},
        {"type": "string", "enum": [1]},
        {"type": "object"},
        {"type": []},
        True,
        {"type": "integer", "multipleOf": 2},
    ],
)
def test_a_schema_that_says_more_than_a_type_has_no_reader(property_):
    assert typed_decoder({"type": "object", "properties": {"a": property_}}) is None
