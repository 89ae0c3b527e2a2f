import cProfile
import os
import tracemalloc

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from schema.hostile import CASES, CODES, FILTER, filtered
from toolyard import InvalidArguments, Tool, ToolCall, ToolRegistry
from toolyard.schema.coerce import coerce
from toolyard.schema.compile import WALK_STEPS, compile_schema
from toolyard.schema.walk import Walk
from toolyard.schema.weight import InPlaceSchemas

MEGABYTE = 1 << 20


def walk_over(schema, value, *, limit=100):
    """What a walk finds, and the walk."""
    walk = Walk(compile_schema(schema).explainer, WALK_STEPS)
    return walk.find_faults(value, limit), walk


@pytest.mark.parametrize("depth", [1, 12, 60, 95])
def test_one_wrong_leaf_of_a_recursive_filter_is_found_however_deep(depth):
    compiled = compile_schema(FILTER)
    [found] = compiled.violations(filtered(depth, "x"))
    assert str(found) == f"/where{'/left' * depth}/value: must be integer, not string"
    assert compiled.violations(filtered(depth, 1)) == []
    assert compiled.accepts(filtered(depth, 1))
    assert not compiled.accepts(filtered(depth, "x"))


def test_each_of_many_wrong_items_is_named_up_to_the_limit():
    found = compile_schema(CODES).violations({"codes": ["x"] * 95_000})
    assert [violation.pointer for violation in found] == [f"/codes/{at}" for at in range(100)]
    assert found[0].message.endswith('"c7", ... (250 in all)')


def test_a_text_that_is_not_encoded_as_declared_is_told_the_encoding_beside_the_pattern():
    file = {"type": "string", "contentEncoding": "base64", "pattern": r"^[\w+/=]*$"}
    [found] = compile_schema({"type": "object", "properties": {"file": file}}).violations({"file": "no!"})
    assert str(found) == "/file: must be base64 text that matches the pattern " + r"'^[\w+/=]*$'"


def test_members_behind_the_last_fault_that_is_wanted_are_not_looked_at():
    compiled = compile_schema({"patternProperties": {"^k": {"type": "integer"}}})
    compiled.violations({"k": "wrong"})  # compiles the parts
    left = []
    for count in (2, 2_000):
        walk = Walk(compiled.explainer, WALK_STEPS)
        assert len(walk.find_faults({f"k{number}": "wrong" for number in range(count)}, 1)) == 1
        left.append(walk.left + 2 * count)  # a step a member finds those that are declared
    assert left[0] - left[1] < 100


def test_a_long_list_is_judged_by_its_own_schema_whatever_recursion_stands_beside_it():
    both = {**FILTER, "properties": {**FILTER["properties"], **CODES["properties"]}}
    right = ["c7"] * 95_000
    assert compile_schema(both).accepts({**filtered(3, 1), "codes": right})
    [found] = compile_schema(both).violations({**filtered(3, 1), "codes": [*right[1:], "x"]})
    assert found.pointer == "/codes/94999"


@pytest.mark.parametrize(
    ("name", "pointer"),
    [("codes, last wrong", "/codes/94999"), ("objects, last wrong", "/30000/a")],
)
def test_the_one_wrong_item_of_very_many_is_found(name, pointer):
    schema, value = CASES[name]
    assert [found.pointer for found in compile_schema(schema).violations(value)] == [pointer]


def judge_all_ways(schema, value):
    """Verdict and faults, and what they took: functions called, in Python and in C, and bytes at the most."""
    compiled, profile = compile_schema(schema), cProfile.Profile()
    assert compiled.weight.levels
    tracemalloc.start()
    profile.enable()
    try:
        walk_over(schema, value)
        is_valid = compiled.accepts(value)
        found = compiled.violations(value)
        coerce(compiled, value, []) if isinstance(value, dict) else None
    finally:
        profile.disable()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return is_valid, found, sum(entry.callcount for entry in profile.getstats()), peak


@pytest.mark.parametrize("name", CASES)
def test_no_verdict_and_no_list_of_faults_takes_more_than_its_steps_or_much_memory(name):
    is_valid, found, calls, peak = judge_all_ways(*CASES[name])
    assert is_valid is (not found)
    assert calls < 2 * WALK_STEPS
    assert peak < 20 * MEGABYTE
    if found and found[0].keyword == "schema":
        assert "which is the limit" in found[0].message


@pytest.mark.parametrize("name", ["filter, wrong leaf", "codes, all wrong", "many contains"])
def test_a_bound_call_and_a_direct_one_are_refused_for_the_same_reasons(name):
    schema, value = CASES[name]
    parameters = {"type": "object", "properties": {"v": schema}, "$defs": schema.get("$defs", {})}
    registry = ToolRegistry([Tool("t", "ns", "", parameters)])
    with pytest.raises(InvalidArguments) as by_bind:
        registry.bind(ToolCall("ns::t", {"v": value}))
    with pytest.raises(InvalidArguments) as by_dispatch:
        registry.dispatch("ns::t", {"v": value})
    assert by_bind.value.info.details == by_dispatch.value.info.details
    assert len(by_bind.value.info.details["violations"]) <= 100


def test_a_union_of_unions_is_explained_without_all_its_branches():
    union = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    for _ in range(6):
        union = {"anyOf": [union, union]}
    [found] = compile_schema(union).violations("x")
    assert len(found.message) < 500


