"""tc/chain: each tool feeds the next."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tests.insight.samplers.registries import names, registry, tool
from toolyard import SamplingError
from toolyard.insight.samplers.chain import ChainSampler


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
