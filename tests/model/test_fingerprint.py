import random

from hypothesis import given, strategies as st

from toolyard.model.tool import fingerprint

BASE = {
    "type": "object",
    "properties": {
        "a": {"type": ["string", "null"], "enum": ["x", "y", None], "description": "d"},
        "required": {"type": "array", "items": {"type": "object", "required": ["p", "q"]}, "default": ["z", "y"]},
    },
    "required": ["a", "required"],
}


def shuffled(value, rng, *, lists=False):
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng, lists=key in ("required", "enum", "type")) for key in keys}
    if isinstance(value, list):
        items = [shuffled(item, rng) for item in value]
        if lists:
            rng.shuffle(items)
        return items
    return value


@given(st.randoms(use_true_random=False))
def test_key_order_and_set_like_lists_do_not_matter(rng: random.Random):
    assert fingerprint(shuffled(BASE, rng)) == fingerprint(BASE)


def test_everything_else_matters():
    variants = [
        {**BASE, "description": "x"},
        {**BASE, "required": ["a"]},
        {**BASE, "properties": {**BASE["properties"], "a": {"type": "string"}}},
        {"type": "object", "properties": {"x": {"default": ["z", "y"]}}},
        {"type": "object", "properties": {"x": {"default": ["y", "z"]}}},
        {"type": "object", "prefixItems": [{"type": "string"}, {"type": "null"}]},
        {"type": "object", "prefixItems": [{"type": "null"}, {"type": "string"}]},
    ]
    assert len({fingerprint(schema) for schema in [BASE, *variants]}) == len(variants) + 1


def test_a_property_called_enum_is_a_schema_not_a_list_of_values():
    one = {"properties": {"enum": {"type": "string", "default": ["b", "a"]}}}
    other = {"properties": {"enum": {"type": "string", "default": ["a", "b"]}}}
    assert fingerprint(one) != fingerprint(other)


def test_integral_floats_and_single_type_lists_are_spelling():
    assert fingerprint({"minimum": 1.0}) == fingerprint({"minimum": 1})
    assert fingerprint({"type": ["string"]}) == fingerprint({"type": "string"})
    assert fingerprint({"minimum": 1.5}) != fingerprint({"minimum": 1})


def test_the_value_is_fixed_across_processes_and_versions():
    assert fingerprint({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
