"""tc/fan_out and tc/fan_in: one feeds many, many feed one."""

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from tests.insight.samplers.registries import names, registry, tool
from tests.insight.samplers.test_chain import graphs
from toolyard import SamplingError
from toolyard.insight.samplers.chain import FanInSampler, FanOutSampler

STAR = [(0, at, 0.5) for at in range(1, 6)]


def turned(edges):
    return [(b, a, score) for a, b, score in edges]


def test_the_seed_comes_first_and_feeds_all_others():
    drawn = FanOutSampler(registry(6, STAR)).sample(4, seed=1)
    assert names(drawn)[0] == "t0"
    assert drawn.roles == ("seed", "successor", "successor", "successor")
    assert [edge.source for edge in drawn.edges] == ["n::t0"] * 3
    assert [edge.target for edge in drawn.edges] == [one.qualified_name for one in drawn[1:]]
    assert drawn.score == pytest.approx(0.5)


def test_the_sink_comes_last_and_is_fed_by_all_others():
    drawn = FanInSampler(registry(6, turned(STAR))).sample(4, seed=1)
    assert names(drawn)[-1] == "t0"
    assert drawn.roles == ("predecessor", "predecessor", "predecessor", "sink")
    assert [edge.target for edge in drawn.edges] == ["n::t0"] * 3
    assert [edge.source for edge in drawn.edges] == [one.qualified_name for one in drawn[:-1]]


def fans(count, edges, k):
    """Every hub with spokes, and those whose spokes do not feed each other."""
    arrows = {(a, b) for a, b, _ in edges}
    for hub in range(count):
        spokes = [b for a, b in sorted(arrows) if a == hub]
        for chosen in combinations(spokes, k - 1):
            yield hub, set(chosen), not any((a, b) in arrows for a in chosen for b in chosen)


@given(graphs(7, 24), st.integers(0, 2**40), st.integers(2, 4), st.booleans())
def test_a_fan_that_exists_is_found_and_an_independent_one_is_preferred(graph, seed, k, forward):
    count, edges = graph
    all_fans = list(fans(count, edges, k))
    made = registry(count, edges if forward else turned(edges))
    sampler = (FanOutSampler if forward else FanInSampler)(made, k=k)
    if not all_fans:
        with pytest.raises(SamplingError) as caught:
            sampler.sample(seed=seed)
        assert len(caught.value.tools) < k
        return
    places = [int(name[1:]) for name in names(sampler.sample(seed=seed))]
    hub, spokes = (places[0], set(places[1:])) if forward else (places[-1], set(places[:-1]))
    assert any(fan[:2] == (hub, spokes) for fan in all_fans)
    free = [fan for fan in all_fans if fan[2]]
    assert sampler.sample(seed=seed).details["independent"] == bool(free)
    assert (hub, spokes, True) in free or not free


def test_independence_can_be_required_or_ignored():
    clique = [*STAR[:3], *((a, b, 0.5) for a in range(1, 4) for b in range(1, 4) if a != b)]
    sampler = FanOutSampler(registry(4, clique), k=4)
    assert sampler.sample(seed=1, independence="ignore").details == {"independent": False}
    assert sampler.sample(seed=1).details == {"independent": False}
    with pytest.raises(SamplingError, match="that do not feed each other") as caught:
        sampler.sample(seed=1, independence="require")
    assert len(caught.value.tools) == 2


def test_the_error_has_the_largest_partial_result():
    for sampler in (FanOutSampler(registry(6, STAR[:2])), FanInSampler(registry(6, turned(STAR[:2])))):
        with pytest.raises(SamplingError) as caught:
            sampler.sample(5)
        assert sorted(names(caught.value.tools)) == ["t0", "t1", "t2"]
        short = sampler.sample(5, allow_short=True)
        assert sorted(names(short)) == ["t0", "t1", "t2"]
        assert len(short.roles) == 3


def test_weak_edges_and_other_namespaces_are_ignored():
    given = [tool(f"t{at}", "a" if at < 4 else "b") for at in range(6)]
    edges = [(0, 1, 0.9), (0, 2, 0.9), (0, 3, 0.2), (0, 4, 0.9), (0, 5, 0.9)]
    sampler = FanOutSampler(registry(given, edges), k=3, namespace="a", min_score=0.5)
    assert all(sorted(names(drawn)) == ["t0", "t1", "t2"] for drawn in sampler.series(20, seed=1))


def test_overloads_are_one_spoke():
    given = [tool("hub"), tool("a"), tool("a", required=["x"]), tool("b")]
    edges = [(0, 1, 0.9), (0, 2, 0.9), (0, 3, 0.1)]
    sampler = FanOutSampler(registry(given, edges), k=3)
    assert all(sorted(names(drawn)) == ["a", "b", "hub"] for drawn in sampler.series(30, seed=1))


def test_a_fan_has_at_least_two_tools():
    with pytest.raises(ValueError, match="k: must be 2 or more"):
        FanOutSampler(registry(6, STAR), k=1)


def test_an_endless_search_ends():
    # 30 spokes in 15 pairs that feed each other: at most 15 are independent.
    spokes = range(1, 31)
    edges = [(0, at, 0.5) for at in spokes] + [(a, a + 1, 0.5) for a in range(1, 31, 2)]
    drawn = FanOutSampler(registry(31, edges), k=18).sample(seed=1, max_tries=2000)
    assert len(drawn) == 18
    assert drawn.details == {"independent": False}
