"""Which tools are worth a closer look: the best by words and the best by meaning, of the query and of its parts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.embeddings.embedder import Matrix
from toolyard.insight.search.meaning import Known
from toolyard.insight.search.postings import Postings
from toolyard.insight.search.query import Weighed

_OF_WHOLE, _OF_PART = 24, 8
_MOST_POSTINGS = 12_000
"""Places that are looked at for a query: those of its rarest words."""

_MANY, _SOME = 4096, 8
"""From how many on, one of how many is looked at first."""
_NO_LIKENESS = -1.5
"""Below every cosine, and above the mark of what is not to be found."""

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
        chosen.append(_find_highest(scores, _OF_PART if part else max(k, _OF_WHOLE)))
    return np.concatenate(chosen)


def by_meaning(known: Known, vectors: Matrix, rows: int, where: Mask | None, k: int) -> NDArray[np.intp]:
    """Those of the first `rows` whose vectors are nearest to the query's; as many as `k`, if there are."""
    dense = known.dense
    if not len(dense):
        return np.empty(0, np.intp)
    counts = [_OF_PART if part else max(k, _OF_WHOLE) for part in range(len(vectors))]
    if known.axes is not None and known.sketch is not None:
        likeness = np.asarray((vectors @ known.axes) @ known.sketch, np.float32)
    else:
        likeness = np.asarray(vectors @ dense.rows.T, np.float32)
    # Tools may have been added meanwhile that the snapshot of this search does not have.
    likeness = likeness[:, :rows]
    if where is not None:
        likeness[:, ~where] = -2
    pick = _find_nearest if where is None else partial(_find_highest, above=_NO_LIKENESS)
    return np.concatenate([pick(like, count) for like, count in zip(likeness, counts, strict=True)])


def _find_highest(scores: NDArray[Any], k: int, above: float = 0.0) -> NDArray[np.intp]:
    """The places of the `k` highest that are above a bound."""
    there = np.flatnonzero(scores > above)
    if len(there) <= k:
        return there
    # Among those above alone: to part a great many equal zeros takes longer than all the rest.
    inside = scores[there]
    return there[np.argpartition(inside, len(inside) - k)[len(inside) - k :]]


def _find_nearest(likeness: NDArray[Any], k: int) -> NDArray[np.intp]:
    """The places of the `k` highest of all, where few are equal."""
    if len(likeness) >= max(_MANY, _SOME * _SOME * k):
        # The last of the highest among some of them is no higher than the last among all: most are out at once.
        some = likeness[::_SOME]
        near = np.flatnonzero(likeness >= np.partition(some, len(some) - k)[len(some) - k])
        if len(near) >= k:  # else one is no number
            return near[np.argpartition(likeness[near], len(near) - k)[len(near) - k :]]
    return _find_highest(likeness, k, _NO_LIKENESS)
