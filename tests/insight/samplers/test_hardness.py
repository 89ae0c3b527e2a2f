"""Which of many to take, by a score."""

import numpy as np
import pytest

from toolyard.insight.samplers.base import RandomStream
from toolyard.insight.samplers.neighbor import draw_by_hardness

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