def test_the_form_that_is_meant_is_explained_and_not_the_others():
    forms = [
        {"type": "object", "properties": {"kind": {"const": kind}, "size": {"type": kind}}, "required": ["kind"]}
        for kind in ("integer", "string")
    ]
    [found] = compile_schema({"oneOf": forms}).violations({"kind": "string", "size": 1})
    assert str(found) == "/size: must be string, not integer"
    [neither] = compile_schema({"oneOf": forms}).violations({"kind": "other", "size": 1})
    assert neither.pointer == ""
    assert neither.message == 'fits none of the 2 allowed forms: /kind: must be "integer" | /kind: must be "string"'


def test_a_form_is_meant_by_the_member_that_tells_it_apart_though_others_are_missing():
    forms = [
        {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind", need]}
        for kind, need in (("cat", "lives"), ("dog", "bark"))
    ]
    union = compile_schema({"oneOf": forms})
    assert list(map(str, union.violations({"kind": "dog"}))) == ["(root): missing required property 'bark'"]
    [neither] = union.violations({"kind": "cow"})
    assert neither.message.endswith(': /kind: must be "cat" | /kind: must be "dog"')


def test_the_faults_of_an_optional_object_are_reported_instead_of_the_union():
    optional = compile_schema({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]})
    assert list(map(str, optional.violations({}))) == ["(root): missing required property 'a'"]


names = st.sampled_from(["a", "b", "c"])
leaves = st.sampled_from([True, False, {}, {"type": "integer"}, {"enum": [1, "x"]}, {"const": None}, {"minLength": 2}])


def nodes(sub):
    few = st.lists(sub, min_size=1, max_size=3)
    keywords = {
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), few),
        **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "additionalProperties"), sub),
        **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), sub),
        **{word: st.dictionaries(names, sub, max_size=2) for word in ("properties", "dependentSchemas")},
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), sub, max_size=2),
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"enum": ["a", "b"]}, True]),
        "required": st.lists(names, unique=True, max_size=2),
        "uniqueItems": st.booleans(),
        "type": st.sampled_from(["object", "array", "integer", ["string", "null"]]),
    }
    references = st.sampled_from([{"$ref": "#"}, {"$ref": "#/$defs/d"}, {"$ref": "#/$defs/e"}])
    return st.fixed_dictionaries({}, optional=keywords).map(lambda node: node) | references


SCHEMAS = st.recursive(leaves, nodes, max_leaves=8)
DOCUMENTS = st.builds(
    lambda root, d, e: {**(root if isinstance(root, dict) else {"allOf": [root]}), "$defs": {"d": d, "e": e}},
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
)
VALUES = st.recursive(
    st.sampled_from([None, 1, 2.5, "x", "xy", True]),
    lambda sub: st.lists(sub, max_size=3) | st.dictionaries(names, sub, max_size=3),
    max_leaves=10,
)


def leads_to_itself(in_place, start):
    """Whether a schema hands one value round in a circle, where drafts leave open what that means."""
    seen, stack = set(), [(start, frozenset())]
    while stack:
        node, above = stack.pop()
        if id(node) in above:
            return True
        if (id(node), above) not in seen and len(seen) < 5000:
            seen.add((id(node), above))
            stack.extend((sub, above | {id(node)}) for sub in in_place.schemas_below(node))
    return False


def compiled_or_none(schema):
    """The validator; None for what is no schema, or leaves open what it means."""
    in_place = InPlaceSchemas(schema)
    nodes = [schema, schema["$defs"]["d"], schema["$defs"]["e"]]
    if any(isinstance(node, dict) and leads_to_itself(in_place, node) for node in nodes):
        return None
    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except ValueError:
        return None


@given(DOCUMENTS, VALUES)
def test_the_walk_comes_to_the_validators_verdict_and_names_places_that_exist(schema, value):
    validator = compiled_or_none(schema)
    if validator is None:
        return
    found, walk = walk_over(schema, value)
    assert bool(found) is not validator.is_valid(value), (schema, value, found)
    assert not walk.is_spent
    for fault in found:
        place = value
        for step in fault.path:
            place = place[step]


_INNER = [None, 1, "xy", [1, "x"], {"a": 1}, {"a": None}]
OBJECTS = [{}, *({name: value} for name in "abc" for value in _INNER), {"a": "x", "b": None, "c": {}}]


# Few of the schemas that are drawn above say anything of members.
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"required": ["b"]},
        {"additionalProperties": False},
        {"additionalProperties": {"type": "integer"}},
        {"patternProperties": {"^[bc]": {"type": ["object", "null"]}}, "additionalProperties": False},
    ],
)
def test_members_get_the_validators_verdict_whether_or_not_they_tell_forms_apart(more):
    schema = {"properties": {"a": {"enum": [1, "x"]}, "b": {"properties": {"a": {"type": "integer"}}}}, **more}
    validator = jsonschema_rs.validator_for(schema)
    for value in OBJECTS:
        assert bool(walk_over(schema, value)[0]) is not validator.is_valid(value), value


WIDTHS = (1, 30, 2_000) if os.environ.get("TOOLYARD_SOAK") is None else (1, 300, 90_000)


def grown(value, width, depth, name):
    """The value many times over, deep inside of others; no more than a request may hold."""
    width = min(width, 90_000 // len(str(value)))
    value = [value] * width if width > 1 else value
    for level in range(depth):
        value = {name: value} if level % 3 else [value]
    return value


@given(DOCUMENTS, VALUES, st.sampled_from(WIDTHS), st.integers(0, 60), names)
def test_no_schema_makes_a_large_value_cost_more_than_its_steps_or_much_memory(schema, value, width, depth, name):
    if compiled_or_none(schema) is None:
        return
    is_valid, found, calls, peak = judge_all_ways(schema, grown(value, width, depth, name))
    assert is_valid is (not found)
    assert len(found) <= 100
    assert calls < 2 * WALK_STEPS
    assert peak < 50 * MEGABYTE
