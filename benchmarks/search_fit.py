"""Fits the weights of the search: small linear models by gradient descent, in numpy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def fit_ranking(tables: Sequence[Array], right: Sequence[NDArray[np.bool_]], rounds: int = 250) -> Array:
    """Weights that put the right candidates of each query before its others (softmax over each query's)."""
    kept = [place for place, mine in enumerate(right) if mine.any()]
    values = np.concatenate([tables[place] for place in kept]).astype(np.float64)
    wanted = np.concatenate([right[place] for place in kept]).astype(np.float64)
    counts = np.array([len(tables[place]) for place in kept])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    scale = values.std(axis=0) + 1e-9
    values = values / scale
    target = wanted / np.repeat(np.add.reduceat(wanted, starts), counts)

    def slope(weights: Array) -> Array:
        scores = values @ weights
        scores -= np.repeat(np.maximum.reduceat(scores, starts), counts)
        share = np.exp(scores)
        share /= np.repeat(np.add.reduceat(share, starts), counts)
        return np.asarray(values.T @ (share - target) / len(kept) + 1e-3 * weights)

    return np.asarray(_descended(slope, values.shape[1], rounds) / scale)


def fit_chance(evidence: Array, right: NDArray[np.bool_], weights: Array, rounds: int = 500) -> Array:
    """A logistic regression; the constant is the last."""
    mean, scale = evidence.mean(axis=0), evidence.std(axis=0) + 1e-9
    values = np.column_stack([(evidence - mean) / scale, np.ones(len(evidence))])
    share = weights / weights.sum()

    def slope(numbers: Array) -> Array:
        chance = 1 / (1 + np.exp(-np.clip(values @ numbers, -30, 30)))
        return np.asarray(values.T @ (share * (chance - right)) + 1e-4 * np.append(numbers[:-1], 0.0))

    found = _descended(slope, values.shape[1], rounds)
    own = found[:-1] / scale
    return np.append(own, found[-1] - own @ mean)


def _descended(slope: object, width: int, rounds: int, rate: float = 0.05) -> Array:
    """Where Adam comes to from nothing."""
    assert callable(slope)
    weights, mean, square = np.zeros(width), np.zeros(width), np.zeros(width)
    for step in range(1, rounds + 1):
        towards = slope(weights)
        mean = 0.9 * mean + 0.1 * towards
        square = 0.99 * square + 0.01 * towards**2
        weights = weights - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-9)
    return weights
