"""Groups within large namespaces."""

import numpy as np
from hypothesis import given, strategies as st

from toolyard.insight.graph.groups import groups_of


def arrays(pairs):
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1], np.ones(len(table))


def test_a_small_namespace_is_one_group():
    assert groups_of(4, *arrays([(0, 1)])) == [[0, 1, 2, 3]]


def test_what_is_tied_together_is_a_group_and_the_rest_is_the_last_one():
    rings = [(start + at, start + (at + 1) % 10) for start in (0, 10, 20, 30, 40) for at in range(10)]
    chords = [(start + at, start + (at + 3) % 10) for start in (0, 10, 20, 30, 40) for at in range(10)]
    groups = groups_of(60, *arrays(rings + chords))
    assert groups == [list(range(start, start + 10)) for start in (0, 10, 20, 30, 40, 50)]


@given(st.integers(49, 90), st.data())
def test_every_tool_is_in_one_group(count, data):
    number = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(number, number).filter(lambda pair: pair[0] != pair[1]), max_size=120))
    groups = groups_of(count, *arrays(pairs))
    assert sorted(tool for group in groups for tool in group) == list(range(count))
    assert all(group == sorted(group) for group in groups)
