"""Randomness that repeats."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from toolyard.insight.samplers.base import RandomStream, derive_seed, fresh_seed


def test_seeds_are_derived_from_every_word_and_do_not_change_between_releases():
    assert derive_seed(1, "a") == 475944544596965755
    assert (
        len(
            {
                derive_seed(1),
                derive_seed(1, "a"),
                derive_seed(1, "b"),
                derive_seed(2, "a"),
                derive_seed(1, "a", 0),
                derive_seed(1, "a", 1),
            }
        )
        == 6
    )
    assert 0 <= derive_seed(-5, "x") < 2**63


def test_a_fresh_seed_is_another_one_each_time():
    seeds = [fresh_seed() for _ in range(20)]
    assert len(set(seeds)) == 20
    assert all(0 <= seed < 2**63 for seed in seeds)


@given(st.integers(), st.lists(st.integers()))
def test_each_gives_every_item_once_and_the_same_order_for_the_same_seed(seed, items):
    order = list(RandomStream(seed, "x").each(items))
    assert sorted(order) == sorted(items)
    assert order == list(RandomStream(seed, "x").each(items))


def test_each_is_fair():
    first = Counter(next(RandomStream(seed).each("abcd")) for seed in range(4000))
    last = Counter(list(RandomStream(seed).each("abcd"))[-1] for seed in range(4000))
    assert all(850 < count < 1150 for counts in (first, last) for count in counts.values())


def test_heavier_items_come_first_in_proportion():
    first = Counter(RandomStream(seed).by_weight("ab", [3, 1])[0] for seed in range(4000))
    assert first["a"] / 4000 == pytest.approx(0.75, abs=0.03)
    picked = Counter(RandomStream(seed).weighted("ab", [3, 1]) for seed in range(4000))
    assert picked["a"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_an_item_without_weight_comes_last():
    assert all(RandomStream(seed).by_weight("abc", [1, 0, 2])[2] == "b" for seed in range(200))


def test_numbers_stay_in_their_range():
    chance = RandomStream(1)
    assert {chance.below(3) for _ in range(100)} == {0, 1, 2}
    assert all(0 <= chance.fraction() < 1 for _ in range(100))
    assert {chance.pick("xy") for _ in range(50)} == {"x", "y"}
