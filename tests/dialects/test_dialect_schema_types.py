from toolyard.dialects.schema_types import allowed_values, types_of


def test_type_may_be_one_name_or_a_list():
    assert types_of("string") == ["string"]
    assert types_of(["string", "null", 5]) == ["string", "null"]
    assert types_of(None) == []


def test_const_is_an_enum_of_one():
    assert allowed_values({"const": None}) == [None]
    assert allowed_values({"enum": [1, 2]}) == [1, 2]
    assert allowed_values({"enum": "junk"}) is None
    assert allowed_values({}) is None
