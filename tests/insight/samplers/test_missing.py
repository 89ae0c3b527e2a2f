"""tc/missing: one thing is taken away that is needed."""

import pytest

from tests.insight.samplers.yard import names, qualified, registry, tool
from toolyard import SamplingError
from toolyard.insight.sample import Edge, Feed
from toolyard.insight.samplers.missing import MissingSampler, required_parameters, without_parameter

GIVEN = [tool(f"t{at}", required=["a", "b"], optional=["c"]) for at in range(6)]
CHAIN = [
    Edge(f"n::t{at}", f"n::t{at + 1}", 0.9, (Feed("x", "a", 0.9),), False, GIVEN[at].fingerprint, "") for at in range(5)
]


def test_a_missing_tool_is_one_that_others_need_and_details_say_which():
    sampler = MissingSampler(registry(GIVEN, CHAIN), k=3, mode="tool")
    for drawn in sampler.series(30, seed=1):
        assert len(drawn) == 3
        assert drawn.details["missing"] == "tool"
        gone = drawn.details["tool"]
        assert gone not in qualified(drawn)
        after = f"n::t{int(gone[-1]) + 1}"
        assert drawn.details["needed_by"] == [after]
        assert after in qualified(drawn)
        assert drawn.roles[qualified(drawn).index(after)] == "incomplete"
        assert drawn.roles.count("incomplete") == 1
        assert [edge["source"] for edge in drawn.details["lost_edges"]] == [gone]
        assert gone not in [edge.source for edge in drawn.edges] + [edge.target for edge in drawn.edges]
        assert not drawn.details["replaceable"]
        assert drawn.topology == "missing"


def test_a_missing_parameter_is_a_required_one_and_gone_from_the_definition():
    sampler = MissingSampler(registry(GIVEN, CHAIN), k=3, mode="parameter")
    for drawn in sampler.series(30, seed=1):
        details = drawn.details
        at = details["position"]
        assert details["missing"] == "parameter"
        assert details["parameter"] in ("a", "b")
        assert drawn[at].qualified_name == details["tool"]
        assert drawn.roles[at] == "incomplete"
        assert details["parameter"] not in drawn[at].parameters["properties"]
        assert details["parameter"] not in drawn[at].parameters["required"]
        assert details["schema"] == {"type": "string"}
        assert all(len(one.parameters["properties"]) == 3 for place, one in enumerate(drawn) if place != at)
        assert details["fed_by"] == ([] if details["parameter"] == "b" or at == 0 else [drawn[at - 1].qualified_name])


def test_the_registry_keeps_the_definition_and_so_may_the_sample():
    made = registry(GIVEN, CHAIN)
    before = made.to_dicts()
    drawn = MissingSampler(made, k=3, mode="parameter", keep_definition=True).sample(seed=1)
    assert all(len(one.parameters["properties"]) == 3 for one in drawn)
    assert drawn.details["definition_kept"]
    MissingSampler(made, k=3, mode="parameter").sample(seed=1)
    assert made.to_dicts() == before


def test_by_default_it_is_now_a_tool_now_a_parameter():
    kinds = [drawn.details["missing"] for drawn in MissingSampler(registry(GIVEN, CHAIN), k=3).series(100, seed=1)]
    assert 25 < kinds.count("tool") < 75


def test_where_a_tool_more_cannot_be_had_a_parameter_is_taken():
    sampler = MissingSampler(registry(GIVEN, CHAIN), k=6, sampler="tc/chain")
    assert {drawn.details["missing"] for drawn in sampler.series(20, seed=1)} == {"parameter"}
    with pytest.raises(SamplingError, match="no chain of 7 tools") as caught:
        sampler.sample(seed=1, mode="tool")
    assert caught.value.requested == 6
    assert len(caught.value.tools) <= 6


@pytest.mark.parametrize("edges", [None, []])
def test_without_dataflow_it_draws_at_random(edges):
    drawn = MissingSampler(registry(GIVEN, edges), k=3, mode="tool").sample(seed=1)
    assert len(drawn) == 3
    assert drawn.details["inner_topology"] == "set"
    assert drawn.details["tool"] not in qualified(drawn)
    assert drawn.details["needed_by"] == []


def test_another_sampler_may_be_given():
    fan = [(0, at, 0.5) for at in range(1, 6)]
    sampler = MissingSampler(registry(GIVEN, fan), mode="tool", sampler={"type": "tc/fan_out", "k": 3})
    drawn = sampler.sample(seed=1)
    assert drawn.details["tool"] == "n::t0"
    assert drawn.details["inner_topology"] == "fan_out"
    assert sorted(drawn.details["needed_by"]) == sorted(qualified(drawn))
    assert len(drawn) == 3


def test_a_tool_that_another_can_stand_in_for_is_the_last_choice():
    edges = [
        Edge("n::t0", "n::t2", 0.9, (Feed("x", "a", 0.9),)),
        Edge("n::t1", "n::t2", 0.9, (Feed("x", "a", 0.9), Feed("y", "b", 0.5))),
    ]
    sampler = MissingSampler(registry(GIVEN, edges), k=2, mode="tool", sampler="tc/fan_in")
    assert {drawn.details["tool"] for drawn in sampler.series(30, seed=1)} == {"n::t1"}


def test_tools_without_required_parameters_cannot_lack_one():
    with pytest.raises(SamplingError, match="has a required parameter"):
        MissingSampler(registry(4), k=2, mode="parameter").sample()


def test_taking_a_parameter_leaves_the_rest():
    one = tool("t", required=["a"], optional=["b"])
    assert required_parameters(one) == ["a"]
    assert required_parameters(tool("u")) == []
    assert without_parameter(one, "a").parameters == {"type": "object", "properties": {"b": {"type": "string"}}}
    assert names([without_parameter(one, "a")]) == ["t"]
