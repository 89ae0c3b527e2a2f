import asyncio
from collections import OrderedDict, defaultdict

import pytest
from hypothesis import given, strategies as st

from toolyard import InvalidArguments, Tool, ToolCall, ToolRegistry, UnknownToolError


def schema(required=(), /, **properties):
    types = {name: kind if isinstance(kind, dict) else {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": types, "required": list(required)}


def registry(*schemas, **names):
    return ToolRegistry([Tool("t", "ns", "", s) for s in schemas])


def bind(reg, arguments, name="ns::t", **options):
    return reg.bind(ToolCall(name, arguments), **options)


def test_a_single_candidate_is_validated_too():
    reg = registry(schema(["a"], a="string"))
    with pytest.raises(InvalidArguments, match="missing required property 'a'") as caught:
        bind(reg, {})
    assert caught.value.info.code == "tool.invalid_args"
    assert caught.value.info.details["violations"] == [
        {"pointer": "", "message": "missing required property 'a'", "keyword": "required"}
    ]


def test_the_overload_that_fits_is_chosen():
    by_city, by_place = schema(["city"], city="string"), schema(["lat"], lat="number")
    reg = registry(by_city, by_place)
    assert bind(reg, {"lat": 1.5}).tool.parameters == by_place
    assert bind(reg, {"city": "x"}).tool.parameters == by_city


def test_the_most_specific_of_several_wins_and_a_tie_goes_to_the_first():
    loose, exact = schema(["a"], a="string"), schema(["a"], a="string", b="integer")
    reg = registry(loose, exact)
    assert bind(reg, {"a": "x", "b": 1}).tool.parameters == exact
    assert bind(reg, {"a": "x"}).tool.parameters == loose
    assert bind(registry(exact, loose), {"a": "x"}).tool.parameters == exact


def test_an_exact_match_beats_a_coerced_one_whatever_the_order():
    number, text = schema(["a"], a="integer"), schema(["a"], a="string")
    for reg in (registry(number, text), registry(text, number)):
        bound = bind(reg, {"a": "5"})
        assert bound.tool.parameters == text
        assert bound.coercions == ()


def test_if_no_overload_accepts_the_arguments_the_violations_of_each_are_listed():
    reg = registry(schema(["a"], a="string"), schema(["b"], b="string"))
    with pytest.raises(InvalidArguments) as caught:
        bind(reg, {"c": 1})
    overloads = caught.value.info.details["overloads"]
    assert [o["violations"][0]["message"] for o in overloads] == [
        "missing required property 'a'",
        "missing required property 'b'",
    ]


def test_match_is_the_overload_or_none():
    reg = registry(schema(["a"], a="string"))
    assert reg.match(ToolCall("ns::t", {"a": "x"})).name == "t"
    assert reg.match(ToolCall("ns::t", {})) is None
    assert reg.match(ToolCall("ns::nope", {})) is None


def test_a_pinned_overload_is_the_only_one_tried():
    reg = registry(schema(a="string"), schema(a="string", b="integer"))
    second = reg.get("ns::t")[1]
    call = ToolCall("ns::t", {"a": "x"}, overload=second.fingerprint)
    assert reg.bind(call).tool == second
    with pytest.raises(UnknownToolError, match="no overload"):
        reg.bind(ToolCall("ns::t", {}, overload="feed"))


@pytest.mark.parametrize(
    ("kind", "given_", "meant", "listed"),
    [
        ("integer", "5", 5, ("string", "integer")),
        ("number", "5.5", 5.5, ("string", "number")),
        ("number", "5", 5, ("string", "integer")),
        ("boolean", "true", True, ("string", "boolean")),
        ("null", "null", None, ("string", "null")),
        ("integer", 3.0, 3, ("number", "integer")),
        ("object", '{"a": [1]}', {"a": [1]}, ("string", "object")),
        ("array", "[1, 2]", [1, 2], ("string", "array")),
        ({"type": ["integer", "null"]}, "7", 7, ("string", "integer")),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7, ("string", "integer")),
        ({"enum": [1, 2]}, "2", 2, ("string", "integer")),
        ({"const": True}, "true", True, ("string", "boolean")),
    ],
)
def test_lossless_repairs_are_made_and_listed(kind, given_, meant, listed):
    reg = registry(schema(["a"], a=kind))
    bound = bind(reg, {"a": given_})
    assert bound.arguments == {"a": meant}
    assert type(bound.arguments["a"]) is type(meant)
    assert [c.to_dict() for c in bound.coercions] == [{"pointer": "/a", "from": listed[0], "to": listed[1]}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "05"),
        ("integer", "5.0"),
        ("integer", "1e3"),
        ("integer", " 5"),
        ("integer", "5.5"),
        ("integer", 5.5),
        ("integer", True),
        ("boolean", "yes"),
        ("boolean", "True"),
        ("boolean", 1),
        ("string", 5),
        ("object", "{a: 1}"),
        ("object", '{"a": 1, "a": 2}'),
        ("number", "NaN"),
        ("array", "1,2"),
    ],
)
def test_lossy_or_ambiguous_repairs_are_refused(kind, value):
    with pytest.raises(InvalidArguments):
        bind(registry(schema(["a"], a=kind)), {"a": value})


