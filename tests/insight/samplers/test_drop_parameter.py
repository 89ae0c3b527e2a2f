"""A definition with one required parameter less: nothing asks for it, and what was good is good without it."""

import copy
import itertools
import json

import pytest

from tests.insight.samplers.yard import tool
from toolyard import Tool
from toolyard.insight.base import Edge, Feed
from toolyard.insight.samplers.drop_parameter import (
    edges_without,
    feeds_parameter,
    required_parameters,
    without_parameter,
)
from toolyard.schema.compile import compile_schema

TEXT = {"type": "string"}


def definition(**more):
    """A tool that must have `p` and may have `x` and `y`, with more keywords."""
    properties = {"p": {"enum": ["a", "b"]}, "x": TEXT, "y": TEXT}
    return Tool("t", "n", "", {"type": "object", "properties": properties, "required": ["p"], **more})


def accepts(one, arguments):
    return not list(compile_schema(one.parameters).violations(arguments))


def calls():
    """Every set of the other arguments."""
    for number in range(3):
        for names in itertools.combinations("xy", number):
            yield dict.fromkeys(names, "1")


IS_A = {"properties": {"p": {"const": "a"}}, "required": ["p"]}
EXACT = {
    "nothing else": {},
    "anyOf of it alone": {"anyOf": [{"required": ["p"]}]},
    "anyOf of it or another": {"anyOf": [{"required": ["p"]}, {"required": ["x"]}]},
    "anyOf of it with others": {"anyOf": [{"required": ["p", "x"]}, {"required": ["y"]}]},
    "oneOf of it or another": {"oneOf": [{"required": ["p"]}, {"required": ["x"]}]},
    "allOf": {"allOf": [{"required": ["p"]}, {"required": ["p", "x"]}]},
    "not with another": {"not": {"required": ["p", "x"]}},
    "if it is there": {"if": {"required": ["p"]}, "then": {"required": ["x"]}, "else": {"required": ["y"]}},
    "if another is there": {"if": {"required": ["x"]}, "then": {"required": ["p", "y"]}, "else": {"required": ["p"]}},
    "dependentRequired on it": {"dependentRequired": {"p": ["x"]}},
    "dependentRequired of it": {"dependentRequired": {"x": ["p"], "y": ["p", "x"]}},
    "dependentSchemas on it": {"dependentSchemas": {"p": {"required": ["x", "p"]}}},
    "dependentSchemas of it": {"dependentSchemas": {"x": {"required": ["p", "y"]}, "y": {"required": ["p"]}}},
    "dependencies": {"dependencies": {"p": ["x"], "x": {"required": ["p"]}, "y": ["p"]}},
    "counted": {"minProperties": 2, "maxProperties": 2, "additionalProperties": False},
    "by reference": {"$defs": {"must": {"required": ["p", "x"]}}, "allOf": [{"$ref": "#/$defs/must"}]},
    "one of two values": {"anyOf": [{**IS_A, "required": ["p", "x"]}, {"required": ["y"]}]},
    "deep inside": {"allOf": [{"anyOf": [{"allOf": [{"required": ["p"]}, {"required": ["x"]}]}, {"required": ["y"]}]}]},
}
LOOSER = {
    "oneOf by its value": {"oneOf": [IS_A, {"properties": {"p": {"const": "b"}}, "required": ["x"]}]},
    "oneOf beside anyOf": {"oneOf": [IS_A, {"required": ["x"]}], "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
    "if it has a value": {"if": IS_A, "then": {"required": ["x"]}, "else": {"required": ["y"]}},
    "if it has a value, only then": {"if": IS_A, "then": {"required": ["x"]}},
    "not that value": {"not": IS_A},
    "by reference": {"$defs": {"a": IS_A}, "if": {"$ref": "#/$defs/a"}, "then": {"required": ["x"]}},
}


@pytest.mark.parametrize("more", [*EXACT.values(), *LOOSER.values()], ids=[*EXACT, *LOOSER])
def test_what_was_good_with_it_is_good_without_it_and_nothing_names_it(more):
    one = definition(**more)
    before = copy.deepcopy(one.parameters)
    left = without_parameter(one, "p")
    assert one.parameters == before
    for call in calls():
        if accepts(one, {**call, "p": "a"}) or accepts(one, {**call, "p": "b"}):
            assert accepts(left, call), (call, left.parameters)
    asked = {key: value for key, value in left.parameters.items() if key != "$defs"}
    assert '"p"' not in json.dumps(asked)


@pytest.mark.parametrize("more", EXACT.values(), ids=EXACT)
def test_where_its_value_decides_nothing_what_was_bad_stays_bad(more):
    one = definition(**more)
    left = without_parameter(one, "p")
    for call in calls():
        assert accepts(left, call) == (accepts(one, {**call, "p": "a"}) or accepts(one, {**call, "p": "b"})), call


def test_taking_a_parameter_leaves_the_rest():
    one = tool("t", required=["a"], optional=["b"])
    assert required_parameters(one) == ["a"]
    assert required_parameters(tool("u")) == []
    left = without_parameter(one, "a")
    assert left.name == "t"
    assert left.parameters == {"type": "object", "properties": {"b": TEXT}}
    assert without_parameter(tool("t", required=["a"]), "a").parameters == {"type": "object", "properties": {}}


def test_a_parameter_of_the_same_name_further_inside_stays():
    inside = {"type": "object", "properties": {"p": TEXT}, "required": ["p"]}
    one = definition()
    one = one.replace(parameters={**one.parameters, "properties": {**one.parameters["properties"], "x": inside}})
    assert without_parameter(one, "p").parameters["properties"]["x"] == inside


def test_a_reference_that_leads_back_to_itself_ends():
    one = definition(**{"$defs": {"r": {"required": ["p"], "allOf": [{"$ref": "#/$defs/r"}]}}, "$ref": "#/$defs/r"})
    assert "required" not in without_parameter(one, "p").parameters


def test_a_path_belongs_to_the_longest_name_that_it_begins_with():
    one = tool("t", required=["user", "user.id", "ids"])
    owners = {
        path: [name for name in required_parameters(one) if feeds_parameter(Feed("o", path, 0.5), one, name)]
        for path in ("user", "user.name", "user.id", "user.id.x", "ids[]", "ids[].a", "users")
    }
    assert owners == {
        "user": ["user"],
        "user.name": ["user"],
        "user.id": ["user.id"],
        "user.id.x": ["user.id"],
        "ids[]": ["ids"],
        "ids[].a": ["ids"],
        "users": [],
    }


def edge(*feeds, source="n::s", target="n::t", covers=False, of=("", "")):
    made = tuple(Feed("o", path, score) for path, score in feeds)
    return Edge(source, target, max((score for _, score in feeds), default=0.4), made, covers, *of)


def test_edges_tell_what_is_true_without_the_parameter():
    one = tool("t", required=["a", "b"])
    left = without_parameter(one, "a")
    own = ("", one.fingerprint)
    both, only_a, unsaid = edge(("a", 0.9), ("b", 0.5), covers=True, of=own), edge(("a", 0.9), of=own), edge(of=own)
    only_b, out = edge(("b", 0.5), of=own), edge(("a", 0.9), source="n::t", target="n::u", of=(one.fingerprint, "z"))
    found = list(edges_without([both, only_a, unsaid, only_b, out], one, "a", left))
    assert [(one.score, one.covers_required) for one in found] == [(0.5, True), (0.4, False), (0.5, True), (0.9, False)]
    assert [[feed.parameter for feed in one.feeds] for one in found] == [["b"], [], ["b"], ["a"]]
    assert [one.target_overload for one in found] == [left.fingerprint] * 3 + ["z"]
    assert found[3].source_overload == left.fingerprint


def test_where_nothing_is_required_any_more_nothing_is_covered():
    one = tool("t", required=["a"], optional=["b"])
    found = list(edges_without([edge(("a", 0.9), ("b", 0.5), covers=True)], one, "a", without_parameter(one, "a")))
    assert [(one.covers_required, one.target_overload) for one in found] == [(False, "")]


def test_another_overload_keeps_its_edges():
    one = tool("t", required=["a"])
    other = edge(("a", 0.9), covers=True, of=("", "of another"))
    assert list(edges_without([other], one, "a", without_parameter(one, "a"))) == [other]
