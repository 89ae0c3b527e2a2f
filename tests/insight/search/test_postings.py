"""Postings that grow are those that were made at once."""

import numpy as np
from hypothesis import given, strategies as st

from toolyard import Tool
from toolyard.insight.search.postings import IN_NAME, Postings, Vocabulary

WORDS = ("rain", "snow", "wind", "find", "list")
tools = st.lists(
    st.builds(lambda a, b: Tool(f"{a}_{b}", "x", f"{b} of {a}"), st.sampled_from(WORDS), st.sampled_from(WORDS)),
    min_size=1,
    max_size=12,
)


def grown(parts):
    vocabulary, postings = Vocabulary(), Postings()
    for part in parts:
        postings = postings.added([vocabulary.row(tool) for tool in part])
    return vocabulary, postings


def by_term(vocabulary, postings):
    found = {}
    for term, number in vocabulary.numbers.items():
        pairs = [block.of_term(number) for block in postings.blocks]
        rows = np.concatenate([rows for rows, _ in pairs])
        weights = np.concatenate([weights for _, weights in pairs])
        found[term] = sorted(zip(rows.tolist(), weights.round(5).tolist(), strict=True))
    return found


@given(st.lists(tools, min_size=1, max_size=6))
def test_adding_bit_by_bit_gives_the_same_as_at_once(parts):
    whole = [tool for part in parts for tool in part]
    slow, quick = grown(parts), grown([whole])
    assert by_term(*slow) == by_term(*quick)
    assert slow[1].rows == len(whole)
    assert [slow[1].count(number) for number in range(5)] == [quick[1].count(number) for number in range(5)]
    rows = np.arange(len(whole))[::2]
    for left, right in zip(slow[1].of_rows(rows), quick[1].of_rows(rows), strict=True):
        assert left.tolist() == right.tolist()


def test_many_small_additions_are_few_blocks():
    _, postings = grown([[Tool(f"t{number}", "x")] for number in range(100)])
    assert len(postings.blocks) <= 8


def test_words_of_the_name_are_marked():
    vocabulary, postings = grown([[Tool("find_rain", "x", "snow")]])
    _, terms, weights, zones = postings.of_rows(np.array([0]))
    named = {term for term, number in vocabulary.numbers.items() if zones[list(terms).index(number)] == IN_NAME}
    assert named == {"find", "rain"}
    assert all(0 < weight < 1 for weight in weights)
    assert postings.count(99) == 0
