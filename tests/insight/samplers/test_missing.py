"""tc/missing: one thing is taken away that is needed."""

import pytest

from tests.insight.samplers.yard import names, qualified, registry, tool
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
def test_a_parameter_that_is_gone_is_fed_by_nobody_and_details_say_who_did(parameter):
    made = users(parameter)
    whole = MissingSampler(made, k=2, mode="parameter", sampler="tc/chain", keep_definition=True).sample(seed=1)
    assert [feed.parameter for feed in whole.edges[0].feeds] == [parameter]
    assert whole.edges[0].covers_required
    assert whole.score == whole.edges[0].score
    drawn = MissingSampler(made, k=2, mode="parameter", sampler="tc/chain").sample(seed=1)
    assert names(drawn) == ["list_users", "get_user"]
    assert drawn.details["fed_by"] == ["a::list_users"]
    assert drawn.edges == ()
    assert drawn.score is None


def test_the_edges_that_are_left_are_between_the_tools_of_the_sample():
    sampler = MissingSampler(registry(GIVEN, CHAIN), k=4, mode="parameter")
    for drawn in sampler.series(60, seed=1):
        overloads = {one.qualified_name: one.fingerprint for one in drawn}
        assert all(edge.source_overload == overloads[edge.source] for edge in drawn.edges)
        assert all(edge.target_overload == overloads[edge.target] for edge in drawn.edges)
        at, parameter = drawn.details["position"], drawn.details["parameter"]
        into = [edge for edge in drawn.edges if edge.target == drawn[at].qualified_name]
        assert [edge.covers_required for edge in into] == ([] if parameter == "a" or at == 0 else [True])


def test_a_parameter_that_others_depend_on_is_never_taken_out_but_its_value_may_be_missing():
    made = users(dependentRequired={"lang": ["user_id"]})
    with pytest.raises(SamplingError, match="has a required parameter that could be taken out"):
        MissingSampler(made, k=2, mode="parameter").sample(seed=1)
    drawn = MissingSampler(made, k=2, mode="parameter", keep_definition=True).sample(seed=1)
    assert drawn.details["parameter"] == "user_id"


def test_a_tool_that_is_gone_leaves_the_score_of_the_edges_that_are_left():
    edges = [(0, 1, 0.2), (1, 2, 0.9)]
    sampler = MissingSampler(registry(GIVEN[:3], edges), k=2, mode="tool", sampler="tc/chain")
    scores = {drawn.details["tool"]: drawn.score for drawn in sampler.series(30, seed=1)}
    assert scores == {"n::t0": pytest.approx(0.9), "n::t1": None}


@pytest.mark.parametrize("edges", [None, []])
def test_one_tool_with_nothing_to_take_is_no_sample_and_the_error_says_what_is_lacking(edges):
    with pytest.raises(SamplingError) as caught:
        MissingSampler(registry(1, edges), k=1).sample(seed=1)
    assert str(caught.value) == (
        "tc/missing: found none of 1 tools: the tool to take away has to be drawn too: tc/random: found 1 of 2 tools: "
        "there are no more; no tool of the samples has a required parameter that could be taken out"
    )
    assert (caught.value.requested, caught.value.tools) == (1, [])


def test_a_partial_list_is_always_shorter_than_what_was_asked_for():
    for k in range(1, 9):
        for mode in ("any", "tool", "parameter"):
            with pytest.raises(SamplingError) as caught:
                MissingSampler(registry(min(k, 4)), k=k, mode=mode).sample(seed=1)
            assert caught.value.requested == k
            assert len(caught.value.tools) < k


def test_the_number_of_tools_may_be_that_of_a_sampler_given_with_the_call():
    sampler = MissingSampler(registry(GIVEN, CHAIN), mode="parameter")
    assert len(sampler.sample(seed=1, sampler={"type": "tc/chain", "k": 3})) == 3


SHOP = ["user", "order", "item", "cart", "invoice"]


