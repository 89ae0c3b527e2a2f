"""How a sample is shared out among namespaces."""

import math

from hypothesis import given, strategies as st

from toolyard.insight.samplers.base import RandomStream
from toolyard.insight.samplers.random import share_slots

LETTERS = "abcdef"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 40), st.integers())
def test_each_gets_its_share_up_to_one_and_together_they_are_all(weights, count, seed):
    total = sum(weights)
    shares = {letter: weight / total for letter, weight in zip(LETTERS, weights, strict=False)}
    numbers = share_slots(RandomStream(seed), shares, dict.fromkeys(shares, 1000), count)
    assert sum(numbers.values()) == count
    for letter, weight in zip(LETTERS, weights, strict=False):
        exact = weight * count / total
        assert math.floor(exact - 1e-9) <= numbers[letter] <= math.ceil(exact + 1e-9)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=6), st.integers(1, 60), st.integers()
)
def test_what_one_does_not_have_the_others_give(rows, count, seed):
    shares = {letter: float(weight) for letter, (weight, _) in zip(LETTERS, rows, strict=False)}
    sizes = {letter: size for letter, (_, size) in zip(LETTERS, rows, strict=False)}
    numbers = share_slots(RandomStream(seed), shares, sizes, count)
    there = sum(sizes[letter] for letter in shares if shares[letter] > 0)
    assert sum(numbers.values()) == min(count, there)
    assert all(numbers[letter] <= sizes[letter] for letter in shares)
    assert all(numbers[letter] == 0 for letter in shares if shares[letter] == 0)
