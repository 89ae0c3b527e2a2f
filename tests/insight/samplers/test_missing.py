"""tc/missing: one thing is taken away that is needed."""

import pytest

from tests.insight.samplers.registries import names, qualified, registry, tool
from toolyard import SamplingError, Tool, ToolRegistry
from toolyard.insight.base import Edge, Feed
from toolyard.insight.dataflow.enrichment import DataflowEnrichment
from toolyard.insight.samplers.missing import MissingSampler

GIVEN = [tool(f"t{at}", required=["a", "b"], optional=["c"]) for at in range(6)]
CHAIN = [
    Edge(f"n::t{at}", f"n::t{at + 1}", 0.9, (Feed("x", "a", 0.9),), False, GIVEN[at].fingerprint, "") for at in range(5)
]


def test_a_missing_tool_is_one_that_others_need_and_details_say_which():
    sampler = MissingSampler(registry(GIVEN, CHAIN), k=3, mode="tool")
    for drawn in sampler.series(30, seed=1):
        assert len(drawn) == 3
        assert drawn.details["missing"] == "tool"
        removed = drawn.details["tool"]
        assert removed not in qualified(drawn)
        after = f"n::t{int(removed[-1]) + 1}"
        assert drawn.details["needed_by"] == [after]
        assert after in qualified(drawn)
        assert drawn.roles[qualified(drawn).index(after)] == "incomplete"
        assert drawn.roles.count("incomplete") == 1
        assert [edge["source"] for edge in drawn.details["lost_edges"]] == [removed]
        assert removed not in [edge.source for edge in drawn.edges] + [edge.target for edge in drawn.edges]
        assert drawn.topology == "missing"


def test_a_missing_parameter_is_a_required_one_that_stays_in_the_definition():
    sampler = MissingSampler(registry(GIVEN, CHAIN), k=3, mode="parameter")
    for drawn in sampler.series(30, seed=1):
        details = drawn.details
        at = details["position"]
        assert details["missing"] == "parameter"
        assert details["parameter"] in ("a", "b")
        assert drawn[at].qualified_name == details["tool"]
        assert drawn.roles[at] == "incomplete"
        assert details["schema"] == {"type": "string"}
        assert all(len(one.parameters["properties"]) == 3 for one in drawn)


def test_by_default_either_a_tool_or_a_parameter_is_missing():
    kinds = [drawn.details["missing"] for drawn in MissingSampler(registry(GIVEN, CHAIN), k=3).series(100, seed=1)]
    assert 25 < kinds.count("tool") < 75


def test_a_parameter_is_removed_if_no_larger_sample_exists():
    sampler = MissingSampler(registry(GIVEN, CHAIN), k=6, sampler="tc/chain")
    assert {drawn.details["missing"] for drawn in sampler.series(20, seed=1)} == {"parameter"}
    with pytest.raises(SamplingError, match="no chain of 7 tools") as caught:
        sampler.sample(seed=1, mode="tool")
    assert caught.value.requested == 6
    assert len(caught.value.tools) <= 6


@pytest.mark.parametrize("edges", [None, []])
def test_without_dataflow_the_inner_sampler_is_random(edges):
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


CIRCLE = [Edge(f"n::t{a}", f"n::t{b}", 0.9, (Feed("x", "a", 0.9),)) for a in range(3) for b in range(3) if a != b]


def test_a_tool_whose_values_another_provides_is_not_removed():
    # All feed all, but for the last, which only the first feeds: a chain itself does not tell of the others.
    edges = [*CIRCLE, Edge("n::t0", "n::t3", 0.9, (Feed("x", "a", 0.9),))]
    for drawn in MissingSampler(registry(GIVEN, edges), k=3, mode="tool", sampler="tc/chain").series(20, seed=1):
        assert (drawn.details["tool"], drawn.details["needed_by"]) == ("n::t0", ["n::t3"])
    with pytest.raises(SamplingError, match="none of the rest gives as well"):
        MissingSampler(registry(GIVEN[:3], CIRCLE), k=2, mode="tool", sampler="tc/chain").sample(seed=1)


