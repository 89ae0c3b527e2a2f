import pytest

from toolyard.dialects.schema_types import allowed_values, type_name, types_of


@pytest.mark.parametrize(
    ("value", "name"),
    [(True, "boolean"), (1, "integer"), (1.0, "number"), ("", "string"), ([], "array"), ({}, "object"), (None, "null")],
)
def test_json_values_have_a_type(value, name):
    assert type_name(value) == name


def test_type_may_be_one_name_or_a_list():
    assert types_of("string") == ["string"]
    assert types_of(["string", "null", 5]) == ["string", "null"]
    assert types_of(None) == []


def test_const_is_an_enum_of_one():
    assert allowed_values({"const": None}) == [None]
    assert allowed_values({"enum": [1, 2]}) == [1, 2]
    assert allowed_values({"enum": "junk"}) is None
    assert allowed_values({}) is None
