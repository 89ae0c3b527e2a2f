"""A definition with one required parameter less: what is taken out, and what becomes of edges."""

import pytest

from tests.insight.samplers.yard import tool
from toolyard.insight.base import Edge, Feed
from toolyard.insight.samplers.missing import (
    can_lose,
    edges_without,
    feeds_parameter,
    required_parameters,
    without_parameter,
)

TEXT = {"type": "string"}


def test_taking_a_parameter_leaves_the_rest():
    one = tool("t", required=["a"], optional=["b"])
    assert required_parameters(one) == ["a"]
    assert required_parameters(tool("u")) == []
    left = without_parameter(one, "a")
    assert left.name == "t"
    assert left.parameters == {"type": "object", "properties": {"b": TEXT}}
    assert without_parameter(tool("t", required=["a"]), "a").parameters == {"type": "object", "properties": {}}


def test_a_parameter_of_the_same_name_further_inside_stays():
    inside = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    one = tool("t", required=["a"])
    one = one.replace(parameters={**one.parameters, "properties": {"a": TEXT, "x": inside}})
    assert without_parameter(one, "a").parameters["properties"] == {"x": inside}


@pytest.mark.parametrize(
    "more",
    [
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"dependentRequired": {"b": ["a"]}},
        {"minProperties": 1},
        {"$ref": "#/$defs/must", "$defs": {"must": {"required": ["a"]}}},
    ],
)
def test_where_parameters_depend_on_each_other_none_can_be_taken_out(more):
    one = tool("t", required=["a"], optional=["b"])
    assert can_lose(one)
    assert not can_lose(one.replace(parameters={**one.parameters, **more}))


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
