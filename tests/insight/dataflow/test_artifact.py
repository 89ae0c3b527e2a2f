"""Edges by place, by name, and in the shape of a mapping."""

import pytest
from hypothesis import given, strategies as st

from tests.insight.dataflow.builders import TEXT, WHOLE, flow, many, record, tool
from tests.insight.given_dataflow import dataflow_of
from toolyard.insight.base import Edge, Feed

TOOLS = [tool(name, {name: TEXT}, namespace=namespace) for name, namespace in ("ax", "bx", "cy", "dy")]


def test_edges_come_best_first_and_ties_by_place():
    found = dataflow_of(TOOLS, [(0, 3, 0.5), (0, 1, 0.5), (0, 2, 0.9), (1, 2, 0.9)])
    assert [place for place, _ in found.out_edges(0)] == [2, 1, 3]
    assert [place for place, _ in found.in_edges(2)] == [0, 1]
    assert found.out_edges(0)[0][1] == pytest.approx(0.9)
    assert (found.out_edges(3), found.in_edges(0), found.edge_count) == ([], [], 4)


def test_edge_returns_the_feeds_or_none():
    feed = Feed("users[].id", "user_id", 0.8, "each", {"name": 0.5, "type": 1.0, "text": 0.25})
    edge = Edge("x::a", "x::b", 0.75, (feed,), True)
    found = dataflow_of(TOOLS, [edge])
    again = found.edge(0, 1)
    assert (again.feeds[0].output, again.feeds[0].how) == ("users[].id", "each")
    assert again.feeds[0].signals == {"name": 0.5, "type": 1.0, "text": 0.25}
    assert (again.covers_required, again.source_overload) == (True, TOOLS[0].fingerprint)
    assert found.edge(1, 0) is None
    assert [one.target for one in found.edges()] == ["x::b"]


def test_overloads_are_told_apart():
    twins = [TOOLS[0], tool("a", {"other": WHOLE}, namespace="x"), TOOLS[1]]
    edge = Edge("x::a", "x::b", 0.5, source_overload=twins[1].fingerprint)
    found = dataflow_of(twins, [edge])
    assert found.out_edges(1) == [(2, 0.5)]
    assert found.out_edges(0) == []
    assert (found.place(twins[1]), found.place(TOOLS[3])) == (1, None)


def test_mapping_has_the_keys_out_and_in():
    feed = Feed("users[].id", "user_id", 0.80006)
    found = dataflow_of(TOOLS, [Edge("x::a", "y::c", 0.75, (feed,)), Edge("x::a", "x::b", 0.25)])
    assert list(found) == ["out", "in"]
    assert dict(found).keys() == {"out", "in"}
    out = found["out"]["x::a"][TOOLS[0].fingerprint]
    assert out == {
        "y": [("c", TOOLS[2].fingerprint, 0.75, [("users[].id", "user_id", 0.8001)])],
        "x": [("b", TOOLS[1].fingerprint, 0.25, [])],
    }
    into = found["in"]["y::c"][TOOLS[2].fingerprint]
    assert into == {"x": [("a", TOOLS[0].fingerprint, 0.75, [("user_id", "users[].id", 0.8001)])]}
    with pytest.raises(KeyError):
        found["dataflow_out"]


def test_mapping_shows_the_best_per_namespace_and_methods_return_all():
    source = tool("find_user", {"user_id": WHOLE}, {"email": TEXT}, namespace="x")
    takers = [tool(f"drop_{number}", {"email": TEXT}, namespace="y") for number in range(5)]
    found = flow(source, *takers, max_neighbors=2)
    assert len(found["out"]["x::find_user"][source.fingerprint]["y"]) == 2
    assert len(found.out_edges(0)) == 5
    assert all(found.in_edges(place) for place in range(1, 6))


def test_dataflow_without_tools_is_empty():
    found = dataflow_of([], [])
    assert (found.edge_count, found["out"], found["in"], list(found.edges())) == (0, {}, {}, [])
    assert flow(tool("a", {"b": TEXT})).edge_count == 0


@given(
    st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.sampled_from([0.25, 0.5, 0.75]), max_size=12)
)
def test_out_edges_and_in_edges_are_the_same_edges(edges):
    found = dataflow_of(TOOLS, [(*pair, score) for pair, score in edges.items()])
    forth = {(place, other): score for place in range(4) for other, score in found.out_edges(place)}
    back = {(other, place): score for place in range(4) for other, score in found.in_edges(place)}
    assert forth == back == edges
    assert all(found.edge(*pair).score == score for pair, score in edges.items())


def test_paths_in_any_script_survive():
    found = flow(tool("find", gives={"größe": many(record(straße_id=TEXT))}), tool("go", {"straße_id": TEXT}))
    assert found.edge(0, 1).feeds[0].output == "größe[].straße_id"
