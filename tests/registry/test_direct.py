"""The short way does what the long way does."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from toolyard import CallError, InvalidArguments, PythonBinding, Tool, ToolRegistry, function_tool
from toolyard.registry.candidate import Candidate
from toolyard.registry.direct import direct_call

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "n": {"type": "integer", "minimum": 0},
        "b": {"type": "object", "properties": {"c": {"type": "number"}}, "required": ["c"]},
        "d": {},
        "e": {"type": "array", "items": {"type": "string"}},
    },
}


def show(**arguments):
    return json.dumps(arguments, sort_keys=True)


def registry(schema=SCHEMA):
    return ToolRegistry([Tool("t", "ns", "", schema, binding=PythonBinding(show, integers=("n",)))])


def outcome(reg, arguments):
    try:
        return reg.dispatch("ns::t", arguments)
    except CallError as error:
        return error.info.to_dict()


keys = st.sampled_from(["a", "b", "c", "d", "e", "n", "x:y"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet='a:"\\{', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(keys, inner), max_size=3),
    max_leaves=8,
)


def spelt(value, rng):
    """JSON text in which pairs may repeat a key and colons may stand anywhere."""
    space = rng.choice(["", " ", "\n"])
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return "{" + ",".join(f"{json.dumps(key)}{space}:{space}{spelt(item, rng)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(spelt(item, rng) for item in value) + "]"
    return json.dumps(value)


@settings(max_examples=600)
@given(st.lists(st.tuples(keys, values), max_size=4), st.randoms(use_true_random=False))
def test_a_second_call_takes_the_short_way_and_gives_the_same(pairs, rng):
    text = spelt(pairs, rng)
    fresh, used = registry(), registry()
    used.dispatch("ns::t", {})
    assert "ns::t" in used.snapshot.direct
    assert outcome(used, text) == outcome(fresh, text)


@given(st.text(alphabet='{}[]":,a1 \\\n', max_size=30))
def test_broken_text_is_refused_alike(text):
    fresh, used = registry(), registry()
    used.dispatch("ns::t", {})
    assert outcome(used, text) == outcome(fresh, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "1", "a": "2"}',
        '{"b": {"c": 1, "c": 2}}',
        '{"d": {"x": 1, "x": 2}}',
        '{"d": [{"x": 1, "x": 2}]}',
        '{"a" : "1", "a":"2"}',
        '{"a": ":", "a": ":"}',
    ],
)
def test_a_repeated_key_is_refused_at_any_depth(text):
    reg = registry()
    reg.dispatch("ns::t", {})
    with pytest.raises(InvalidArguments, match="appears twice"):
        reg.dispatch("ns::t", text)


def test_keys_that_nobody_declared_reach_the_tool():
    reg = registry()
    reg.dispatch("ns::t", {})
    assert reg.dispatch("ns::t", '{"a": "x", "undeclared": [1]}') == '{"a": "x", "undeclared": [1]}'


def test_deep_nesting_is_refused_however_it_comes():
    reg = registry()
    reg.dispatch("ns::t", {})
    for depth in (250, 500, 100_000):
        with pytest.raises(InvalidArguments, match="nest"):
            reg.dispatch("ns::t", '{"d":' + "[" * depth + "]" * depth + "}")


def test_only_a_callable_that_takes_json_as_it_is_has_a_short_way():
    def plain(a: int) -> int:
        return a

    async def waits(a: int) -> int:
        return a

    def wants_ctx(a: int, ctx) -> int:
        return a

    def filled_in(a: int = 3) -> int:
        return a

    def has_short_way(function):
        candidate = Candidate(function_tool(function, namespace="n"))
        candidate.validate({"a": 1})
        return direct_call(candidate) is not None

    assert [has_short_way(f) for f in (plain, waits, wants_ctx, filled_in)] == [True, False, False, False]


def test_a_changed_registry_forgets_the_short_way():
    reg = registry()
    reg.dispatch("ns::t", {})
    reg.remove("ns::t")
    with pytest.raises(CallError):
        reg.dispatch("ns::t", {})
