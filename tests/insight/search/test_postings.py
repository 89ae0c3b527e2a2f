"""Postings say of each tool its terms, and of each term its tools; other tools make no difference."""

import numpy as np
from hypothesis import given, strategies as st

from toolyard import Tool
from toolyard.insight.search.candidates import IN_NAME, Vocabulary, build_postings

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
