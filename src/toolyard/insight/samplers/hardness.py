"""Which of many tools to take, by how alike they are to something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np
import numpy.typing as npt

from toolyard.insight.samplers.rng import RandomStream

_SPREAD = 0.02
"""The part of all candidates among which chance decides."""


def by_hardness(
    chance: RandomStream,
    scores: npt.NDArray[np.float32],
    candidates: Sequence[int] | npt.NDArray[np.intp],
    number: int,
    hardness: float,
    name_ids: Sequence[int],
    used: Sequence[int] = (),
) -> list[int]:
    """`number` candidates: with hardness 1 of those that score most, with 0 of those that score least.

    Chance decides among a few times as many as are wanted. No name is taken twice, nor one of the names of `used`
    places; fewer are returned if there are no more.
    """
    places = np.asarray(candidates, np.intp)
    ranked = places[np.lexsort((places, -scores[places]))].tolist()
    window = min(len(ranked), max(3 * number, math.ceil(_SPREAD * len(ranked))))
    start = round((1.0 - hardness) * (len(ranked) - window))
    before, after = ranked[:start][::-1], ranked[start + window :]
    # Where the window does not have enough names, those next to it follow, the nearest first.
    next_to_it = (place for pair in zip_longest(before, after) for place in pair if place is not None)
    names = {name_ids[place] for place in used}
    taken: list[int] = []
    for place in chain(chance.each(ranked[start : start + window]), next_to_it):
        if len(taken) == number:
            break
        if name_ids[place] not in names:
            names.add(name_ids[place])
            taken.append(place)
    return taken
