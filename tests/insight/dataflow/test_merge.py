"""Edges that were found apart become one set, in which nothing is left of those that were outdone."""

import numpy as np

from tests.insight.dataflow.yard import tool
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.dataflow.merge import Part, merged, moved
from toolyard.insight.sample import Edge, Feed

TOOLS = [tool(name) for name in ("first", "second", "third", "fourth")]
SPACES = np.zeros(4, np.int32)


def flow(tools, *edges):
    return Dataflow.from_edges(
        tools,
        [Edge(f"n::{a}", f"n::{b}", score, (Feed(out, to, score, "direct", {}),)) for a, b, score, out, to in edges],
    )


def listed(found):
    return [(edge.source, edge.target, edge.feeds[0].output, edge.feeds[0].parameter) for edge in found.edges()]


def test_tools_that_moved_take_their_edges_along():
    before = flow(TOOLS[:2], ("first", "second", 0.9, "id", "first_id"))
    now = [TOOLS[2], TOOLS[0], TOOLS[1]]
    added = flow(now, ("third", "second", 0.8, "key", "third_id"))
    arrays = merged([moved(before.arrays, np.array([1, 2], np.int32)), Part.of(added.arrays)], SPACES[:3], 5)
    assert listed(Dataflow(now, arrays)) == [
        ("n::third", "n::second", "key", "third_id"),
        ("n::first", "n::second", "id", "first_id"),
    ]


def test_of_each_source_and_target_the_best_of_all_parts_are_kept():
    one = flow(TOOLS, ("first", "second", 0.6, "a", "x"), ("third", "fourth", 0.7, "c", "z"))
    other = flow(TOOLS, ("first", "fourth", 0.9, "b", "y"), ("third", "second", 0.8, "d", "w"))
    arrays = merged([Part.of(one.arrays), Part.of(other.arrays)], SPACES, 1)
    assert listed(Dataflow(TOOLS, arrays)) == [("n::first", "n::fourth", "b", "y"), ("n::third", "n::second", "d", "w")]


def test_no_path_of_an_edge_that_is_gone_is_carried_on_and_equal_ones_are_one():
    one = flow(TOOLS, ("first", "second", 0.6, "gone", "gone_too"), ("third", "fourth", 0.9, "id", "user_id"))
    other = flow(TOOLS, ("first", "fourth", 0.7, "id", "user_id"), ("third", "second", 0.8, "id", "user_id"))
    arrays = merged([Part.of(one.arrays), Part.of(other.arrays)], SPACES, 1)
    assert bytes(arrays.path_bytes) == b"iduser_id"


def test_nothing_and_nothing_is_nothing():
    none = flow(TOOLS)
    arrays = merged([Part.of(none.arrays), Part.of(none.arrays)], SPACES, 5)
    assert list(Dataflow(TOOLS, arrays).edges()) == []
