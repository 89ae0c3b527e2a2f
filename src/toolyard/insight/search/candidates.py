"""Which tools are worth a closer look: the best by words and the best by meaning, of the query and of its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.embedders.base import Matrix
from toolyard.insight.search.meaning import Known
from toolyard.insight.search.postings import Postings
from toolyard.insight.search.query import Weighed

_OF_WHOLE, _OF_PART = 24, 8
_MOST_POSTINGS = 12_000
"""Places that are looked at for a query: those of its rarest words."""
_MOST_PARTS_SORTED = 1
"""Parts of a query that are looked up among sorted vectors; more would cost more than they find."""

_MANY, _SOME = 4096, 8

Mask = NDArray[np.bool_]


def by_words(weights: Weighed, postings: Postings, where: Mask | None, k: int) -> NDArray[np.intp]:
    """The rows that have the most of the rarest words; as many as `k`, if there are."""
    if not len(weights.terms):
        return np.empty(0, np.intp)
    order = np.argsort(postings.counts[weights.terms], kind="stable")
    rows: list[NDArray[np.int32]] = []
    inner: list[NDArray[np.float32]] = []
    used: list[int] = []
    total = 0
    for place in order:
        term = int(weights.terms[place])
        for block in postings.blocks:
            found, values = block.of_term(term)
            rows.append(found)
            inner.append(values)
            used += [int(place)]
        total += postings.count(term)
        if total > _MOST_POSTINGS:
            break
    lengths = [len(part) for part in rows]
    joined, values = np.concatenate(rows), np.concatenate(inner)
    if where is not None:
        values = values * where[joined]
    chosen = []
    for part, row in enumerate(weights.weights):
        scores = np.bincount(joined, values * np.repeat(row[used], lengths), minlength=postings.rows)
        chosen.append(_highest(scores, _OF_PART if part else max(k, _OF_WHOLE)))
    return np.concatenate(chosen)


def by_meaning(known: Known, vectors: Matrix, rows: int, where: Mask | None, k: int) -> NDArray[np.intp]:
    """Those of the first `rows` whose vectors are nearest to the query's; as many as `k`, if there are."""
    dense = known.dense
    if not len(dense):
        return np.empty(0, np.intp)
    counts = [_OF_PART if part else max(k, _OF_WHOLE) for part in range(len(vectors))]
    if dense.is_exact:
        if known.axes is not None and known.sketch is not None:
            likeness = np.asarray((vectors @ known.axes) @ known.sketch, np.float32)
        else:
            likeness = np.asarray(vectors @ dense.vectors.T, np.float32)
        # Tools may have been added meanwhile that the snapshot of this search does not have.
        likeness = likeness[:, :rows]
        if where is not None:
            likeness[:, ~where] = -2
            return np.concatenate([_highest(like, count, -1.5) for like, count in zip(likeness, counts, strict=True)])
        return np.concatenate([_first(like, count) for like, count in zip(likeness, counts, strict=True)])
    if where is not None or rows < len(dense):
        mine = np.ones(rows, np.bool_) if where is None else where
        where = np.concatenate([mine, np.zeros(len(dense) - rows, np.bool_)])
    few = list(zip(vectors, counts, strict=True))[: _MOST_PARTS_SORTED + 1]
    return np.concatenate([dense.search(vector, count, where=where)[0] for vector, count in few])


def _highest(scores: NDArray[Any], k: int, above: float = 0.0) -> NDArray[np.intp]:
    """The places of the `k` highest that are above a bound."""
    there = np.flatnonzero(scores > above)
    if len(there) <= k:
        return there
    # Among those above alone: to part a great many equal zeros takes longer than all the rest.
    inside = scores[there]
    return there[np.argpartition(inside, len(inside) - k)[len(inside) - k :]]


def _first(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """The places of the `k` highest, where few are equal."""
    last = len(scores) - k
    if last <= 0:
        return np.arange(len(scores))
    if len(scores) < _MANY or len(scores) < _SOME * _SOME * k:
        return np.argpartition(scores, last)[last:]
    # The last of the highest among some of them is no higher than the last among all: most are out at once.
    some = scores[::_SOME]
    near = np.flatnonzero(scores >= np.partition(some, len(some) - k)[len(some) - k])
    return near[np.argpartition(scores[near], len(near) - k)[len(near) - k :]]
