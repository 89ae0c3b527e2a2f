import pytest

from toolyard.model.errors import InvalidSchemaError
from toolyard.schema.compile import compile_schema, usable_pattern

CALL = {
    "type": "object",
    "properties": {
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["c", "f"]},
        "who": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def test_all_violations_are_listed_with_their_pointers_and_in_words():
    value = {"days": 0, "unit": "k", "who": "x", "tags": [1, "a", "b"], "a/b": 1}
    found = {(v.pointer, v.keyword): v.message for v in compile_schema(CALL).violations(value)}
    assert found == {
        ("", "required"): "missing required property 'city'",
        ("", "additionalProperties"): "unexpected property 'a/b'",
        ("/days", "minimum"): "must be at least 1",
        ("/unit", "enum"): 'must be one of "c", "f"',
        ("/who", "anyOf"): "fits none of the 2 allowed forms: must be integer, not string | must be null, not string",
        ("/tags", "maxItems"): "must have at most 2 items",
        ("/tags/0", "type"): "must be string, not integer",
    }


def test_messages_never_repeat_a_value():
    secret = "hunter2-hunter2"
    schema = {
        "properties": {
            "a": {"type": "integer"},
            "b": {"pattern": "^x$"},
            "c": {"const": "k"},
            "d": {"oneOf": [{"type": "null"}, {"maxLength": 2}]},
            "f": {"not": {"type": "string"}},
            "g": {"contains": {"type": "integer"}},
            "h": {"propertyNames": {"maxLength": 1}},
            "i": {"dependentRequired": {"x": ["y"]}},
            "j": False,
            "k": {"uniqueItems": True},
        }
    }
    value = dict.fromkeys("abcdfj", secret) | {"g": [secret], "h": {secret: 1}, "i": {"x": secret}, "k": [secret] * 2}
    violations = compile_schema(schema).violations(value)
    assert {v.pointer for v in violations} == {f"/{key}" for key in "abcdfghijk"}
    # A property name is the caller's spelling of a key, not a value; propertyNames must name it.
    assert not [v for v in violations if secret in v.message and v.pointer != "/h"]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "strng"}, "/type: unknown type"),
        ({"properties": {"a": {"minimum": "5"}}}, "/properties/a/minimum"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "not fetched"),
        ({"$ref": "file:///etc/hostname"}, "not fetched"),
        ({"$ref": "#/nowhere"}, "cannot be resolved"),
        ({"items": {"not": {"$ref": "#/$defs/a"}}}, "/items/not/[$]ref: .*resolved.* under .defs"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json#/y"}}}, "/properties/a/[$]ref: .* not fetched"),
        ({"$schema": "https://example.com/mine"}, "published draft"),
        ({"pattern": "("}, "regular expression: missing .*position 0"),
        ({"pattern": r"^\p{L}{1,64}$"}, "regular expression: its repetitions are too large"),
        ({"pattern": "^[^<>]{1,100000}$"}, "regular expression: its repetitions are too large"),
        ({"pattern": "(?P<x>a)(?P=x)"}, "regular expression: it uses syntax of Python"),
        ({"required": ["a", "a"]}, "/required"),
    ],
)
def test_a_bad_schema_is_refused_with_its_place(schema, says):
    with pytest.raises(InvalidSchemaError, match=says.replace("/", "\\/")):
        compile_schema(schema)


def test_patterns_that_hang_backtracking_engines_answer_at_once():
    compiled = compile_schema({"pattern": "^(a+)+$"})
    assert not compiled.is_valid("a" * 50_000 + "!")


def test_look_around_works_with_a_step_limit_that_fails_closed():
    compiled = compile_schema({"pattern": "^(?=.*[0-9])(?=.*[a-z]).{3,}$"})
    assert compiled.is_valid("ab1")
    assert not compiled.is_valid("abc")
    evil = compile_schema({"pattern": "^((a|aa)+)\\1!$"})
    assert not evil.is_valid("a" * 200 + "!")


@pytest.mark.parametrize(
    ("draft", "schema", "good", "bad"),
    [
        ("http://json-schema.org/draft-04/schema#", {"minimum": 3, "exclusiveMinimum": True}, 4, 3),
        ("http://json-schema.org/draft-06/schema#", {"exclusiveMinimum": 3}, 4, 3),
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "string"}]}, ["a"], [1]),
        ("https://json-schema.org/draft/2019-09/schema", {"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"type": "string"}]}, ["a"], [1]),
    ],
)
def test_the_draft_is_chosen_by_the_schema_keyword(draft, schema, good, bad):
    compiled = compile_schema({"$schema": draft, **schema})
    assert compiled.is_valid(good)
    assert not compiled.is_valid(bad)


def test_formats_are_annotations():
    assert compile_schema({"format": "date"}).is_valid("tomorrow")


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, {"a": object()}])
def test_values_that_are_not_json_are_a_violation_not_a_crash(value):
    compiled = compile_schema({"type": "object", "properties": {"a": {"type": "string"}}})
    assert compiled.violations(value)


def test_400_digit_integers_and_true_are_judged_as_json_does():
    compiled = compile_schema({"type": "integer"})
    assert compiled.is_valid(10**400)
    assert compiled.is_valid(3.0)
    assert not compiled.is_valid(True)
    assert not compiled.is_valid(float("nan"))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$", r"^[\w\-\.]+@([\w\-]+\.)+[\w\-]{2,4}$"),
        (r"[+-\d]", r"[+\-\d]"),
        (r"[s-z\w-.]", r"[s-z\w\-.]"),
        (r"/^[\d-x]$/i", r"(?i)^[\d\-x]$"),
        (r"^\w-[a-z\d-]$", r"^\w-[a-z\d-]$"),
        (r"[\\w-a", None),
        (r"/[a-z]+$/", r"[a-z]+$"),
        ("/api/v1/my", "/api/v1/my"),
        ("/[a-z]+/", "/[a-z]+/"),
    ],
)
def test_a_pattern_is_read_as_in_javascript_and_a_path_stays_one(written, read):
    assert usable_pattern(written) == read
