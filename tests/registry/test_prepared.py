import json

import pytest
from hypothesis import given, strategies as st

from toolyard import (
    CallError,
    InvalidArguments,
    PythonBinding,
    RestBinding,
    Tool,
    ToolCall,
    ToolRegistry,
    function_tool,
)
from toolyard.registry.prepared import PreparedTool, read_arguments
from toolyard.schema.admission import AdmittedTool

FILLED = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "object", "properties": {"c": {}}},
        "d": {},
        "e": {"type": "array", "default": [{"x": 1}]},
    },
}


def candidate(schema=FILLED):
    made = PreparedTool(AdmittedTool(Tool("t", "ns", "", schema)))
    made.compiled.accepts({})
    return made


def test_the_validator_is_compiled_when_first_needed_and_once():
    made = PreparedTool(AdmittedTool(Tool("t", "ns", "", FILLED)))
    assert made.known_compiled is None
    made.compiled.accepts({})
    compiled = made.compiled
    made.compiled.accepts({"a": "x"})
    assert made.compiled is compiled
    assert not made.compiled.accepts({"a": 1})


def test_defaults_are_copied_and_only_fill_gaps():
    made = candidate()
    given_ = {"e": []}
    assert made.with_defaults(given_) is given_
    filled = made.with_defaults({})
    filled["e"][0]["x"] = 2
    assert made.with_defaults({}) == {"e": [{"x": 1}]}


def test_a_wrong_default_is_left_out_however_much_else_is_missing():
    names = [f"r{number}" for number in range(40)]
    properties = {name: {"type": "string"} for name in names} | {"a": {"type": "string", "default": 1}}
    made = candidate({"type": "object", "properties": properties, "required": names})
    given_ = dict.fromkeys(names, "x")
    assert made.with_defaults(given_) is given_


def test_defaults_follow_the_sent_arguments():
    part = {"type": "integer", "default": 1}
    for more in ({}, {"maxProperties": 3}, {"additionalProperties": False}, {"dependentRequired": {"a": ["b"]}}):
        made = candidate({"type": "object", "properties": {"a": part, "b": part, "c": {}}, **more})
        assert list(made.with_defaults({"c": 3, "b": 2}).items()) == [("c", 3), ("b", 2), ("a", 1)]
    made = candidate({"type": "object", "properties": {"a": part, "b": part}, "maxProperties": 1})
    assert made.with_defaults({"b": 2}) == {"b": 2}


def test_defaults_of_an_http_operation_are_the_servers_matter():
    schema = {"type": "object", "properties": {"private": {"type": "boolean", "default": False}}}
    local, remote = (
        Tool("a", "x", "", schema),
        Tool("b", "x", "", schema, binding=RestBinding("PATCH", "/", "http://h")),
    )
    registry = ToolRegistry([local, remote])
    assert registry.bind(ToolCall("x::a")).arguments == {"private": False}
    assert registry.bind(ToolCall("x::b")).arguments == {}


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


def outcome_of_dict(reg, text):
    try:
        arguments = read_arguments(text)
    except CallError as error:
        return error.info.to_dict()
    return outcome(reg, arguments)


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


@given(st.lists(st.tuples(keys, values), max_size=4), st.randoms(use_true_random=False))
def test_text_gives_what_the_same_arguments_give_as_a_dict(pairs, rng):
    text = spelt(pairs, rng)
    reg = registry()
    assert outcome(reg, text) == outcome(reg, text) == outcome_of_dict(reg, text)


@given(st.text(alphabet='{}[]":,a1 \\\n', max_size=30))
def test_broken_text_is_refused_alike(text):
    reg = registry()
    assert outcome(reg, text) == outcome_of_dict(reg, text)


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


def test_undeclared_keys_reach_the_tool():
    reg = registry()
    reg.dispatch("ns::t", {})
    assert reg.dispatch("ns::t", '{"a": "x", "undeclared": [1]}') == '{"a": "x", "undeclared": [1]}'


def test_deep_nesting_is_refused_on_every_path():
    reg = registry()
    reg.dispatch("ns::t", {})
    for depth in (250, 500, 100_000):
        with pytest.raises(InvalidArguments, match="nest"):
            reg.dispatch("ns::t", '{"d":' + "[" * depth + "]" * depth + "}")


def test_every_kind_of_function_is_prepared_once():
    def plain(a: int) -> int:
        return a

    async def waits(a: int) -> int:
        return a

    def wants_ctx(a: int, ctx) -> int:
        return a

    def filled_in(a: int = 3) -> int:
        return a

    functions = (plain, waits, wants_ctx, filled_in)
    reg = ToolRegistry([function_tool(function, namespace="n") for function in functions])
    for function in functions:
        name = f"n::{function.__name__}"
        prepared = reg.snapshot.names[name][0]
        assert reg.dispatch(name, {"a": 3.0}) == reg.dispatch(name, '{"a": 3}') == 3
        assert prepared.dispatch is prepared.dispatch
        assert type(reg.dispatch(name, {"a": 3.0})) is int


def test_overloads_and_bare_names_are_called_like_a_tool_by_itself():
    def one(a: int) -> str:
        return f"one {a}"

    async def two(a: str, b: int = 2) -> str:
        return f"two {a} {b}"

    reg = ToolRegistry([function_tool(function, namespace="n", name="over") for function in (one, two)])
    assert reg.dispatch("over", {"a": 1.0}) == "one 1"
    assert reg.dispatch("n::over", '{"a": "x"}') == "two x 2"
    with pytest.raises(InvalidArguments, match="no overload"):
        reg.dispatch("n::over", {"a": None})


def test_a_tool_that_was_removed_is_not_called_any_more():
    reg = registry()
    reg.dispatch("ns::t", {})
    reg.remove("ns::t")
    with pytest.raises(CallError):
        reg.dispatch("ns::t", {})


def test_only_defaults_that_are_missing_are_copied():
    large = [0] * 1000
    properties = {"large": {"type": "array", "default": large}, "small": {"type": "array", "default": []}}
    prepared = PreparedTool(AdmittedTool(Tool("t", "ns", "", {"type": "object", "properties": properties})))
    sent = {"large": [1]}
    filled = prepared.with_defaults(sent)
    assert filled == {"large": [1], "small": []} and filled["large"] is sent["large"]
    assert prepared.with_defaults({"small": []})["large"] is not prepared.with_defaults({"small": []})["large"]
