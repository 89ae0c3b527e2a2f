"""tc/dag: tools that hang together, without a circle."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from tests.insight.samplers.registries import names, registry, tool
from tests.insight.samplers.test_chain import chains, graphs
from toolyard import SamplingError
from toolyard.insight.samplers.dag import DagSampler

DIAMOND = [(0, 1, 0.9), (0, 2, 0.8), (1, 3, 0.7), (2, 3, 0.6)]


def largest_group(count, edges):
    group = list(range(count))
    for _ in range(count):
        for a, b, _ in edges:
            group[a] = group[b] = min(group[a], group[b])
    return max(Counter(group).values())


def test_a_diamond_is_drawn_level_by_level():
    found = [drawn for drawn in DagSampler(registry(4, DIAMOND)).series(30, 4, seed=1) if drawn.details["depth"] == 3]
    drawn = found[0]
    assert names(drawn)[0] == "t0"
    assert names(drawn)[-1] == "t3"
    assert drawn.roles == ("level 0", "level 1", "level 1", "level 2")
    assert {(edge.source[-2:], edge.target[-2:]) for edge in drawn.edges} == {
        ("t0", "t1"),
        ("t0", "t2"),
        ("t1", "t3"),
        ("t2", "t3"),
    }
    assert drawn.details == {"levels": [0, 1, 1, 2], "depth": 3, "width": 2}
    assert drawn.score == pytest.approx(0.6)


def check(drawn, edges):
    """The order is topological, the levels are right, and all hangs together."""
    place = {one.qualified_name: at for at, one in enumerate(drawn)}
    levels = drawn.details["levels"]
    known = {(f"n::t{a}", f"n::t{b}") for a, b, _ in edges}
    above = {at: [] for at in range(len(drawn))}
    linked = {0} if len(drawn) else set()
    for edge in drawn.edges:
        assert (edge.source, edge.target) in known
        assert place[edge.source] < place[edge.target]
        above[place[edge.target]].append(levels[place[edge.source]])
    for at, level in enumerate(levels):
        assert level == max(above[at], default=-1) + 1
    for _ in drawn:
        for edge in drawn.edges:
            ends = {place[edge.source], place[edge.target]}
            linked |= ends if ends & linked else set()
    assert linked == set(range(len(drawn)))
    assert drawn.details["depth"] == max(levels) + 1
    assert drawn.details["width"] == max(Counter(levels).values())


@given(graphs(8, 14), st.integers(0, 2**40), st.integers(1, 6))
def test_a_dag_is_found_whenever_enough_tools_are_connected(graph, seed, k):
    count, edges = graph
    sampler = DagSampler(registry(count, edges), k=k)
    if largest_group(count, edges) >= k:
        drawn = sampler.sample(seed=seed)
        assert len(drawn) == k
        check(drawn, edges)
    else:
        with pytest.raises(SamplingError) as caught:
            sampler.sample(seed=seed)
        assert len(caught.value.tools) < k


@given(graphs(7, 12), st.integers(0, 2**40), st.integers(2, 4))
def test_a_dag_with_depth_k_is_a_chain(graph, seed, k):
    count, edges = graph
    sampler = DagSampler(registry(count, edges), k=k, depth=k)
    exists = chains(count, edges, k)
    if exists:
        assert [int(name[1:]) for name in names(sampler.sample(seed=seed))] in exists
    else:
        with pytest.raises(SamplingError):
            sampler.sample(seed=seed)


@given(graphs(8, 24), st.integers(0, 2**40), st.integers(2, 4), st.integers(1, 3), st.integers(1, 3))
def test_depth_width_and_branching_are_kept(graph, seed, depth, width, branching):
    count, edges = graph
    k = min(depth * width, 5)
    try:
        drawn = DagSampler(registry(count, edges), k=k).sample(
            seed=seed, depth=min(depth, k), width=width, branching=branching
        )
    except SamplingError as error:
        assert len(error.tools) <= k
        return
    check(drawn, edges)
    assert drawn.details["depth"] == min(depth, k)
    assert drawn.details["width"] <= width
    assert max(Counter(edge.source for edge in drawn.edges).values()) <= branching


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"depth": 5}, "4 tools cannot have 5 levels"),
        ({"depth": 2, "width": 1}, "2 levels of 1 tools hold no more than 2, not 4"),
        ({"depth": 1}, "at least 2 levels"),
        ({"width": 0}, "width: must be 1 or more"),
    ],
)
def test_impossible_dimensions_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        DagSampler(registry(4, DIAMOND), k=4).sample(**options)


def test_a_cycle_of_two_tools_gives_one_edge():
    drawn = DagSampler(registry(2, [(0, 1, 0.5), (1, 0, 0.5)]), k=2).sample(seed=1)
    assert len(drawn.edges) == 1
    assert drawn.edges[0].source == drawn[0].qualified_name


def test_each_name_is_drawn_once_and_namespaces_are_respected():
    given = [tool("a"), tool("a", required=["x"]), tool("b"), tool("c"), tool("d", "other")]
    edges = [(2, 0, 0.9), (2, 1, 0.9), (2, 3, 0.9), (2, 4, 0.9)]
    sampler = DagSampler(registry(given, edges), k=3, namespace="n")
    assert all(sorted(names(drawn)) == ["a", "b", "c"] for drawn in sampler.series(30, seed=1))


def test_an_endless_search_ends():
    edges = [(0, at, 0.5) for at in range(1, 40)]
    with pytest.raises(SamplingError, match="max_tries=500"):
        DagSampler(registry(40, edges), k=12, branching=3).sample(seed=1, max_tries=500)
