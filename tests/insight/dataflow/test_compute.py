"""What new tools add to edges that are there is what comes of all tools at once."""

import numpy as np
from hypothesis import given, settings, strategies as st

from tests.insight.dataflow.test_edges import TOOLS
from tests.insight.dataflow.yard import TEXT, many, record, tool
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.dataflow.compute import compute, grow, limits_of
from toolyard.insight.dataflow.profile import told_of
from toolyard.insight.dataflow.tokens import token_vectors


def at_once(tools, limits):
    return compute(tools, map(told_of, tools), token_vectors, limits, tokens=True)


def step_by_step(tools, is_new, limits, vectors=token_vectors):
    places = np.array([place for place, new in enumerate(is_new) if not new], np.int32)
    last = at_once([tools[place] for place in places], limits)
    return grow(last, places, tools, map(told_of, tools), vectors, limits, tokens=True)


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


@settings(max_examples=150, deadline=None)
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
