import pytest

from toolyard import InvalidArguments, Tool, ToolCall, ToolRegistry
from toolyard.schema import compile_schema
from toolyard.schema.coerce import coerce
from toolyard.schema.compile import listing_limits

FILTER = {
    "type": "object",
    "properties": {"where": {"$ref": "#/$defs/filter"}},
    "required": ["where"],
    "$defs": {
        "filter": {
            "anyOf": [
                {"type": "object", "properties": {op: {"type": "array", "items": {"$ref": "#/$defs/filter"}}}}
                | {"required": [op], "additionalProperties": False}
                for op in ("and", "or")
            ]
            + [
                {"type": "object", "properties": {"not": {"$ref": "#/$defs/filter"}}, "required": ["not"]}
                | {"additionalProperties": False},
                {"type": "object", "properties": {"field": {"type": "string"}, "value": {"type": "integer"}}}
                | {"required": ["field", "value"], "additionalProperties": False},
            ]
        }
    },
}
CODES = {
    "type": "object",
    "properties": {"codes": {"type": "array", "items": {"enum": [f"c{number}" for number in range(250)]}}},
}


def nested(depth, leaf):
    value = leaf
    for level in range(depth):
        value = {"not": value} if level % 3 == 2 else {("and", "or")[level % 3]: [value]}
    return {"where": value}


def without_listing(schema):
    """A compiled schema whose validator is never asked for its errors."""
    compiled = compile_schema(schema)

    def never(value):
        raise AssertionError("the violations were listed")

    compiled._errors = never
    return compiled


@pytest.mark.parametrize("depth", [12, 24, 60])
def test_a_wrong_leaf_deep_in_a_recursive_filter_is_refused_without_a_list(depth):
    compiled, wrong = without_listing(FILTER), nested(depth, {"field": "a", "value": "x"})
    [found] = compiled.violations(wrong)
    assert (found.pointer, found.keyword) == ("", "schema")
    assert compiled.raw_errors(wrong, limit=10) is None
    assert coerce(compiled, wrong) is None


def test_a_valid_value_is_never_listed_however_deep():
    compiled = without_listing(FILTER)
    assert compiled.violations(nested(60, {"field": "a", "value": 1})) == []
    assert compiled.raw_errors(nested(60, {"field": "a", "value": 1}), limit=10) == []


def test_a_long_list_of_values_outside_an_enum_is_refused_without_a_list():
    wrong = {"codes": ["no such code"] * 95_000}
    [found] = without_listing(CODES).violations(wrong)
    assert "too large" in found.message


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (FILTER, nested(40, {"field": "a", "value": "x"})),
        (CODES, {"codes": ["no such code"] * 95_000}),
    ],
)
def test_the_registry_refuses_both_ways_with_one_finding(schema, arguments):
    registry = ToolRegistry([Tool("t", "ns", "", schema)])
    with pytest.raises(InvalidArguments, match="does not fit its schema") as by_bind:
        registry.bind(ToolCall("ns::t", arguments))
    with pytest.raises(InvalidArguments, match="does not fit its schema"):
        registry.dispatch("ns::t", arguments)
    assert len(by_bind.value.info.details["violations"]) == 1


def test_small_values_are_told_where_they_are_wrong_in_recursive_schemas_too():
    [found] = compile_schema(FILTER).violations(nested(1, {"field": "a", "value": "x"}))
    assert found.pointer == "/where"
    assert compile_schema(CODES).violations({"codes": ["c1", "x"]})[0].pointer == "/codes/1"


def test_the_limits_follow_the_longest_enum_and_recursion():
    plain, _ = listing_limits({"type": "object"})
    enum, deep = listing_limits(CODES)
    recursive, shallow = listing_limits(FILTER)
    assert plain > enum > recursive // 10
    assert recursive < plain
    assert shallow < deep
    assert listing_limits({"properties": {"a": {"$dynamicRef": "#x"}}})[1] == shallow
    assert listing_limits({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": True}})[1] == deep
    assert listing_limits(True) == (plain, deep)
