import math

import pytest
from hypothesis import given

from schema.hostile import CASES, CODES, FILTER, cycle, doubling_levels
from schema.test_walk import DOCUMENTS, VALUES, compiled_or_none
from toolyard.schema.weight import STEPS, InPlaceSchemas, measure, own_steps, weigh


def count_judgements(in_place, node, value, depth=0):
    """What a validator does that remembers nothing and stops at nothing, in steps."""
    if not isinstance(node, dict) or depth > 40:
        return 0
    steps = own_steps(node)
    for sub in in_place.schemas_below(node):
        if sub is not node:
            steps += count_judgements(in_place, sub, value, depth + 1)
    parts = []
    if isinstance(value, dict):
        for name, item in value.items():
            own = (node.get("properties") or {}).get(name, node.get("additionalProperties"))
            parts += [(sub, item) for sub in (own, node.get("unevaluatedProperties"))]
            parts += [(sub, item) for sub in (node.get("patternProperties") or {}).values()]
    elif isinstance(value, list):
        for at, item in enumerate(value):
            first = node.get("prefixItems") or []
            own = first[at] if at < len(first) else node.get("items")
            parts += [(sub, item) for sub in (own, node.get("contains"), node.get("unevaluatedItems"))]
    return steps + sum(count_judgements(in_place, sub, item, depth) for sub, item in parts)


@given(DOCUMENTS, VALUES)
def test_no_value_takes_more_judgements_than_the_weight_says(schema, value):
    if compiled_or_none(schema) is None:
        return
    in_place = InPlaceSchemas(schema)
    weight, size = weigh(schema), measure(value, STEPS)
    assert count_judgements(in_place, schema, value) <= weight.steps_for(size)


@pytest.mark.parametrize(
    "schema", [FILTER, cycle(16), doubling_levels(30), {"properties": {"x": {"allOf": [{"$ref": "#"}] * 2}}}]
)
def test_what_doubles_with_every_level_is_too_much_from_some_depth_on(schema):
    weight = weigh(schema)
    assert not weight.is_bounded
    assert weight.steps_per_value(1) < weight.steps_per_value(3) < STEPS
    assert weight.steps_per_value(100) == math.inf
    assert weight.max_bytes() == 0


@pytest.mark.parametrize(
    "schema",
    [
        CODES,
        {"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}},
        {
            "$defs": {
                "a": {"properties": {"b": {"$ref": "#/$defs/b"}}},
                "b": {"properties": {"a": {"$ref": "#/$defs/a"}}},
            }
        }
        | {"properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#/$defs/b"}}},
        {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]},
    ],
)
def test_ordinary_schemas_recursive_ones_too_are_light_for_values_of_any_depth(schema):
    weight = weigh(schema)
    assert weight.is_light
    assert weight.steps_per_value(10_000) <= 20


def test_integers_beyond_64_bits_count_by_their_digits_and_in_lists_that_must_be_unique_by_their_pairs():
    few, many = measure([2**63] * 10, STEPS), measure([2**63] * 1000, STEPS)
    plain, unique = weigh({"items": {"minimum": 1}}), weigh({"uniqueItems": True})
    assert plain.steps_for(many) < 200 * plain.steps_for(few)
    assert unique.steps_for(many) > 5000 * unique.steps_for(few)
    assert plain.steps_for(measure([10**4000], STEPS)) > 1000 * plain.steps_for(measure([10**10], STEPS))
    assert measure([1, -5, True, "x", 2**62], STEPS).wide == 0


def test_a_value_is_measured_only_up_to_a_limit():
    assert measure([[1] * 100] * 100, 10_000) is None
    size = measure({"a": [1, {"b": None}], "c": "x"}, 100)
    assert (size.values, size.depth) == (6, 4)


@pytest.mark.parametrize("name", CASES)
def test_every_schema_is_weighed_in_bounded_work(name):
    schema, _ = CASES[name]
    assert len(weigh(schema).levels) <= 64
