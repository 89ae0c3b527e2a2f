"""tc/conflict: tools that are easily taken for each other."""

import numpy as np
import pytest

from tests.insight.samplers.registries import qualified, registry, tool
from toolyard import SamplingError, Tool
from toolyard.insight.samplers.neighbor import ConflictSampler, list_differences

GROUPS = np.repeat(np.eye(5), 4, axis=0)
GIVEN = [tool(f"t{at}", required=[f"p{at}"]) for at in range(20)]


def test_the_sample_has_one_gold_tool_and_similar_ones():
    sampler = ConflictSampler(registry(GIVEN, vectors=GROUPS), k=4)
    for drawn in sampler.series(30, seed=1):
        assert sorted(drawn.roles) == ["confusable", "confusable", "confusable", "gold"]
        gold = drawn[drawn.roles.index("gold")]
        assert drawn.details["gold"] == gold.qualified_name
        assert drawn.details["gold_overload"] == gold.fingerprint
        assert len({int(one.name[1:]) // 4 for one in drawn}) == 1
        assert drawn.score == pytest.approx(1, abs=1e-3)
        told = drawn.details["groups"][0]["conflicts"]
        assert {row["tool"] for row in told} == set(qualified(drawn)) - {gold.qualified_name}
        assert all(row["differs"] == ["parameters"] for row in told)


def test_the_gold_tool_has_a_random_position():
    sampler = ConflictSampler(registry(GIVEN, vectors=GROUPS), k=4)
    places = [drawn.roles.index("gold") for drawn in sampler.series(100, seed=1)]
    assert set(places) == {0, 1, 2, 3}


def test_the_same_name_in_another_namespace_comes_first():
    given = [tool("search", "a", "Find people", ["q"]), tool("search", "b", "Find songs", ["text"]), *GIVEN]
    vectors = np.vstack([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], GROUPS])
    drawn = ConflictSampler(registry(given, vectors=vectors), k=3, tool="a::search").sample(seed=1)
    assert drawn.details["gold"] == "a::search"
    first = drawn.details["groups"][0]["conflicts"][0]
    assert first["tool"] == "b::search"
    assert first["same_name"]


def test_an_identical_tool_in_another_namespace_is_not_a_conflict():
    given = [tool("search", "a", "Find", ["q"]), tool("search", "b", "Find", ["q"]), tool("look", "a", "Find", ["x"])]
    drawn = ConflictSampler(registry(given), k=2, tool="a::search").sample(seed=1)
    assert set(qualified(drawn)) == {"a::search", "a::look"}
    with pytest.raises(SamplingError):
        ConflictSampler(registry(given), k=3, tool="a::search").sample(seed=1)


def test_min_score_limits_the_similarity():
    sampler = ConflictSampler(registry(GIVEN, vectors=GROUPS + 0.1), k=4, min_score=0.9)
    assert all(drawn.score >= 0.9 for drawn in sampler.series(20, seed=1))
    with pytest.raises(SamplingError, match="no tool is like so many others by 0.9") as caught:
        sampler.sample(5)
    assert len(caught.value.tools) == 4


def test_several_groups_each_have_a_gold_tool():
    sampler = ConflictSampler(registry(GIVEN, vectors=GROUPS), k=7, groups=3)
    for drawn in sampler.series(20, seed=1):
        assert drawn.roles.count("gold") == 3
        assert len(set(qualified(drawn))) == 7
        sizes = sorted(drawn.details["group_of"].count(group) for group in range(3))
        assert sizes == [2, 2, 3]
    with pytest.raises(ValueError, match="3 groups need at least 6 tools, not 5"):
        sampler.sample(5)


def test_without_embeddings_similarity_is_by_words():
    given = [
        tool("get_order", description="Get an order", required=["order_id"]),
        tool("get_orders", description="Get the orders of a user", required=["user_id"]),
        tool("paint", description="Draw a picture", required=["colour"]),
    ]
    drawn = ConflictSampler(registry(given), k=2).sample(seed=1)
    assert set(qualified(drawn)) == {"n::get_order", "n::get_orders"}
    assert drawn.details["likeness"] == "words"


def test_the_namespace_option_is_respected():
    given = [tool(f"t{at}", "ab"[at % 2], required=[f"p{at}"]) for at in range(20)]
    sampler = ConflictSampler(registry(given, vectors=GROUPS + 0.5), k=6, namespace="b")
    assert {one.namespace for drawn in sampler.series(10, seed=1) for one in drawn} == {"b"}


def test_an_unknown_gold_tool_is_named_with_the_nearest():
    with pytest.raises(ValueError, match="no tool is called 'n::t99'; did you mean"):
        ConflictSampler(registry(GIVEN), k=2, tool="n::t99").sample()


def test_list_differences_compares_schemas_description_and_effects():
    one = Tool("a", "n", "x", {"type": "object"}, {"type": "object"})
    assert list_differences(one, one.replace(name="b")) == []
    changed = one.replace(description="y", parameters={"type": "object", "properties": {}}, output_parameters={})
    assert list_differences(one, changed.replace(effects="read")) == [
        "parameters",
        "output_parameters",
        "description",
        "effects",
    ]


STRANGERS = [
    tool("get_weather", "a", "Current weather of a city", ["city"]),
    tool("send_email", "b", "Send an email", ["to"]),
    tool("calc_sqrt", "c", "Square root of a number", ["x"]),
    tool("book_flight", "d", "Book a flight", ["flight"]),
    tool("play_song", "e", "Play music", ["song"]),
]


@pytest.mark.parametrize("vectors", [None, np.eye(5)])
def test_dissimilar_tools_are_an_error_with_a_remedy(vectors):
    made = registry(STRANGERS, vectors=vectors)
    for k in (2, 3):
        with pytest.raises(SamplingError, match="ask for fewer tools, lower min_score=") as caught:
            ConflictSampler(made, k=k).sample(seed=1)
        assert ("the enrichment embeddings" in str(caught.value)) == (vectors is None)
        assert len(caught.value.tools) < k
    assert len(ConflictSampler(made, k=3).sample(seed=1, min_score=0)) == 3


def test_by_default_confusable_tools_are_similar_or_have_the_same_name():
    given = [*STRANGERS, tool("get_forecast", "a", "Weather forecast of a city", ["city", "days"])]
    for seed in range(30):
        drawn = ConflictSampler(registry(given), k=2).sample(seed=seed)
        assert set(qualified(drawn)) == {"a::get_weather", "a::get_forecast"}
        assert drawn.score >= 0.1
    namesakes = [tool("search", "a", "Find people", ["q"]), tool("search", "b", "Discover songs", ["text"])]
    assert len(ConflictSampler(registry(namesakes, vectors=np.eye(2)), k=2).sample(seed=1)) == 2