def shop():
    """A shop where many tools give what many others take."""

    def schema(*names, required=()):
        return {
            "type": "object",
            "properties": {name: {"type": "string"} for name in names},
            "required": list(required),
        }

    given = []
    for one in SHOP:
        others = [f"{other}_id" for other in SHOP if other > one]
        several = {"type": "object", "properties": {f"{one}s": {"type": "array", "items": schema(f"{one}_id")}}}
        given += [
            Tool(f"list_{one}s", "shop", f"List all {one}s", schema(), several),
            Tool(f"create_{one}", "shop", f"Create a {one}", schema("name", required=["name"]), schema(f"{one}_id")),
            Tool(
                f"get_{one}",
                "shop",
                f"Get a {one}",
                schema(f"{one}_id", required=[f"{one}_id"]),
                schema(f"{one}_id", "name", *others),
            ),
            Tool(f"delete_{one}", "shop", f"Delete a {one}", schema(f"{one}_id", required=[f"{one}_id"])),
        ]
    return ToolRegistry(given, enrichments=[DataflowEnrichment(cache=False)])


@pytest.mark.parametrize("inner", [None, "tc/chain", "tc/dag", "tc/random"])
def test_no_tool_that_is_left_feeds_what_was_lost_by_all_that_the_dataflow_knows(inner):
    made = shop()
    feeders = {}
    for edge in made.artifacts["dataflow"].edges():
        for feed in edge.feeds:
            feeders.setdefault((edge.target, feed.parameter), set()).add(edge.source)
    for drawn in MissingSampler(made, k=4, mode="tool", sampler=inner).series(100, seed=1):
        left = set(qualified(drawn))
        lost = [(edge["target"], feed["parameter"]) for edge in drawn.details["lost_edges"] for feed in edge["feeds"]]
        needy = {target for target, parameter in lost if not feeders[target, parameter] & left - {target}}
        assert set(drawn.details["needed_by"]) == needy
        assert [name for name, role in zip(qualified(drawn), drawn.roles, strict=True) if role == "incomplete"] == (
            drawn.details["needed_by"]
        )
        assert needy or (inner == "tc/random" and not lost)


def test_where_every_tool_can_be_stood_in_for_nothing_is_missing_and_that_is_an_error():
    given = GIVEN[:3]
    feed = (Feed("x", "a", 0.9),)
    edges = [
        Edge(one.qualified_name, other.qualified_name, 0.9, feed) for one in given for other in given if one != other
    ]
    for inner in ("tc/chain", "tc/random", None):
        with pytest.raises(SamplingError, match="another of them gives as well") as caught:
            MissingSampler(registry(given, edges), k=2, mode="tool", sampler=inner).sample(seed=1)
        assert len(caught.value.tools) < 2
    assert len(MissingSampler(registry(given, edges), k=2).sample(seed=1)) == 2


def test_a_chain_with_a_hole_is_found_where_few_have_one():
    given = [tool(f"t{at}", required=["a"]) for at in range(8)]
    feed = (Feed("x", "a", 0.9),)
    # All feed all, but for the last, which only the first feeds.
    pairs = [(a, b) for a in range(7) for b in range(7) if a != b] + [(0, 7)]
    edges = [Edge(f"n::t{a}", f"n::t{b}", 0.5, feed) for a, b in pairs]
    sampler = MissingSampler(registry(given, edges), k=3, mode="tool", sampler="tc/chain")
    for drawn in sampler.series(20, seed=1):
        assert (drawn.details["tool"], drawn.details["needed_by"]) == ("n::t0", ["n::t7"])


def test_a_twin_in_another_namespace_stands_in_though_the_dataflow_does_not_know_it():
    given = [tool("find", "a"), tool("find", "b"), tool("show", "a", required=["x"])]
    edges = [(0, 2, 0.9)]
    with pytest.raises(SamplingError):
        MissingSampler(registry(given[:2], []), k=1, mode="tool").sample(seed=1)
    for drawn in MissingSampler(registry(given, edges), k=2, mode="tool", sampler="tc/random").series(10, seed=1):
        assert drawn.details["tool"] == "a::show"
