"""tc/mix: now this sampler, now that."""

from collections import Counter

import pytest

from tests.insight.samplers.registries import registry
from toolyard import SamplingError
from toolyard.insight.samplers.mix import MixSampler
from toolyard.insight.samplers.random import RandomSampler

EDGES = [(at, at + 1, 0.5) for at in range(9)]
MIX = [{"sampler": {"type": "tc/chain", "min_score": 0.2}, "weight": 3}, {"type": "tc/random", "weight": 1}]


def test_samplers_are_chosen_by_weight_and_their_sample_is_returned():
    samples = list(MixSampler(registry(10, EDGES), k=3, samplers=MIX).series(400, seed=1))
    counts = Counter(drawn.details["sampler"] for drawn in samples)
    assert counts["tc/chain"] / 400 == pytest.approx(0.75, abs=0.07)
    assert all((drawn.topology == "chain") == (drawn.details["sampler"] == "tc/chain") for drawn in samples)
    assert all(len(drawn.edges) == 2 for drawn in samples if drawn.topology == "chain")


def test_a_name_or_a_sampler_has_the_weight_1():
    made = registry(10, EDGES)
    samples = MixSampler(made, k=2, samplers=["tc/chain", RandomSampler(made)]).series(200, seed=1)
    counts = Counter(drawn.details["sampler"] for drawn in samples)
    assert 70 < counts["tc/random"] < 130


def test_a_sampler_without_weight_is_never_chosen():
    mix = [{"type": "tc/chain", "weight": 0}, "tc/random"]
    samples = MixSampler(registry(10, EDGES), k=2, samplers=mix).series(30, seed=1)
    assert {drawn.details["sampler"] for drawn in samples} == {"tc/random"}


def test_the_other_samplers_are_the_fallback_unless_disabled():
    mix = [{"type": "tc/chain", "weight": 1000}, "tc/random"]
    sampler = MixSampler(registry(10, EDGES[:1]), k=4, samplers=mix)
    drawn = sampler.sample(seed=1)
    assert drawn.details["sampler"] == "tc/random"
    assert "no chain of 4 tools" in drawn.details["failed"][0]
    with pytest.raises(SamplingError, match="no chain of 4 tools") as caught:
        sampler.sample(seed=1, fallback=False)
    assert len(caught.value.tools) in (1, 2)


def test_if_all_samplers_fail_the_error_has_all_reasons():
    sampler = MixSampler(registry(3, EDGES[:1]), k=4, samplers=["tc/chain", "tc/random"])
    with pytest.raises(SamplingError, match=r"found 3 of 4 tools.*tc/chain|tc/random.*tc/chain") as caught:
        sampler.sample(seed=1)
    assert caught.value.requested == 4
    assert len(caught.value.tools) == 3
    assert len(sampler.sample(seed=1, allow_short=True)) == 3


def test_each_inner_sampler_may_have_its_own_k():
    mix = [{"type": "tc/chain", "k": 2}, {"type": "tc/random", "k": 5}]
    samples = list(MixSampler(registry(10, EDGES), samplers=mix).series(50, seed=1))
    assert {(drawn.topology, len(drawn)) for drawn in samples} == {("chain", 2), ("set", 5)}


def test_namespaces_reach_the_inner_samplers():
    with pytest.raises(SamplingError, match="'m'"):
        MixSampler(registry(10, EDGES), k=2, samplers=["tc/random"]).sample(namespace="m")


@pytest.mark.parametrize(
    ("samplers", "text"),
    [
        ([], "give `samplers`"),
        ("tc/random", "give `samplers`"),
        ([{"type": "tc/random", "weight": -1}], "a number of 0 or more, not -1"),
        ([{"type": "tc/random", "weight": 0}], "every sampler has weight 0"),
        ([{"sampler": "tc/random", "k": 3}], "'k' stands beside `sampler`"),
        ([{"weight": 3}], "a sampler is given by its name"),
        ([{"type": "tc/random", "seed": 5}], "tc/mix: tc/random inside it has the seed 5.*the seed of tc/mix decides"),
        ([{"sampler": {"type": "tc/random", "seed": 0}}], "leave it out there, or give it to tc/mix"),
    ],
)
def test_an_invalid_mix_is_refused_at_construction(samplers, text):
    with pytest.raises(ValueError, match=text):
        MixSampler(registry(3), k=1, samplers=samplers)


def test_an_unknown_sampler_is_named_with_the_nearest():
    with pytest.raises(KeyError, match="did you mean 'tc/random'"):
        MixSampler(registry(3), k=1, samplers=["tc/randm"])


def test_a_sampler_with_a_seed_of_its_own_is_refused():
    made = registry(3)
    with pytest.raises(ValueError, match="tc/mix: tc/random inside it has the seed 7"):
        MixSampler(made, k=1, samplers=[RandomSampler(made, seed=7)])
    with pytest.raises(ValueError, match="has the seed 7"):
        MixSampler(made, k=1, samplers=["tc/random"]).sample(samplers=[{"type": "tc/random", "seed": 7}])
