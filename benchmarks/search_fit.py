"""Fits the weights of the search: three small linear models by gradient descent, in numpy alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.search.rank import (
    RankWeights,
    Table,
    collect_evidence,
    order_rows,
    sum_up,
    to_chance,
    weigh_request,
)

Array = NDArray[np.float64]
BALANCE = 0.7
"""How much of the loss of the ranking is that of everyday requests; the rest is that of the benchmark's queries."""
FOREIGN, LOST, LIKELY, SURE = 0.08, 0.25, 0.55, 0.88
"""What the cuts are set to, a little more than the goals, for what the fit has not seen: which part of the foreign
requests is offered something, unless that would lose more than this part of the right first hits; which part of hits
with these words is right."""
MOST = 0.95
"""The chance that needs no other proof."""


@dataclass(frozen=True)
class Asked:
    """One request of one catalog, and what the index has for it."""

    text: str
    kind: str
    """`right`, `near`, `foreign`, or `gone`: what is right was taken away."""
    group: str
    """The benchmark's source, or the server."""
    catalog: str
    language: str
    right: int
    """How many tools are."""
    table: Table
    is_right: NDArray[np.bool_]

    @property
    def everyday(self) -> bool:
        """True if somebody said it so."""
        return self.catalog not in ("benchmark", "part")


def fit_weights(asked: Sequence[Asked], balance: float = BALANCE) -> RankWeights:
    """All weights of one mode for these requests; those in other languages are left alone."""
    asked = [each for each in asked if each.language == "en"]
    ranked = [each for each in asked if each.is_right.any() and (each.everyday or each.catalog == "benchmark")]
    counts = Counter(each.everyday for each in ranked)
    shares = {True: balance / max(counts[True], 1), False: (1 - balance) / max(counts[False], 1)}
    rank = _fit_ranking(ranked, np.array([shares[each.everyday] for each in ranked]))
    weights = RankWeights(rank, {}, {}, 0.0, 1.0, 1.0)
    there = [each for each in asked if len(each.table.rows)]
    told = [each for each in there if each.kind != "gone"]
    about = _fit_about(told)
    evidence, right, shares_of = [], [], []
    for each in there:
        order, scores = order_rows(each.table, weights)
        evidence.append(collect_evidence(each.table, order, scores, 5, sum_up(weigh_request(each.table), about)))
        right.append(each.is_right[order[:5]])
        shares_of.append(np.where(np.arange(len(right[-1])) == 0, 1.0, 0.3) * (1.0 if each.everyday else 0.2))
    columns = {name: np.concatenate([one[name] for one in evidence]) for name in evidence[0]}
    chances = _fit_logistic(columns, np.concatenate(right), np.concatenate(shares_of))
    found = [to_chance(sum_up(one, chances)) for one in evidence]
    abouts = [to_chance(sum_up(weigh_request(each.table), about)) for each in there]
    foreign = [chance for each, chance in zip(there, abouts, strict=True) if each.kind == "foreign"]
    judged = zip(there, right, abouts, strict=True)
    firsts = [value for each, seen, value in judged if seen[0] and each.everyday]
    chance, good = np.concatenate(found), np.concatenate(right)
    spoken = np.repeat([each.everyday for each in there], [len(one) for one in right])
    sure = max(_find_cut(chance[mine], good[mine], SURE) for mine in (spoken, ~spoken))
    rest = [mine & (chance < sure) for mine in (spoken, ~spoken)]
    likely = max(_find_cut(chance[mine], good[mine], LIKELY) for mine in rest)
    cut = min(np.quantile(foreign, 1 - FOREIGN), np.quantile(firsts, LOST)) if foreign else 0.0
    return RankWeights(rank, about, chances, float(cut), likely, sure)


def _fit_ranking(asked: Sequence[Asked], shares: Array, rounds: int = 250) -> dict[str, float]:
    """Weights that put the right candidates of each query before its others (softmax over each query's)."""
    values = np.concatenate([each.table.values for each in asked]).astype(np.float64)
    wanted = np.concatenate([each.is_right for each in asked]).astype(np.float64)
    counts = np.array([len(each.table.rows) for each in asked])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    scale = values.std(axis=0) + 1e-9
    values = values / scale
    target = wanted / np.repeat(np.add.reduceat(wanted, starts), counts)
    share = np.repeat(shares / shares.sum(), counts)

    def slope(weights: Array) -> Array:
        scores = values @ weights
        scores -= np.repeat(np.maximum.reduceat(scores, starts), counts)
        chance = np.exp(scores)
        chance /= np.repeat(np.add.reduceat(chance, starts), counts)
        return np.asarray(values.T @ (share * (chance - target)) + 3e-3 * weights)

    found = _descend(slope, values.shape[1], rounds) / scale
    return dict(zip(asked[0].table.names, found.tolist(), strict=True))


def _fit_about(asked: Sequence[Asked]) -> dict[str, float]:
    """What tells a foreign request; in each catalog the foreign ones count as much as the others."""
    evidence = [weigh_request(each.table) for each in asked]
    columns = {name: np.array([one[name] for one in evidence]) for name in evidence[0]}
    places = [(each.catalog if each.everyday else "benchmark", each.kind == "foreign") for each in asked]
    counts = Counter(places)
    shares = np.array([1 / counts[place] if (place[0], True) in counts else 0.2 / counts[place] for place in places])
    return _fit_logistic(columns, np.array([not foreign for _, foreign in places]), shares)


def _fit_logistic(columns: dict[str, Array], right: NDArray[np.bool_], shares: Array) -> dict[str, float]:
    values = np.stack(list(columns.values()), axis=1)
    mean, scale = values.mean(axis=0), values.std(axis=0) + 1e-9
    values = np.column_stack([(values - mean) / scale, np.ones(len(values))])
    share = shares / shares.sum()

    def slope(numbers: Array) -> Array:
        return np.asarray(
            values.T @ (share * (to_chance(values @ numbers) - right)) + 1e-4 * np.append(numbers[:-1], 0.0)
        )

    found = _descend(slope, values.shape[1], 500)
    own = found[:-1] / scale
    return {**dict(zip(columns, own.tolist(), strict=True)), "constant": float(found[-1] - own @ mean)}


def _find_cut(chances: Array, right: NDArray[np.bool_], least: float) -> float:
    """The lowest chance such that, of the hits from there on, at least that part is right."""
    order = np.argsort(-chances)
    part = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(part >= least)
    return min(float(chances[order[good[-1]]]), MOST) if len(good) else MOST


def _descend(slope: Callable[[Array], Array], width: int, rounds: int, rate: float = 0.05) -> Array:
    """Where Adam comes to from nothing."""
    weights, mean, square = np.zeros(width), np.zeros(width), np.zeros(width)
    for step in range(1, rounds + 1):
        towards = slope(weights)
        mean = 0.9 * mean + 0.1 * towards
        square = 0.99 * square + 0.01 * towards**2
        weights = weights - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-9)
    return weights
