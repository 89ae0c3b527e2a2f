"""Fits the weights of search: three small linear models, by gradient descent in numpy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.search.rank import (
    FeatureTable,
    RankWeights,
    collect_evidence,
    compute_logit,
    order_rows,
    to_probability,
    weigh_request,
)

Array = NDArray[np.float64]
BALANCE = 0.7
"""Weight of everyday requests in the ranking loss; the benchmark's queries have the rest."""
FOREIGN, LOST = 0.10, 0.25
"""Targets for the cut of foreign requests: the share of them that get hits, unless that would lose more than this share
of right first hits."""
SHARES = {"everyday": 1.0, "direct": 0.3, "benchmark": 0.2}
"""Weight of one request in the loss of the probabilities."""
RIDGE = 3e-3


Origin = Literal["everyday", "direct", "benchmark"]
"""Where a request comes from: people, the words of a tool itself, or a public data set."""


@dataclass(frozen=True)
class Asked:
    """One request to one catalog, with its candidates from the index."""

    text: str
    kind: str
    """`right`, `near`, `foreign`, or `gone` (the right tools were removed)."""
    group: str
    """The benchmark's source, or the server."""
    catalog: str
    language: str
    right: int
    """Number of right tools."""
    table: FeatureTable
    is_right: NDArray[np.bool_]

    origin: Origin

    @property
    def everyday(self) -> bool:
        """True for an everyday request."""
        return self.origin == "everyday"


def deal_out(asked: Sequence[Asked], parts: int, seed: int = 0) -> NDArray[np.intp]:
    """The fold of each request: all requests of a server are in one, those of no server are dealt by text."""
    keys = [each.group if each.origin != "benchmark" and each.group else each.text for each in asked]
    names = sorted(set(keys))
    order = np.random.default_rng(seed).permutation(len(names)) % parts
    part = dict(zip(names, order.tolist(), strict=True))
    return np.array([part[key] for key in keys], np.intp)


def fit_weights(asked: Sequence[Asked], balance: float = BALANCE) -> RankWeights:
    """Fit all weights of one mode to these requests, except those for other languages.

    Only the probabilities are fitted to direct requests too, which any order gets right.
    """
    there = [each for each in asked if each.language == "en" and len(each.table.rows)]
    order = fit_ranking(there, balance)
    about = _fit_about([each for each in there if each.kind != "gone" and each.origin != "direct"])
    logits = [compute_logit(weigh_request(each.table), about) for each in there]
    looked = [_look_at_first(each, order, logit) for each, logit in zip(there, logits, strict=True)]
    columns = {name: np.concatenate([evidence[name] for evidence, _ in looked]) for name in looked[0][0]}
    shares = [
        np.where(np.arange(len(right)) == 0, 1.0, 0.3) * SHARES[each.origin]
        for each, (_, right) in zip(there, looked, strict=True)
    ]
    chances = _fit_logistic(columns, np.concatenate([right for _, right in looked]), np.concatenate(shares))
    firsts = [
        logit for each, logit, (_, right) in zip(there, logits, looked, strict=True) if each.everyday and right[0]
    ]
    cut = min(0.0, float(np.quantile(firsts, LOST)))
    return RankWeights(order, about, chances, float(to_probability(cut)))


def _look_at_first(each: Asked, weights: dict[str, float], about: float) -> tuple[dict[str, Array], NDArray[np.bool_]]:
    """The features of each of the first five hits, and whether it is right."""
    order, scores = order_rows(each.table, weights)
    return collect_evidence(each.table, order, scores, 5, about), each.is_right[order[:5]]


def fit_ranking(asked: Sequence[Asked], balance: float = BALANCE) -> dict[str, float]:
    """Weights that put the right candidates of each query before its others (softmax over each query's)."""
    asked = [
        each
        for each in asked
        if each.is_right.any() and each.language == "en" and each.catalog != "part" and each.origin != "direct"
    ]
    counts = Counter(each.everyday for each in asked)
    by_kind = {True: balance / max(counts[True], 1), False: (1 - balance) / max(counts[False], 1)}
    shares = np.array([by_kind[each.everyday] for each in asked], np.float32)
    values = np.concatenate([each.table.values for each in asked])
    wanted = np.concatenate([each.is_right for each in asked]).astype(np.float32)
    sizes = np.array([len(each.table.rows) for each in asked])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    scale = values.std(axis=0) + np.float32(1e-9)
    values = values / scale
    target = wanted / np.repeat(np.add.reduceat(wanted, starts), sizes)
    share = np.repeat(shares / shares.sum(), sizes)

    def slope(weights: Array) -> Array:
        scores = values @ weights.astype(np.float32)
        scores -= np.repeat(np.maximum.reduceat(scores, starts), sizes)
        chance = np.exp(scores)
        chance /= np.repeat(np.add.reduceat(chance, starts), sizes)
        return np.asarray(values.T @ (share * (chance - target)) + RIDGE * weights)

    found = _descend(slope, values.shape[1], 250) / scale
    return dict(zip(asked[0].table.names, found.tolist(), strict=True))


def _fit_about(asked: Sequence[Asked]) -> dict[str, float]:
    """Fit the model that detects foreign requests, with equal weight for each catalog size."""
    evidence = [weigh_request(each.table) for each in asked]
    columns = {name: np.array([one[name] for one in evidence]) for name in evidence[0]}
    places = [(each.catalog if each.everyday else "benchmark", each.kind == "foreign") for each in asked]
    counts = Counter(places)
    shares = np.array([1 / counts[place] if (place[0], True) in counts else 0.2 / counts[place] for place in places])
    about = _fit_logistic(columns, np.array([not foreign for _, foreign in places]), shares)
    logits, names = compute_logit(columns, about), {name for name, foreign in counts if foreign} - {"benchmark"}
    mine = [np.array([place == (name, True) for place in places]) for name in names]
    sizes = [columns["size"][one].mean() for one in mine]
    slope, height = np.polyfit(sizes, [np.quantile(logits[one], 1 - FOREIGN) for one in mine], 1)
    return about | {"size": about["size"] - float(slope), "constant": about["constant"] - float(height)}


def _fit_logistic(columns: dict[str, Array], right: NDArray[np.bool_], shares: Array) -> dict[str, float]:
    values = np.stack(list(columns.values()), axis=1)
    mean, scale = values.mean(axis=0), values.std(axis=0) + 1e-9
    values = np.column_stack([(values - mean) / scale, np.ones(len(values))])
    share = shares / shares.sum()

    def slope(numbers: Array) -> Array:
        return np.asarray(
            values.T @ (share * (to_probability(values @ numbers) - right)) + 1e-4 * np.append(numbers[:-1], 0.0)
        )

    found = _descend(slope, values.shape[1], 500)
    own = found[:-1] / scale
    return {**dict(zip(columns, own.tolist(), strict=True)), "constant": float(found[-1] - own @ mean)}


def _descend(slope: Callable[[Array], Array], width: int, rounds: int, rate: float = 0.05) -> Array:
    """Minimise by Adam, starting from zeros."""
    weights, mean, square = np.zeros(width), np.zeros(width), np.zeros(width)
    for step in range(1, rounds + 1):
        towards = slope(weights)
        mean = 0.9 * mean + 0.1 * towards
        square = 0.99 * square + 0.01 * towards**2
        weights = weights - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-9)
    return weights