def test_repairs_reach_nested_values_and_leave_the_callers_arguments_alone():
    inner = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "integer"}}},
    }
    arguments = {"o": {"n": "5", "l": ["1", 2.0]}, "s": "5"}
    bound = bind(registry(schema(o=inner, s="string")), arguments)
    assert bound.arguments == {"o": {"n": 5, "l": [1, 2]}, "s": "5"}
    assert [c.pointer for c in bound.coercions] == ["/o/n", "/o/l/0", "/o/l/1"]
    assert arguments == {"o": {"n": "5", "l": ["1", 2.0]}, "s": "5"}


def test_json_text_inside_json_text_is_opened_level_by_level():
    nested = schema(["o"], o={"type": "object", "properties": {"p": {"type": "object"}}, "required": ["p"]})
    bound = bind(registry(nested), {"o": '{"p": "{\\"q\\": 1}"}'})
    assert bound.arguments == {"o": {"p": {"q": 1}}}
    assert len(bound.coercions) == 2


def test_without_coercion_nothing_is_repaired():
    reg = registry(schema(["a"], a="integer"))
    with pytest.raises(InvalidArguments):
        bind(reg, {"a": "5"}, coerce=False)
    assert bind(reg, {"a": 5}, coerce=False).coercions == ()


def test_defaults_are_filled_in_and_are_each_calls_own():
    reg = registry(schema(a={"type": "array", "default": [1]}, b={"type": "string", "default": "x"}))
    first = bind(reg, {"b": "given"}).arguments
    assert first == {"a": [1], "b": "given"}
    first["a"].append(2)
    assert bind(reg, {}).arguments == {"a": [1], "b": "x"}


def test_a_bare_name_works_if_exactly_one_namespace_has_it():
    reg = ToolRegistry([Tool("solo", "a"), Tool("twin", "a"), Tool("twin", "b"), Tool("x", "a", aliases=("nick",))])
    assert bind(reg, {}, "solo").tool.qualified_name == "a::solo"
    assert bind(reg, {}, "nick").tool.qualified_name == "a::x"
    with pytest.raises(UnknownToolError, match="a::twin, b::twin") as caught:
        bind(reg, {}, "twin")
    assert caught.value.info.details["candidates"] == ["a::twin", "b::twin"]


def test_a_call_in_place_of_its_name_is_refused_with_what_to_do():
    reg = registry(schema())
    for dispatch in (reg.dispatch, lambda call: asyncio.run(reg.adispatch(call))):
        with pytest.raises(UnknownToolError, match="called by its name, not by a ToolCall") as caught:
            dispatch(ToolCall("ns::t", {}))
        assert "execute" in caught.value.info.hint


def test_an_unknown_name_suggests_the_nearest():
    reg = ToolRegistry([Tool("get_weather", "weather_api")])
    with pytest.raises(UnknownToolError) as caught:
        bind(reg, {}, "weather::get_weather")
    assert caught.value.info.hint == "did you mean weather_api::get_weather?"
    assert caught.value.info.code == "tool.not_found"


def test_a_misspelt_argument_suggests_the_nearest():
    reg = registry({**schema(["location"], location="string"), "additionalProperties": False})
    with pytest.raises(InvalidArguments) as caught:
        bind(reg, {"locaton": "x"})
    assert "did you mean 'location'" in caught.value.info.hint


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("[1]", "must be a JSON object, not array"),
        ('"x"', "must be a JSON object, not string"),
        ("null", "must be a JSON object, not null"),
        ('{"a": ', "not valid JSON"),
        ('{"a": 1, "a": 2}', "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ("", "not valid JSON"),
        ([1], "must be a JSON object, not array"),
        (5, "must be a JSON object, not integer"),
    ],
)
def test_arguments_that_are_no_object_are_invalid_never_a_crash(arguments, says):
    with pytest.raises(InvalidArguments, match=says):
        bind(registry(schema()), arguments)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"deep": [float("-inf")]}])
