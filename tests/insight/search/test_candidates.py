"""Postings and candidates: other tools make no difference, and the highest scores are found without sorting them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from toolyard import Tool
from toolyard.insight.search.candidates import IN_NAME, Vocabulary, build_postings
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


WORDS = ("rain", "snow", "wind", "find", "list")
tools = st.lists(
    st.builds(lambda a, b: Tool(f"{a}_{b}", "x", f"{b} of {a}"), st.sampled_from(WORDS), st.sampled_from(WORDS)),
    min_size=1,
    max_size=12,
)


def posted(given):
    vocabulary = Vocabulary()
    return vocabulary, build_postings([vocabulary.row(tool) for tool in given])


def words_of(vocabulary, postings, row):
    """The weights of a row by term."""
    names = {number: term for term, number in vocabulary.numbers.items()}
    found = postings.of_rows(np.array([row]))
    return {names[term]: weight for term, weight in zip(found.terms.tolist(), found.weights.tolist(), strict=True)}


@given(tools)
def test_a_tools_weights_do_not_depend_on_other_tools(given):
    vocabulary, postings = posted(given)
    assert postings.rows == len(given)
    for row, tool in enumerate(given):
        assert words_of(vocabulary, postings, row) == words_of(*posted([tool]), 0)


@given(tools)
def test_postings_by_row_and_by_term_are_equal(given):
    vocabulary, postings = posted(given)
    forwards = {
        (term, row, weight) for row in range(len(given)) for term, weight in words_of(vocabulary, postings, row).items()
    }
    backwards = set()
    for term, number in vocabulary.numbers.items():
        rows, weights = postings.of_term(number)
        assert postings.count(number) == len(rows)
        backwards |= {(term, row, weight) for row, weight in zip(rows.tolist(), weights.tolist(), strict=True)}
    assert forwards == backwards


def test_words_of_the_name_are_marked():
    vocabulary, postings = posted([Tool("find_rain", "x", "snow")])
    found = postings.of_rows(np.array([0]))
    zones = dict(zip(found.terms.tolist(), found.zones.tolist(), strict=True))
    named = {term for term, number in vocabulary.numbers.items() if zones[number] == IN_NAME}
    assert named == {"find", "rain"}
    assert all(0 < weight < 1 for weight in found.weights)
    assert postings.count(99) == 0
