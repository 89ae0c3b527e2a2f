"""The order of tools within a namespace."""

import numpy as np
from hypothesis import given, strategies as st

from toolyard.insight.graph.columns import columns_of, levels


def arrays(pairs):
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1], np.ones(len(table))


def test_a_level_is_one_more_than_what_feeds_it():
    level = levels(4, *arrays([(0, 1), (1, 2), (2, 3)]))
    assert np.allclose(np.diff(level), 1, atol=0.05)


def test_what_feeds_stands_left_of_what_is_fed():
    columns = columns_of(6, *arrays([(0, 3), (1, 4), (2, 5)]))
    assert [sorted(column) for column in columns] == [[0, 1, 2], [3, 4, 5]]


def test_lines_do_not_cross_where_they_need_not():
    columns = columns_of(6, *arrays([(0, 5), (1, 4), (2, 3)]))
    partner = {0: 5, 1: 4, 2: 3}
    assert [partner[tool] for tool in columns[0]] == columns[1]


@given(st.integers(1, 60), st.data())
def test_every_tool_stands_in_one_place_whatever_the_edges(count, data):
    pairs = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=80))
    pairs = [(one, other) for one, other in pairs if one != other]
    columns = columns_of(count, *arrays(pairs))
    assert sorted(tool for column in columns for tool in column) == list(range(count))
    assert all(columns)
    assert columns == columns_of(count, *arrays(pairs))
