"""The highest of many scores are found without sorting them, and are the same ones."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from toolyard.insight.search.rank import _NO_LIKENESS, _find_highest


@given(st.integers(0, 9000), st.integers(1, 30), st.integers(0, 2**32 - 1), st.sampled_from([None, 0.0, 0.9]))
def test_the_highest_are_those_that_sorting_finds(count, k, seed, above):
    scores = np.random.default_rng(seed).random(count)
    above = _NO_LIKENESS if above is None else above
    expected = scores[scores > above]
    found = scores[_find_highest(scores, k, above)]
    assert sorted(found) == sorted(expected)[-k:]


@pytest.mark.parametrize("count", [100, 9000])
def test_of_equal_ones_there_are_as_many_as_were_asked_for(count):
    scores = np.repeat([0.0, 0.5, 0.75], count)
    assert scores[_find_highest(scores, 10)].tolist() == [0.75] * 10
    assert len(set(_find_highest(np.ones(count), 10).tolist())) == 10


@pytest.mark.parametrize("count", [100, 9000])
@pytest.mark.parametrize("broken", [1, 60])
def test_nan_similarities_are_never_the_nearest(count, broken):
    scores = np.random.default_rng(3).random(count)
    scores[:: count // broken] = np.nan
    assert sorted(scores[_find_highest(scores, 10, _NO_LIKENESS)]) == sorted(scores[~np.isnan(scores)])[-10:]


def test_rows_with_score_zero_are_never_candidates():
    scores = np.zeros(9000)
    scores[[5, 700]] = 0.1
    assert _find_highest(scores, 10).tolist() == [5, 700]
