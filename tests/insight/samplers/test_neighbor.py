"""tc/neighbor: tools around one tool."""

import numpy as np
import pytest

from tests.insight.samplers.registries import names, registry, tool
from toolyard import SamplingError
from toolyard.insight.samplers.base import RandomStream
from toolyard.insight.samplers.neighbor import NeighborSampler, draw_by_hardness


def circle(count):
    """Vectors on a circle: the nearest of each are those beside it."""
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def yard(given, vectors, **neighbors):
    return registry(given, vectors=vectors, neighbors={"duplicate_sim_thresh": 0.9999, **neighbors})


def test_the_seed_comes_first_and_the_others_are_similar():
    sampler = NeighborSampler(yard(60, circle(60), max_neighbors=6), k=4)
    for drawn in sampler.series(50, seed=1):
        seed, *others = (int(name[1:]) for name in names(drawn))
        assert all(min((seed - other) % 60, (other - seed) % 60) <= 3 for other in others)
        assert drawn.roles == ("seed", "neighbor", "neighbor", "neighbor")
        assert 0.9 < drawn.score <= 1


def test_neighbors_of_neighbors_are_used_for_large_samples():
    given = yard(300, circle(300))
    assert all(len(set(names(drawn))) == 15 for drawn in NeighborSampler(given, k=15).series(50, seed=1))
    assert len(NeighborSampler(given, k=250).sample(seed=1)) == 250


def test_a_sample_has_no_near_duplicates():
    vectors = np.repeat(np.eye(10) + np.random.default_rng(1).random((10, 10)), 3, axis=0)
    sampler = NeighborSampler(yard(30, vectors), k=6)
    for drawn in sampler.series(50, seed=1):
        groups = [int(name[1:]) // 3 for name in names(drawn)]
        assert len(set(groups)) == 6


def test_if_all_tools_are_duplicates_it_is_an_error():
    sampler = NeighborSampler(yard(5, np.ones((5, 3))), k=3)
    with pytest.raises(SamplingError, match="not nearly the same") as caught:
        sampler.sample()
    assert len(caught.value.tools) == 1
    assert len(sampler.sample(allow_short=True)) == 1


def test_neighbors_are_in_the_seeds_namespace_by_default():
    given = [tool(f"t{at}", "ab"[at % 2]) for at in range(20)]
    sampler = NeighborSampler(yard(given, circle(20)), k=5)
    assert all(len({one.namespace for one in drawn}) == 1 for drawn in sampler.series(30, seed=1))
    mixed = sampler.series(30, seed=1, use_seed_namespace=False)
    assert any(len({one.namespace for one in drawn}) == 2 for drawn in mixed)


def test_namespaces_and_weights_select_the_seed():
    given = [tool(f"t{at}", "ab"[at % 2]) for at in range(20)]
    sampler = NeighborSampler(yard(given, circle(20)), k=2)
    assert {drawn[0].namespace for drawn in sampler.series(20, seed=1, namespace="b")} == {"b"}
    seeds = [drawn[0].namespace for drawn in sampler.series(400, seed=1, namespace_weights={"a": 0.9})]
    assert 330 < seeds.count("a") < 390
    with pytest.raises(SamplingError, match="no tool is in the namespace 'c'"):
        sampler.sample(namespace="c")


def test_a_low_temperature_prefers_the_nearest():
    def spread(temperature):
        drawn = NeighborSampler(yard(60, circle(60), max_neighbors=20), k=2).series(
            200, seed=1, temperature=temperature
        )
        return sum(min((a - b) % 60, (b - a) % 60) for a, b in ((int(n[1:]) for n in names(one)) for one in drawn))

    assert spread(0.01) < 0.6 * spread(10)


def test_min_score_limits_the_similarity():
    sampler = NeighborSampler(yard(12, circle(12)), k=2, min_score=0.8)
    assert all(drawn.score >= 0.8 for drawn in sampler.series(30, seed=1))
    with pytest.raises(SamplingError):
        sampler.sample(min_score=0.99)


def test_a_temperature_of_zero_is_refused():
    with pytest.raises(ValueError, match="temperature: must be above 0"):
        NeighborSampler(yard(3, circle(3)), k=2, temperature=0)


def test_without_the_artifact_the_enrichment_to_add_is_named():
    with pytest.raises(SamplingError, match="add the enrichment 'neighbors'"):
        NeighborSampler(registry(3), k=2)


SCORES = np.linspace(0, 1, 100, dtype=np.float32)
IDS = list(range(100))


def drawn(hardness, number=5, **options):
    return [
        draw_by_hardness(RandomStream(seed), SCORES, range(100), number, hardness, IDS, **options) for seed in range(50)
    ]


@pytest.mark.parametrize(("hardness", "low", "high"), [(1.0, 85, 99), (0.0, 0, 14), (0.5, 40, 60)])
def test_hardness_selects_the_range_of_scores(hardness, low, high):
    assert all(low <= place <= high for places in drawn(hardness) for place in places)
    assert len({tuple(places) for places in drawn(hardness)}) > 10


def test_higher_hardness_gives_higher_scores_on_average():
    means = [np.mean(drawn(hardness)) for hardness in (0, 0.25, 0.5, 0.75, 1)]
    assert means == sorted(means)


def test_names_are_drawn_once_and_never_those_in_use():
    ids = [place // 10 for place in range(100)]
    for seed in range(30):
        places = draw_by_hardness(RandomStream(seed), SCORES, range(100), 8, 1.0, ids, [95])
        names = [ids[place] for place in places]
        assert len(set(names)) == 8
        assert 9 not in names


def test_fewer_are_returned_if_there_are_no_more():
    assert sorted(draw_by_hardness(RandomStream(1), SCORES, [4, 7], 5, 0.5, IDS)) == [4, 7]
    assert draw_by_hardness(RandomStream(1), SCORES, [], 5, 0.5, IDS) == []
