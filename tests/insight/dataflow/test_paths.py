"""Schemas of every shape give typed paths."""

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from toolyard.insight.dataflow.paths import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    MAX_FIELDS,
    NUMBER,
    OBJECT,
    SCALAR,
    STRING,
    read_fields,
)


def kinds(schema):
    return {field.path: field.kinds for field in read_fields(schema).found}


def test_lists_and_objects_are_followed_and_marked():
    user = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {}}}}
    schema = {"properties": {"users": {"type": "array", "items": user}}}
    found = {field.path: field for field in read_fields(schema).found}
    assert set(found) == {"users", "users[]", "users[].id", "users[].tags"}
    assert (found["users[].id"].holder.lists, found["users[].id"].holder.parents) == (1, ("users",))
    assert found["users[].tags"].kinds == ARRAY


def test_a_result_that_is_a_list_has_paths_beginning_with_brackets():
    schema = {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}}
    assert kinds(schema) == {"[].id": STRING}


def test_a_result_that_is_a_single_value_has_an_empty_path():
    assert kinds({"type": "number"}) == {"": NUMBER}


def test_references_are_resolved_and_their_name_is_the_hint():
    schema = {"$ref": "#/$defs/User", "$defs": {"User": {"type": "object", "properties": {"id": {"type": "string"}}}}}
    (field,) = read_fields(schema).found
    assert (field.path, field.holder.hint) == ("id", "User")


def test_recursive_references_end():
    node = {"type": "object", "properties": {"id": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}
    found = kinds({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert found["id"] == found["next.id"] == STRING
    assert len(found) < MAX_FIELDS


@pytest.mark.parametrize("reference", ["#/$defs/None", "other.json#/x", "#", 5])
def test_an_unresolvable_reference_is_a_value_of_any_type(reference):
    found = read_fields({"type": "object", "properties": {"a": {"$ref": reference}}}).found
    assert found[0].path == "a"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
        {"type": "string", "nullable": True},
        {"allOf": [{"type": "string"}, {"description": "it"}]},
    ],
)
def test_null_and_unions_do_not_hide_the_type(schema):
    assert kinds({"type": "object", "properties": {"a": schema}}) == {"a": STRING}


def test_all_branches_of_a_union_are_read_and_none_is_required():
    first = {"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]}
    second = {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]}
    found = {field.path: field.required for field in read_fields({"oneOf": [first, second]}).found}
    assert found == {"card": False, "iban": False}
    both = {field.path: field.required for field in read_fields({"allOf": [first, second]}).found}
    assert both == {"card": True, "iban": True}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a", "b"]}, STRING),
        ({"enum": [1, 2.5]}, INTEGER | NUMBER),
        ({"default": True}, BOOLEAN),
        ({"format": "date"}, STRING),
        ({"pattern": "x"}, STRING),
        ({"minimum": 1}, INTEGER | NUMBER),
        ({"items": {"type": "string"}}, ARRAY),
        ({"properties": {"b": {}}}, OBJECT),
        ({}, SCALAR),
    ],
)
def test_a_missing_type_is_inferred_from_other_keywords(schema, expected):
    field = read_fields({"type": "object", "properties": {"a": schema}}).found[0]
    assert field.kinds == expected


def test_limits_cut_the_deepest_values():
    wide = {f"f{number}": {"type": "string"} for number in range(MAX_FIELDS)}
    schema = {"type": "object", "properties": {"deep": {"type": "object", "properties": wide}, "last": {}}}
    found = [field.path for field in read_fields(schema).found]
    assert found[:2] == ["deep", "last"]
    assert len(found) == MAX_FIELDS


def test_values_beyond_the_limits_are_not_read():
    """Without limits each of these is millions of steps, for every one of the fields."""
    wide = {"type": "object", "properties": {f"f{number}": {"$ref": "#/$defs/many"} for number in range(10_000)}}
    many = {"allOf": [{"$ref": "#/$defs/wide"}, *({"$ref": f"#/$defs/w{part}"} for part in range(150))]}
    parts = {
        f"w{part}": {"required": [f"g{part}_{number}" for number in range(300)], "properties": {f"g{part}": {}}}
        for part in range(150)
    }
    found = read_fields({"$ref": "#/$defs/many", "$defs": {"wide": wide, "many": many, **parts}}).found
    assert [field.path for field in found] == [f"f{number}" for number in range(MAX_FIELDS)]


