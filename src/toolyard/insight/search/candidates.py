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

Mask = NDArray[np.bool_]


def by_words(weights: Weighed, postings: Postings, where: Mask | None) -> NDArray[np.intp]:
    """The rows that have the most of the rarest words."""
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
        chosen.append(_highest(scores, _OF_PART if part else _OF_WHOLE))
    return np.concatenate(chosen)


def by_meaning(known: Known, vectors: Matrix, where: Mask | None) -> NDArray[np.intp]:
    """The rows whose vectors are nearest to the query's."""
    dense = known.dense
    if not len(dense):
        return np.empty(0, np.intp)
    if dense.is_exact:
        if known.axes is not None and known.sketch is not None:
            likeness = np.asarray((vectors @ known.axes) @ known.sketch, np.float32)
        else:
            likeness = np.asarray(vectors @ dense.vectors.T, np.float32)
        if where is not None:
            likeness[:, : len(where)][:, ~where] = -2
            likeness[:, len(where) :] = -2
        parts = [_highest(likeness[part], _OF_PART if part else _OF_WHOLE, -1.5) for part in range(len(vectors))]
        return np.concatenate(parts)
    if where is not None and len(where) < len(dense):
        where = np.concatenate([where, np.zeros(len(dense) - len(where), np.bool_)])
    parts = [
        dense.search(vector, _OF_PART if part else _OF_WHOLE, where=where)[0]
        for part, vector in enumerate(vectors[: _MOST_PARTS_SORTED + 1])
    ]
    return np.concatenate(parts)


def _highest(scores: NDArray[Any], k: int, above: float = 0.0) -> NDArray[np.intp]:
    """The places of the `k` highest that are above a bound."""
    there = np.flatnonzero(scores > above)
    if len(there) <= k:
        return there
    # Among those above alone: to part a great many equal zeros takes longer than all the rest.
    inside = scores[there]
    return there[np.argpartition(inside, len(inside) - k)[len(inside) - k :]]
