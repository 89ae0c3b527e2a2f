"""`Shape`: which schemas are so simple that valid values are known to be, and copies that share nothing."""

import pytest
from hypothesis import given, strategies as st

from toolyard.model.tree_size import is_shallow
from toolyard.schema.compile import compile_schema
from toolyard.schema.shape import shape_of

kinds = st.sampled_from(["string", "integer", "number", "boolean", "null", ["integer", "null"], ["number", "integer"]])
scalar = kinds.map(lambda kind: {"type": kind})
loose = st.sampled_from(
    [{}, {"enum": [[1]]}, {"type": "array"}, {"type": "object"}, {"type": ["string", "array"]}, True]
)
inner = scalar | loose
objects = st.builds(
    lambda properties, rest: {"type": "object", "properties": properties, **rest},
    st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
    st.sampled_from([{}, {"additionalProperties": False}, {"patternProperties": {"^x": {}}}]),
)
properties = st.one_of(inner, st.builds(lambda items: {"type": "array", "items": items}, inner), objects)
schemas = st.builds(
    lambda declared, rest: {"type": "object", "properties": declared, **rest},
    st.dictionaries(st.sampled_from("abc"), properties, max_size=3),
    st.sampled_from(
        [
            {},
            {"additionalProperties": False},
            {"additionalProperties": False, "patternProperties": {"^x": {}}},
            {"additionalProperties": {"type": "array"}},
        ]
    ),
)
leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([3.0, 1.5, "t"])
any_value = st.recursive(
    leaves,
    lambda more: st.lists(more, max_size=2) | st.dictionaries(st.sampled_from("pqx"), more, max_size=2),
    max_leaves=4,
)
values = st.dictionaries(st.sampled_from("abcx"), any_value, max_size=3)


def holders(value):
    found = [value]
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            found += holders(item)
    return found


@given(schemas, values)
def test_a_copy_of_a_valid_value_is_equal_and_shallow_and_shares_nothing(schema, value):
    shape = shape_of(schema)
    if shape is None or not compile_schema(schema).is_valid(value):
        return
    copy = shape.copier()(value)
    if copy is None:
        return
    assert copy == value
    assert is_shallow(copy)
    assert not {id(one) for one in holders(copy)} & {id(one) for one in holders(value)}
    if shape.is_flat:
        assert len(holders(value)) == 1
    for name, sub in schema["properties"].items():
        assert (name in shape.integers) == (sub["type"] in ("integer", ["integer", "null"]))


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "object"}}}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}},
        {"type": ["object", "null"], "properties": {}},
    ],
)
def test_what_leaves_room_for_anything_has_no_shape(schema):
    assert shape_of(schema) is None


def test_names_nobody_declared_are_left_to_the_long_way():
    copy = shape_of({"type": "object", "properties": {"a": {"type": "string"}}}).copier()
    assert copy({"a": "x"}) == {"a": "x"}
    assert copy({"a": "x", "b": [[[]]]}) is None


def test_where_only_an_integer_will_do_is_known_since_validators_also_take_three_point_nought():
    properties = {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"type": ["number", "integer"]}}
    assert shape_of({"type": "object", "properties": properties}).integers == ("a",)


def test_tuples_and_subclasses_are_left_to_the_long_way():
    class Mine(dict):
        pass

    copy = shape_of(
        {
            "type": "object",
            "properties": {
                "a": {"type": "array", "items": {"type": "string"}},
                "b": {"type": "object", "properties": {}},
            },
        }
    ).copier()
    assert copy({"a": ("x",)}) is None
    assert copy({"b": Mine()}) is None
    assert copy({"a": ["x"], "b": {}}) == {"a": ["x"], "b": {}}
