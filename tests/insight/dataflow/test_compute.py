"""What new tools add to edges that are there is what comes of all tools at once."""

import numpy as np
from hypothesis import given, strategies as st

from tests.insight.dataflow.test_edges import TOOLS
from tests.insight.dataflow.yard import TEXT, many, record, tool
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.dataflow.edges import EdgeSet, compute_edges, grow_edges, limits_of, merge_edges, move_edges
from toolyard.insight.dataflow.match import token_vectors
from toolyard.insight.dataflow.profile import told_of
from toolyard.insight.sample import Edge, Feed


def at_once(tools, limits):
    return compute_edges(tools, map(told_of, tools), token_vectors, limits, tokens=True)


def step_by_step(tools, is_new, limits, vectors=token_vectors):
    places = np.array([place for place, new in enumerate(is_new) if not new], np.int32)
    last = at_once([tools[place] for place in places], limits)
    return grow_edges(last, places, tools, map(told_of, tools), vectors, limits, tokens=True)


EXACT = ("offsets", "targets", "scores", "logits", "marks", "covers", "in_offsets", "in_edges", "feed_offsets")


def differences(tools, one, other):
    """What is not the same in two sets of edges; numbers of paths may be."""
    found = [
        name
        for name in EXACT
        for first, second in [(getattr(one, name), getattr(other, name))]
        if first.dtype != second.dtype or not np.array_equal(first, second)
    ]
    if not np.allclose(one.feed_signals, other.feed_signals, atol=1e-5):
        found.append("feed_signals")
    first, second = (
        [[(feed.output, feed.parameter, feed.how, feed.score) for feed in edge.feeds] for edge in flow.edges()]
        for flow in (Dataflow(tools, one), Dataflow(tools, other))
    )
    return found if first == second else [*found, "feeds"]


@given(
    st.lists(st.tuples(TOOLS, st.booleans()), min_size=1, max_size=9), st.integers(1, 3), st.sampled_from([0.3, 0.6])
)
def test_new_tools_anywhere_among_the_others_add_what_all_at_once_have(some, neighbors, min_score):
    tools, is_new = zip(*some, strict=True)
    limits = limits_of(min_score, neighbors)
    assert not differences(tools, step_by_step(tools, is_new, limits), at_once(tools, limits))


def test_a_better_edge_takes_the_place_of_one_that_was_there():
    users = {"users": many(record(user_id=TEXT))}
    weak, strong = tool("find_people", gives={"people": many(record(user_id=TEXT))}), tool("list_users", gives=users)
    target = tool("get_user", {"user_id": TEXT}, description="Get a user by its id.")
    other = tool("drop_user", {"user_id": TEXT})
    tools = [weak, target, other, strong]
    found = Dataflow(tools, step_by_step(tools, (False, False, False, True), limits_of(0.3, 1)))
    expected = Dataflow(tools, at_once(tools, limits_of(0.3, 1)))
    assert found.in_edges(1) == expected.in_edges(1)
    assert 3 in [source for source, _ in found.in_edges(1)]


def test_texts_of_tools_that_were_compared_before_are_not_asked_for_again():
    tools = [
        tool(f"get_thing_{number}", {f"thing{number}_id": TEXT}, {f"thing{number}_id": TEXT}) for number in range(20)
    ]
    tools.append(tool("get_user", {"user_id": TEXT}, {"user_id": TEXT}))
    asked = []

    def vectors(texts):
        asked.append(list(texts))
        return token_vectors(texts)

    step_by_step(tools, [False] * 20 + [True], limits_of(0.3, 5), vectors)
    whole_tools, *values = asked
    assert len(whole_tools) == 21
    assert not [text for some in values for text in some if text.startswith("thing")]


FOUR_TOOLS = [tool(name) for name in ("first", "second", "third", "fourth")]
SPACES = np.zeros(4, np.int32)


def flow(tools, *edges):
    return Dataflow.from_edges(
        tools,
        [Edge(f"n::{a}", f"n::{b}", score, (Feed(out, to, score, "direct", {}),)) for a, b, score, out, to in edges],
    )


def listed(found):
    return [(edge.source, edge.target, edge.feeds[0].output, edge.feeds[0].parameter) for edge in found.edges()]


def test_tools_that_moved_take_their_edges_along():
    before = flow(FOUR_TOOLS[:2], ("first", "second", 0.9, "id", "first_id"))
    now = [FOUR_TOOLS[2], FOUR_TOOLS[0], FOUR_TOOLS[1]]
    added = flow(now, ("third", "second", 0.8, "key", "third_id"))
    arrays = merge_edges(
        [move_edges(before.arrays, np.array([1, 2], np.int32)), EdgeSet.of(added.arrays)], SPACES[:3], 5
    )
    assert listed(Dataflow(now, arrays)) == [
        ("n::third", "n::second", "key", "third_id"),
        ("n::first", "n::second", "id", "first_id"),
    ]


def test_of_each_source_and_target_the_best_of_all_parts_are_kept():
    one = flow(FOUR_TOOLS, ("first", "second", 0.6, "a", "x"), ("third", "fourth", 0.7, "c", "z"))
    other = flow(FOUR_TOOLS, ("first", "fourth", 0.9, "b", "y"), ("third", "second", 0.8, "d", "w"))
    arrays = merge_edges([EdgeSet.of(one.arrays), EdgeSet.of(other.arrays)], SPACES, 1)
    assert listed(Dataflow(FOUR_TOOLS, arrays)) == [
        ("n::first", "n::fourth", "b", "y"),
        ("n::third", "n::second", "d", "w"),
    ]


def test_no_path_of_an_edge_that_is_gone_is_carried_on_and_equal_ones_are_one():
    one = flow(FOUR_TOOLS, ("first", "second", 0.6, "gone", "gone_too"), ("third", "fourth", 0.9, "id", "user_id"))
    other = flow(FOUR_TOOLS, ("first", "fourth", 0.7, "id", "user_id"), ("third", "second", 0.8, "id", "user_id"))
    arrays = merge_edges([EdgeSet.of(one.arrays), EdgeSet.of(other.arrays)], SPACES, 1)
    assert bytes(arrays.path_bytes) == b"iduser_id"


def test_nothing_and_nothing_is_nothing():
    none = flow(FOUR_TOOLS)
    arrays = merge_edges([EdgeSet.of(none.arrays), EdgeSet.of(none.arrays)], SPACES, 5)
    assert list(Dataflow(FOUR_TOOLS, arrays).edges()) == []
