"""From features to an order and a probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.search.table import Table
from toolyard.insight.search.weights import RankWeights

Floats = NDArray[np.float64]

RIVALS = 12
"""Candidates that a hit is compared with."""
_ALIKE = 0.5
"""Scores this near to the best are the same tool again, as far as a query can tell: no rivals of each other."""
_MANY = 10
"""Candidates from which on the last of them shows how tools score that do not fit."""


def order_rows(table: Table, weights: RankWeights) -> tuple[NDArray[np.intp], Floats]:
    """Places in the table, best first and of equals the first registered, and the scores in that order."""
    scores = table.values @ np.asarray(weights.rank)
    order = np.lexsort((table.rows, -scores))
    return order, scores[order]


def collect_evidence(table: Table, order: NDArray[np.intp], scores: Floats, k: int) -> Floats:
    """What the probability of each of the first `k` is made of: its features, and how it stands among its rivals."""
    alike = int(np.count_nonzero(scores >= scores[0] - _ALIKE))
    rivals = scores[alike:]
    # Those that are alike count as one.
    scores_apart = np.concatenate([scores[:1], rivals])
    count = min(k, len(order))
    own = table.values[order[:count]].astype(np.float64)
    score = scores[:count]
    rival = np.full(count, scores[0])
    rival[:alike] = rivals[0] if len(rivals) else scores[0] - 5
    chance = np.log(np.exp(score - scores[0]) / np.exp(scores_apart[:RIVALS] - scores[0]).sum() + 1e-4)
    half = (own.shape[1] - 1) // 2
    whole, part = own[:, :half], own[:, half : 2 * half]
    # Products: the words of the query and of the name must both be answered for.
    both = [whole[:, 1] * part[:, 2], part[:, 1] * part[:, 2], np.minimum(part[:, 1], part[:, 2])]
    if half > 3:
        both += [part[:, 3] * part[:, 4], part[:, 4] * part[:, 5], part[:, 3] ** 2, np.minimum(part[:, 4], part[:, 5])]
    fixed = np.ones(count)
    # Where there are not ten, the last says nothing, and what speaks for the hit itself must do.
    few = 0.0 if len(scores_apart) >= _MANY else 1.0
    drop = fixed * 0 if few else score - scores_apart[_MANY - 1]
    rest = [
        score,
        score - rival,
        chance,
        fixed * np.log(table.segments),
        fixed * np.log1p(table.total),
        drop,
        fixed * few,
        few * score,
        few * part[:, 1] * part[:, 2],
        (np.arange(count) == 0) * 1.0,
    ]
    # As `column_stack` would have it, which takes thrice as long.
    return np.concatenate([own, np.array([*rest, *both]).T], axis=1)


def compute_probabilities(found: Floats, weights: RankWeights) -> Floats:
    """How likely each is what was asked for."""
    offer = np.asarray(weights.offer)
    logits = found @ offer[:-1] + offer[-1]
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))))