def test_only_the_first_values_of_a_long_enum_are_read():
    (field,) = read_fields(
        {"type": "object", "properties": {"color": {"enum": [str(n) for n in range(200_000)]}}}
    ).found
    assert field.kinds == STRING


def test_a_property_of_several_merged_schemas_has_the_last_schema_and_the_first_position():
    parts = [{"properties": {f"f{number}": {"type": "string"} for number in range(MAX_FIELDS)}}]
    parts.append({"properties": {"more": {}, "f1": {"type": "integer"}}})
    found = read_fields({"allOf": parts}).found
    assert [field.path for field in found][:3] == ["f0", "f1", "f2"]
    assert found[1].kinds == INTEGER
    assert len(found) == MAX_FIELDS


def test_keywords_named_like_internal_fields_are_ignored():
    found = read_fields(
        {"type": "object", "properties": {"a": {"type": "string", "kinds": 32, "inner": {}, "hint": 5}}}
    ).found
    assert [(field.kinds, field.holder.hint) for field in found] == [(STRING, "")]


KEYS = st.sampled_from(["a", "user_id", "items", "x-y", ""])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "null", "any", ["string", "null"], 5]),
            "enum": st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=2),
            "format": st.sampled_from(["date", "uuid", 3]),
            "description": st.one_of(st.text(max_size=20), st.none()),
            "$ref": st.sampled_from(["#", "#/$defs/A", "#/x", "http://x"]),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.one_of(st.dictionaries(KEYS, inner, max_size=3), st.just(5)),
            "items": st.one_of(inner, st.booleans(), st.lists(inner, max_size=2)),
            "anyOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=2),
            "$defs": st.fixed_dictionaries({"A": inner}),
            "required": st.one_of(st.lists(KEYS, max_size=2), st.just(True)),
            "type": st.sampled_from(["object", "array"]),
        },
    ),
    max_leaves=12,
)


@given(SCHEMAS)
def test_any_schema_is_accepted(schema):
    found = read_fields(schema).found
    assert len(found) <= MAX_FIELDS
    assert all(field.kinds for field in found)


@pytest.mark.parametrize(
    ("schema", "items"),
    [
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}]}, STRING | INTEGER),
        ({"type": "array", "prefixItems": [{"type": "object"}], "items": False}, OBJECT),
        ({"type": "array", "prefixItems": [{"type": "object"}], "items": {"type": "number"}}, OBJECT | NUMBER),
        ({"type": "array", "items": [{"type": "string"}, {"type": "boolean"}]}, STRING | BOOLEAN),
        ({"type": "array", "prefixItems": []}, SCALAR | OBJECT),
        ({"type": "array", "prefixItems": "no", "items": True}, SCALAR | OBJECT),
    ],
)
def test_a_tuple_is_a_list_of_the_types_of_its_positions(schema, items):
    (field,) = read_fields({"type": "object", "properties": {"a": schema}}).found
    assert (field.kinds, field.items) == (ARRAY, items)


def test_values_inside_a_tuple_have_paths():
    point = {"type": "array", "prefixItems": [{"type": "number"}, {"properties": {"name": {"type": "string"}}}]}
    found = kinds({"properties": {"points": {"type": "array", "items": point}}})
    assert found["points[][].name"] == STRING
    assert found["points[]"] == ARRAY


def test_plain_values_of_a_tuple_have_no_paths_of_their_own():
    pair = {"prefixItems": [{"type": "string"}, {"type": "integer"}]}
    (field,) = read_fields({"properties": {"pairs": {"type": "array", "items": pair}}}).found
    assert (field.path, field.kinds, field.items) == ("pairs", ARRAY, ARRAY)


def test_a_reference_to_an_anchor_is_not_read_as_the_whole_schema():
    schema = {"properties": {"city": {"$ref": "#ident"}}, "$defs": {"t": {"$anchor": "ident", "type": "string"}}}
    assert set(kinds(schema)) == {"city"}
    assert not kinds(schema)["city"] & (OBJECT | ARRAY)


def test_a_small_schema_with_millions_of_values_takes_little_memory():
    leaf = {"type": "object", "properties": {f"a{number}": {"type": "string"} for number in range(300)}}
    schema = {"properties": {f"b{number}": {"$ref": "#/$defs/leaf"} for number in range(300)}, "$defs": {"leaf": leaf}}
    read_fields(schema)
    tracemalloc.start()
    try:
        found = read_fields(schema)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.found) == MAX_FIELDS and found.unread > 80_000
    assert most < 8_000_000