def test_nan_and_infinity_are_refused_even_where_nothing_is_declared(value):
    with pytest.raises(InvalidArguments, match="NaN"):
        bind(registry(schema()), {"undeclared": value})


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["5", "true", "x", "[1]", "3.0"])
)
kinds = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), kinds, max_size=3),
        min_size=1,
        max_size=3,
        unique_by=lambda shape: str(sorted(shape.items())),
    ),
    st.dictionaries(st.sampled_from("abcd"), scalars, max_size=4),
)
def test_whatever_is_bound_satisfies_the_chosen_schema_and_exact_fits_are_untouched(shapes, arguments):
    schemas = [schema(sorted(shape), **shape) for shape in shapes]
    reg = registry(*schemas)
    candidates = reg.snapshot.names["ns::t"]
    fits = [c for c in candidates if c.compiled.is_valid(arguments)]
    try:
        bound = bind(reg, arguments)
    except InvalidArguments:
        assert not fits
        return
    chosen = next(c for c in candidates if c.tool is bound.tool)
    assert chosen.compiled.is_valid(bound.arguments)
    if fits:
        assert chosen in fits
        assert bound.arguments == arguments


def cyclic():
    value: dict = {}
    value["a"] = value
    return value


def doubling():
    value: list = ["x"]
    for _ in range(60):
        value = [value, value]
    return {"a": value}


@pytest.mark.parametrize(
    "arguments",
    [
        cyclic(),
        doubling(),
        {"a": b"x"},
        {"a": {1: 2}},
        {"a": {1, 2}},
        {1: 2},
        {"a": object()},
        {"a": iter([])},
        {"a": 10**5000},
    ],
    ids=["cyclic", "doubling", "bytes", "int key", "set", "root int key", "object", "iterator", "huge"],
)
def test_values_that_are_no_json_are_refused_even_where_anything_goes(arguments):
    reg = registry(schema(a={}))
    with pytest.raises(InvalidArguments, match="arguments"):
        bind(reg, arguments)
    assert reg.match(ToolCall("ns::t", arguments)) is None


@pytest.mark.parametrize(
    ("sub", "filled"),
    [
        ({"type": "integer", "default": "five"}, {}),
        ({"type": "integer", "default": "5"}, {"a": 5}),
        ({"type": "string", "default": None}, {}),
        ({"type": "integer", "minimum": 3, "default": 1}, {}),
        ({"type": "integer", "default": 5}, {"a": 5}),
    ],
)
def test_a_default_that_breaks_its_own_schema_is_not_filled_in(sub, filled):
    assert bind(registry(schema(a=sub)), {}).arguments == filled


def test_defaults_that_together_break_a_rule_are_not_filled_in():
    both = {**schema(a={"default": 1}, b={"default": 2}), "maxProperties": 1}
    assert bind(registry(both), {}).arguments == {}


def test_a_flood_of_wrong_values_is_summed_up():
    many = {"type": "array", "items": {"type": "integer"}}
    with pytest.raises(InvalidArguments) as caught:
        bind(registry(schema(a=many)), {"a": ["x"] * 20_000})
    assert len(caught.value.info.details["violations"]) == 100
    closed = {**schema(**{f"p{i}": "string" for i in range(2_000)}), "additionalProperties": False}
    with pytest.raises(InvalidArguments):
        bind(registry(closed), {f"q{i}": 1 for i in range(2_000)})


def test_a_long_list_is_repaired_in_one_go():
    bound = bind(registry(schema(a={"type": "array", "items": {"type": "integer"}})), {"a": ["1"] * 5_000})
    assert bound.arguments == {"a": [1] * 5_000}
    assert len(bound.coercions) == 5_000


@pytest.mark.parametrize("given_arguments", [OrderedDict(a=1), defaultdict(int, a=1), OrderedDict()])
def test_arguments_in_a_kind_of_dict_are_bound_as_those_in_a_dict(given_arguments):
    registry = ToolRegistry([Tool("t", "ns", "", {"type": "object", "properties": {"a": {"type": "integer"}}})])
    bound = registry.bind(ToolCall("ns::t", given_arguments))
    assert type(bound.arguments) is dict and bound.arguments == dict(given_arguments)
