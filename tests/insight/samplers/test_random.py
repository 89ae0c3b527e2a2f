"""tc/random: any tools, shared out among namespaces."""

import math
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from tests.insight.samplers.registries import names, qualified, registry, tool, tools
from toolyard import SamplingError, ToolRegistry
from toolyard.insight.samplers.base import RandomStream
from toolyard.insight.samplers.random import RandomSampler, share_slots


def spaces(*sizes):
    return [tool(f"t{number}", "abcdef"[at]) for at, size in enumerate(sizes) for number in range(size)]


def test_it_gives_exactly_k_different_tools():
    sampler = RandomSampler(registry(20))
    for seed in range(50):
        drawn = sampler.sample(8, seed=seed)
        assert len(drawn) == len(set(names(drawn))) == 8
    assert drawn.topology == "set"
    assert drawn.roles == ("tool",) * 8


def test_equal_names_in_different_namespaces_may_both_be_drawn():
    sampler = RandomSampler(registry(spaces(5, 5)))
    for seed in range(50):
        assert len(set(qualified(sampler.sample(8, seed=seed)))) == 8


def test_overloads_are_drawn_only_if_there_are_too_few_names():
    given = [tool("a"), tool("a", required=["x"]), tool("b"), tool("c")]
    sampler = RandomSampler(registry(given))
    assert all(len(set(names(sampler.sample(3, seed=seed)))) == 3 for seed in range(30))
    assert sorted(names(sampler.sample(4, seed=1))) == ["a", "a", "b", "c"]


def test_each_tool_is_as_likely_as_the_others():
    sampler = RandomSampler(registry(spaces(2, 6)), k=2)
    counts = Counter(name for drawn in sampler.series(4000, seed=1) for name in qualified(drawn))
    assert len(counts) == 8
    assert all(count / 8000 == pytest.approx(1 / 8, abs=0.02) for count in counts.values())


def test_asking_for_too_many_is_an_error_with_all_tools():
    with pytest.raises(SamplingError, match="found 3 of 5 tools") as caught:
        RandomSampler(registry(3)).sample(5)
    assert caught.value.requested == 5
    assert len(caught.value.tools) == 3


def test_allow_short_returns_fewer_tools():
    assert len(RandomSampler(registry(3), k=5, allow_short=True).sample()) == 3
    assert len(RandomSampler(registry(3), k=5).sample(allow_short=True)) == 3


def test_an_empty_registry_is_an_error_even_then():
    with pytest.raises(SamplingError, match="the registry is empty"):
        RandomSampler(ToolRegistry([]), k=1, allow_short=True).sample()


@pytest.mark.parametrize("namespace", ["b", ["b"], ("b",)])
def test_a_namespace_restricts(namespace):
    drawn = RandomSampler(registry(spaces(5, 4)), namespace=namespace).sample(4)
    assert {one.namespace for one in drawn} == {"b"}


def test_several_namespaces_restrict():
    drawn = RandomSampler(registry(spaces(2, 2, 2))).sample(4, namespace=["a", "c"])
    assert Counter(one.namespace for one in drawn) == {"a": 2, "c": 2}


def test_a_weight_is_a_share_of_the_whole_and_the_rest_share_what_is_left():
    sampler = RandomSampler(registry(spaces(50, 50)), k=10, namespace_weights={"a": 0.8}, strategy="uniform")
    assert Counter(one.namespace for one in sampler.sample(seed=1)) == {"a": 8, "b": 2}


def test_the_rest_is_shared_evenly_or_by_size():
    given = registry(spaces(40, 30, 10))
    share = {"k": 20, "namespace_weights": {"a": 0.6}}
    evenly = RandomSampler(given, strategy="uniform", **share).sample(seed=1)
    assert Counter(one.namespace for one in evenly) == {"a": 12, "b": 4, "c": 4}
    by_size = RandomSampler(given, **share).sample(seed=1)
    assert Counter(one.namespace for one in by_size) == {"a": 12, "b": 6, "c": 2}


def test_weights_above_one_are_taken_in_proportion():
    sampler = RandomSampler(registry(spaces(50, 50, 50)), k=8, namespace_weights={"a": 3, "b": 1})
    assert Counter(one.namespace for one in sampler.sample(seed=1)) == {"a": 6, "b": 2}


def test_rounding_is_fair_even_for_a_single_tool():
    sampler = RandomSampler(registry(spaces(9, 9)), k=1, namespace_weights={"a": 0.8})
    counts = Counter(drawn[0].namespace for drawn in sampler.series(2000, seed=1))
    assert counts["a"] / 2000 == pytest.approx(0.8, abs=0.03)


def test_other_namespaces_fill_up_for_an_exhausted_one():
    sampler = RandomSampler(registry(spaces(2, 50, 50)), k=20, namespace_weights={"a": 0.9})
    counts = Counter(one.namespace for one in sampler.sample(seed=1))
    assert counts["a"] == 2
    assert counts["b"] + counts["c"] == 18


def test_weight_0_gives_none_and_the_error_says_so():
    sampler = RandomSampler(registry(spaces(3, 3)), namespace_weights={"a": 0})
    assert {one.namespace for one in sampler.sample(3)} == {"b"}
    with pytest.raises(SamplingError, match="'a' have weight 0"):
        sampler.sample(4)


def test_an_unknown_namespace_is_named_with_the_nearest():
    sampler = RandomSampler(registry(tools(3, "weather_api")), k=1)
    for call in ({"namespace": "wether_api"}, {"namespace_weights": {"wether_api": 1}}):
        with pytest.raises(SamplingError, match="'wether_api'; did you mean 'weather_api'"):
            sampler.sample(**call)


def test_invalid_weights_are_refused():
    sampler = RandomSampler(registry(3), k=1)
    with pytest.raises(ValueError, match="'n' must be 0 or more, not -1"):
        sampler.sample(namespace_weights={"n": -1})
    with pytest.raises(ValueError, match="every namespace has weight 0"):
        sampler.sample(namespace_weights={"n": 0})
    with pytest.raises(ValueError, match="strategy"):
        sampler.sample(strategy="fair")


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
