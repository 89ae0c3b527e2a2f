"""tc/chain: each tool feeds the next; tc/fan_out and tc/fan_in: one tool and those it feeds, or is fed by."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, strategies as st

from tests.insight.samplers.registries import names, registry, tool
from toolyard import SamplingError
from toolyard.insight.samplers.chain import ChainSampler, FanInSampler, FanOutSampler


def chains(count, edges, k, ids=None):
    """Every chain there is, by trying them all."""
    ids = ids or list(range(count))
    after = {place: sorted({b for a, b, _ in edges if a == place}) for place in range(count)}
    found = [[place] for place in range(count)]
    for _ in range(k - 1):
        found = [[*path, b] for path in found for b in after[path[-1]] if ids[b] not in [ids[one] for one in path]]
    return found


def graphs(largest=8, most=16):
    return st.integers(2, largest).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=most, unique=True).map(
                lambda pairs: [(a, b, 0.5 + a / 100) for a, b in pairs if a != b]
            ),
        )
    )


def test_each_tool_feeds_the_next_and_the_edges_say_so():
    edges = [(0, 1, 0.9), (1, 2, 0.5), (2, 3, 0.7)]
    drawn = ChainSampler(registry(4, edges)).sample(4)
    assert names(drawn) == ["t0", "t1", "t2", "t3"]
    assert [(edge.source, edge.target) for edge in drawn.edges] == [
        ("n::t0", "n::t1"),
        ("n::t1", "n::t2"),
        ("n::t2", "n::t3"),
    ]
    assert drawn.score == pytest.approx(0.5)
    assert drawn.topology == "chain"
    assert drawn.roles == ("chain",) * 4


@given(graphs(), st.integers(0, 2**40), st.integers(1, 5))
def test_a_chain_is_found_exactly_if_one_exists(graph, seed, k):
    count, edges = graph
    exists = chains(count, edges, k)
    sampler = ChainSampler(registry(count, edges), k=k)
    if exists:
        drawn = sampler.sample(seed=seed)
        assert [int(name[1:]) for name in names(drawn)] in exists
    else:
        with pytest.raises(SamplingError, match=f"there is no chain of {k} tools") as caught:
            sampler.sample(seed=seed)
        assert caught.value.requested == k
        assert len(caught.value.tools) < k


def test_a_chain_is_found_among_thousands_of_cycles():
    pairs = [(a + b, a + 1 - b, 0.9) for a in range(0, 3000, 2) for b in (0, 1)]
    edges = [*pairs, (3000, 3001, 0.1), (3001, 3002, 0.1), (3002, 3003, 0.1)]
    sampler = ChainSampler(registry(3004, edges), k=4)
    found = [names(drawn) for drawn in sampler.series(20, seed=1)]
    assert found == [["t3000", "t3001", "t3002", "t3003"]] * 20


def test_an_endless_search_ends_with_a_partial_result():
    # Every tool of two large groups feeds every other of its own, and no chain is longer than a group.
    edges = [(a, b, 0.5) for a in range(48) for b in range(48) if a != b and (a < 24) == (b < 24)]
    with pytest.raises(SamplingError, match=r"no chain was met in max_tries=5000 steps") as caught:
        ChainSampler(registry(48, edges), k=25).sample(seed=1, max_tries=5000)
    assert len(caught.value.tools) == 24


def test_the_longest_part_is_in_the_error_or_a_short_sample():
    edges = [(0, 1, 0.5), (1, 2, 0.5), (5, 6, 0.5)]
    sampler = ChainSampler(registry(8, edges), k=5)
    with pytest.raises(SamplingError) as caught:
        sampler.sample(seed=3)
    assert 1 <= len(caught.value.tools) < 5
    assert 1 <= len(sampler.sample(seed=3, allow_short=True)) < 5


def test_edges_below_min_score_are_ignored():
    edges = [(0, 1, 0.9), (1, 2, 0.3), (3, 4, 0.8), (4, 5, 0.8)]
    sampler = ChainSampler(registry(6, edges), k=3, min_score=0.7)
    assert all(names(drawn) == ["t3", "t4", "t5"] for drawn in sampler.series(20, seed=1))
    with pytest.raises(SamplingError, match="with edges of 0.95 or more"):
        sampler.sample(min_score=0.95)
    assert len(sampler.sample(min_score=0.0)) == 3


def test_strong_edges_are_likelier():
    sampler = ChainSampler(registry(3, [(0, 1, 0.9), (0, 2, 0.1)]), k=2)
    ends = [names(drawn)[1] for drawn in sampler.series(500, seed=1)]
    assert 400 < ends.count("t1") < 490


def test_a_chain_has_each_name_once_even_with_overloads():
    given = [tool("a"), tool("b"), tool("a", required=["x"]), tool("c")]
    edges = [(0, 1, 0.9), (1, 2, 0.9), (1, 3, 0.1), (0, 2, 0.9)]
    sampler = ChainSampler(registry(given, edges), k=3)
    assert all(names(drawn) == ["a", "b", "c"] for drawn in sampler.series(30, seed=1))


def test_the_namespace_option_restricts_the_whole_chain():
    given = [tool(f"t{at}", "ab"[at % 2]) for at in range(6)]
    edges = [(a, b, 0.5) for a, b in pairwise(range(6))] + [(0, 2, 0.2), (2, 4, 0.2)]
    sampler = ChainSampler(registry(given, edges), k=3, namespace="a")
    assert all(names(drawn) == ["t0", "t2", "t4"] for drawn in sampler.series(20, seed=1))


def test_a_chain_of_one_is_any_tool():
    assert len(ChainSampler(registry(3, []), k=1).sample()) == 1


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