def test_a_value_provided_by_any_tool_of_the_sample_counts_as_provided():
    for drawn in MissingSampler(registry(GIVEN[:3], CIRCLE), k=3, mode="parameter").series(20, seed=1):
        assert (drawn.details["parameter"], drawn.details["fed_by"]) == ("b", [])


def test_without_required_parameters_no_parameter_is_removed():
    with pytest.raises(SamplingError, match="has a required parameter"):
        MissingSampler(registry(4), k=2, mode="parameter").sample()


def users(parameter="user_id", **more):
    """A tool that lists users and one that takes one of them, with the dataflow between them."""
    text = {"type": "string"}
    one = {"type": "object", "properties": {parameter: text, "lang": text}, "required": [parameter], **more}
    several = {"type": "array", "items": {"type": "object", "properties": {"user_id": text}}}
    given = [
        Tool(
            "list_users", "a", "List users.", {"type": "object"}, {"type": "object", "properties": {"users": several}}
        ),
        Tool("get_user", "a", "Get a user.", one),
    ]
    return ToolRegistry(given, enrichments=[DataflowEnrichment(cache=False)])


@pytest.mark.parametrize("parameter", ["user_id", "user.id"])
def test_a_fed_parameter_is_removed_only_if_there_is_no_unfed_one(parameter):
    sampler = MissingSampler(users(parameter), k=2, mode="parameter", sampler="tc/chain")
    drawn = sampler.sample(seed=1)
    assert names(drawn) == ["list_users", "get_user"]
    assert [feed.parameter for feed in drawn.edges[0].feeds] == [parameter]
    assert (drawn.details["parameter"], drawn.details["fed_by"]) == (parameter, ["a::list_users"])
    chains = MissingSampler(registry(GIVEN, CHAIN), k=3, mode="parameter", sampler="tc/chain").series(30, seed=1)
    found = {(one.details["position"], one.details["parameter"], *one.details["fed_by"]) for one in chains}
    assert found == {(0, "a"), (0, "b"), (1, "b"), (2, "b")}


def test_removing_a_tool_recomputes_the_score():
    edges = [(0, 1, 0.2), (1, 2, 0.9)]
    sampler = MissingSampler(registry(GIVEN[:3], edges), k=2, mode="tool", sampler="tc/chain")
    scores = {drawn.details["tool"]: drawn.score for drawn in sampler.series(30, seed=1)}
    assert scores == {"n::t0": pytest.approx(0.9), "n::t1": None}


@pytest.mark.parametrize("edges", [None, []])
def test_a_single_tool_with_nothing_to_remove_is_an_error_with_the_reason(edges):
    with pytest.raises(SamplingError) as caught:
        MissingSampler(registry(1, edges), k=1).sample(seed=1)
    assert str(caught.value) == (
        "tc/missing: found none of 1 tools: the tool to take away has to be drawn too: tc/random: found 1 of 2 tools: "
        "there are no more; no tool of the samples has a required parameter"
    )
    assert (caught.value.requested, caught.value.tools) == (1, [])


def test_a_partial_list_is_always_shorter_than_what_was_asked_for():
    for k in range(1, 9):
        for mode in ("any", "tool", "parameter"):
            with pytest.raises(SamplingError) as caught:
                MissingSampler(registry(min(k, 4)), k=k, mode=mode).sample(seed=1)
            assert caught.value.requested == k
            assert len(caught.value.tools) < k


def test_k_defaults_to_the_k_of_an_inner_sampler_given_at_the_call():
    sampler = MissingSampler(registry(GIVEN, CHAIN), mode="parameter")
    assert len(sampler.sample(seed=1, sampler={"type": "tc/chain", "k": 3})) == 3
