"""tc/coverage: every tool gets its turn."""

from collections import Counter

import pytest

from tests.insight.samplers.registries import qualified, registry, tool
from toolyard import SamplingError
from toolyard.insight.samplers.mix import CoverageSampler, usage_of

CHAINS = [(at, at + 1, 0.9 if at else 0.01) for at in range(29)]


def test_a_series_covers_all_tools_in_few_samples():
    sampler = CoverageSampler(registry(100), k=5)
    samples = list(sampler.series(40, seed=1))
    assert len({name for drawn in samples for name in qualified(drawn)}) == 100
    counts = Counter(name for drawn in samples for name in qualified(drawn))
    assert max(counts.values()) <= 6


@pytest.mark.parametrize("kind", ["tc/chain", "tc/dag", "tc/fan_out", "tc/fan_in"])
def test_a_series_covers_every_tool_that_the_inner_sampler_can_draw(kind):
    # Tools 30 to 39 are in no chain at all.
    edges = CHAINS if kind in ("tc/chain", "tc/dag") else [(a, b, 0.5) for a in range(15) for b in range(15, 30)]
    sampler = CoverageSampler(registry(40, edges), k=3, sampler={"type": kind})
    samples = list(sampler.series(120, seed=1))
    assert {name for drawn in samples for name in qualified(drawn)} == {f"n::t{at}" for at in range(30)}
    assert {drawn.topology for drawn in samples} == {kind.removeprefix("tc/")}


def test_sample_draws_the_least_used_tool_and_is_stateless():
    sampler = CoverageSampler(registry(10), k=1)
    usage = {f"n::t{at}": 3 for at in range(10)} | {"n::t7": 1}
    before = dict(vars(sampler))
    assert all(qualified(sampler.sample(seed=seed, usage=usage)) == ["n::t7"] for seed in range(20))
    assert vars(sampler) == before
    drawn = sampler.sample(seed=1, usage={**usage, "n::t7": 0})
    assert drawn.details == {"around": "n::t7", "new": ["n::t7"], "usage": [0]}


def test_passing_usage_of_earlier_samples_covers_all_tools():
    sampler = CoverageSampler(registry(12), k=3)
    samples = []
    for seed in range(8):
        samples.append(sampler.sample(seed=seed, usage=usage_of(samples)))
    assert len(usage_of(samples)) == 12
    assert sum(usage_of(samples).values()) == 24


def test_a_series_starts_from_the_usage_that_is_given():
    sampler = CoverageSampler(registry(10), k=1)
    usage = {f"n::t{at}": 5 for at in range(5)}
    drawn = [qualified(one)[0] for one in sampler.series(10, seed=1, usage=usage)]
    assert Counter(drawn) == {f"n::t{at}": 2 for at in range(5, 10)}


def test_overloads_are_covered_too():
    given = [tool("a"), tool("a", required=["x"]), tool("a", required=["y"]), tool("b")]
    samples = list(CoverageSampler(registry(given), k=1).series(8, seed=1))
    assert len({one.fingerprint for drawn in samples for one in drawn if one.name == "a"}) == 3


def test_the_namespace_option_is_respected():
    given = [tool(f"t{at}", "ab"[at % 2]) for at in range(10)]
    samples = list(CoverageSampler(registry(given), k=1, namespace="a").series(5, seed=1))
    assert {name for drawn in samples for name in qualified(drawn)} == {f"a::t{at}" for at in range(0, 10, 2)}


def test_a_failure_of_the_inner_sampler_is_an_error_with_the_partial_result():
    with pytest.raises(SamplingError, match="no chain of 3 tools") as caught:
        CoverageSampler(registry(5, [(0, 1, 0.5)]), k=3, sampler="tc/chain").sample()
    assert caught.value.requested == 3
    assert 1 <= len(caught.value.tools) <= 2


def test_any_sampler_can_be_the_inner_one():
    made = registry([tool(f"t{at}", required=[f"p{at}"]) for at in range(30)], CHAINS)
    for inner in (
        "tc/sparse",
        "tc/irrelevant",
        {"type": "tc/conflict", "min_score": 0},
        "tc/missing",
        {"type": "tc/mix", "samplers": ["tc/chain"]},
    ):
        samples = list(CoverageSampler(made, k=4, sampler=inner).series(30, seed=1))
        assert all(len(drawn) == 4 for drawn in samples)
        assert len(usage_of(samples)) >= 28, inner


def test_k_defaults_to_the_inner_samplers_k():
    assert len(CoverageSampler(registry(9), sampler={"type": "tc/random", "k": 4}).sample()) == 4
    with pytest.raises(ValueError, match="say how many tools"):
        CoverageSampler(registry(9)).sample()


def test_k_defaults_to_the_k_of_an_inner_sampler_given_at_the_call():
    inner = {"type": "tc/random", "k": 4}
    assert len(CoverageSampler(registry(9)).sample(sampler=inner)) == 4
    assert len(CoverageSampler(registry(9), sampler={"type": "tc/random", "k": 2}).sample(sampler=inner)) == 4
    assert [len(one) for one in CoverageSampler(registry(9)).series(3, seed=1, sampler=inner)] == [4, 4, 4]
    assert len(CoverageSampler(registry(9), k=3).sample(sampler=inner)) == 3
