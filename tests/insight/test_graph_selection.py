"""Which tools and edges a graph shows."""

import pytest

from insight.graph_yards import many, small
from tests.insight.given_dataflow import dataflow_of
from toolyard.insight.graph import GraphOptions, select_graph
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool


def pairs(chosen):
    return list(zip(chosen.sources.tolist(), chosen.targets.tolist(), strict=True))


def star(leaves):
    """One tool that feeds many, each a bit less."""
    tools = [Tool(f"t{number}", "n") for number in range(leaves + 1)]
    return dataflow_of(tools, [(0, leaf, 0.9 - leaf / 100) for leaf in range(1, leaves + 1)])


def test_the_strongest_come_first_and_self_edges_are_not_drawn():
    tools = [Tool("a", "n"), Tool("b", "n"), Tool("c", "n")]
    flow = dataflow_of(tools, [(0, 0, 1.0), (0, 1, 0.6), (1, 2, 0.8), (2, 1, 0.8)])
    assert pairs(select_graph(flow, GraphOptions())) == [(1, 2), (2, 1), (0, 1)]


def test_an_edge_is_kept_if_it_is_among_the_best_of_either_end():
    flow = star(9)
    assert len(pairs(select_graph(flow, GraphOptions(top=1)))) == 9
    assert pairs(select_graph(flow, GraphOptions(top=0))) == []
    tools = flow.tools
    crowded = dataflow_of(tools, [(i, j, 0.9 - (i + j) / 100) for i in range(10) for j in range(10) if i != j])
    kept = pairs(select_graph(crowded, GraphOptions(top=1)))
    assert set(kept) == {(i, 0) for i in range(1, 10)} | {(0, i) for i in range(1, 10)}


def test_scores_and_numbers_limit_what_is_drawn():
    flow = small()
    assert [source for source, _ in pairs(select_graph(flow, GraphOptions(min_score=0.65)))] == [4, 0, 0]
    assert select_graph(flow, GraphOptions(min_score=0.65)).scores.min() >= 0.65
    assert pairs(select_graph(flow, GraphOptions(max_edges=1))) == [(4, 5)]


def test_one_namespace_can_be_drawn_and_an_unknown_one_is_an_error():
    chosen = select_graph(small(), GraphOptions(namespaces=("shop",)))
    assert chosen.places.tolist() == [4, 5]
    assert set(pairs(chosen)) == {(4, 5), (5, 4)}
    with pytest.raises(ConfigError, match="did you mean 'shop'"):
        select_graph(small(), GraphOptions(namespaces=("shopp",)))
    with pytest.raises(ConfigError, match="toolyard tools"):
        select_graph(small(), GraphOptions(namespaces=("zzz",)))


def test_tools_without_an_edge_can_be_left_out():
    assert 3 in select_graph(small(), GraphOptions()).places.tolist()
    assert 3 not in select_graph(small(), GraphOptions(linked=True)).places.tolist()


@pytest.mark.parametrize("options", [{"top": -1}, {"min_score": 1.5}, {"min_score": -0.1}, {"max_edges": -1}])
def test_invalid_graph_options_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        GraphOptions(**options)


def test_an_empty_selection_is_allowed():
    empty = select_graph(dataflow_of([], []), GraphOptions())
    assert (len(empty.places), len(empty.sources)) == (0, 0)


def test_a_tool_has_more_than_top_edges_only_for_the_other_end():
    flow = many(300, 9)
    chosen = select_graph(flow, GraphOptions(top=2))
    kept = set(pairs(chosen))
    for source, target in kept:
        best = [place for place, _ in flow.out_edges(source)[:2]]
        best_in = [place for place, _ in flow.in_edges(target)[:2]]
        assert target in best or source in best_in
