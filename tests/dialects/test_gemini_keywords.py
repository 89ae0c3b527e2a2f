import pytest

from toolyard.dialects import gemini as schema
from toolyard.dialects.payload import ChangeLog


def told(function, *arguments):
    log = ChangeLog()
    return function(*arguments, (), log), [item.change for item in log.rewrites("t")]


@pytest.mark.parametrize(
    ("flat", "kind", "out"),
    [
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 10}, "integer", {"minimum": 1, "maximum": 9}),
        ({"exclusiveMinimum": 0.5}, "integer", {"minimum": 1}),
        ({"exclusiveMinimum": 0, "minimum": 5}, "integer", {"minimum": 5}),
        ({"minimum": 1.5, "maximum": 2}, "number", {"minimum": 1.5, "maximum": 2}),
        (
            {"minimum": -(10**400), "exclusiveMaximum": 10**400},
            "integer",
            {"minimum": -(10**400), "maximum": 10**400 - 1},
        ),
    ],
)
def test_bounds_that_can_be_said_exactly_are(flat, kind, out):
    assert told(schema.write_bounds, flat, kind) == (out, [])


def test_an_exclusive_bound_of_a_number_is_loosened_and_reported():
    out, changes = told(schema.write_bounds, {"exclusiveMinimum": 0.5, "maximum": "junk"}, "number")
    assert out == {"minimum": 0.5}
    assert len(changes) == 2


def test_bounds_that_are_no_numbers_are_reported_in_one_order():
    out, changes = told(schema.write_bounds, {"exclusiveMinimum": "a", "maximum": "b", "minimum": "c"}, "number")
    assert out == {} and [change.split()[0] for change in changes] == ["minimum", "maximum", "exclusiveMinimum"]


@pytest.mark.parametrize(
    ("flat", "kind", "out", "reported"),
    [
        ({"enum": ["a", "b", "a"]}, "string", {"enum": ["a", "b"]}, False),
        ({"const": "a"}, "string", {"enum": ["a"]}, False),
        ({"enum": ["a", None]}, "string", {"enum": ["a"]}, False),
        ({"enum": ["a", ""]}, "string", {"enum": ["a"], "description": "May also be empty."}, True),
        ({"enum": [1, 2]}, "integer", {"description": "Allowed values: 1, 2."}, True),
        ({"enum": [1, 2.5]}, "number", {"description": "Allowed values: 1, 2.5."}, True),
        ({"const": True}, "boolean", {"description": "Allowed values: true."}, True),
        ({"enum": [1]}, "string", {}, True),
        ({}, "string", {}, False),
    ],
)
def test_only_texts_can_be_listed_other_values_are_described(flat, kind, out, reported):
    result, changes = told(schema.write_values, flat, kind)
    assert result == out
    assert bool(changes) is reported


@pytest.mark.parametrize(
    ("kind", "name", "kept"),
    [
        ("string", "date-time", True),
        ("string", "email", False),
        ("integer", "int32", True),
        ("integer", "double", False),
        ("number", "double", True),
        ("boolean", "date-time", False),
    ],
)
def test_only_formats_gemini_accepts_for_the_type_are_kept(kind, name, kept):
    out, changes = told(schema.write_texts, {"format": name}, kind)
    assert out == ({"format": name} if kept else {})
    assert bool(changes) is not kept


def test_one_example_is_kept_and_the_loss_of_others_reported():
    out, changes = told(schema.write_texts, {"examples": [1, 2], "default": 0, "title": 5}, "integer")
    assert out == {"example": 1, "default": 0}
    assert changes == ["title dropped: it is not text", "only the first of the examples is kept"]


def test_counts_must_be_whole():
    out, changes = told(schema.write_counts, {"minItems": 2.0, "maxItems": -1}, ("minItems", "maxItems"))
    assert out == {"minItems": 2}
    assert changes == ["maxItems dropped: it is not a whole number"]


def test_types_are_read_from_values_and_keywords():
    assert schema.implied_types({"enum": ["a", 1, None]}) == ["string", "integer"]
    assert schema.implied_types({"minLength": 1, "minimum": 2}) == ["string", "number"]
    assert schema.implied_types({"description": "x"}) == []


def test_keywords_idle_beside_the_type_are_no_loss():
    log = ChangeLog()
    flat = {"multipleOf": 2, "uniqueItems": False, "$comment": "x", "x-vendor": 1, "additionalProperties": False}
    schema.log_unknown(flat, "string", (), log)
    assert [item.pointer for item in log.rewrites("t")] == ["/x-vendor"]
    schema.log_unknown(flat, "object", (), log)
    assert [item.pointer for item in log.rewrites("t")] == ["/x-vendor", "/additionalProperties"]


def test_descriptions_grow_by_a_sentence_but_do_not_repeat_it():
    out = {"description": "First."}
    schema.add_description(out, "Second.")
    schema.add_description(out, "Second.")
    schema.add_description(out, "Zeroth.", first=True)
    schema.add_description(out, None)
    assert out == {"description": "Zeroth. First. Second."}
