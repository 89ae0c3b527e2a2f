"""`DenseIndex`: the vectors nearest to one, without looking at all of them where there are many.

A few vectors are compared one and all: one product of a matrix and a vector. Many are sorted into cells around centres
(k-means), and only the cells nearest to the query are looked at; how many, is measured when the cells are made, so that
the true neighbours are found. Where cells do not help, as with vectors without any structure, all are compared.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.dense_cells import Cells
from toolyard.insight.embedders.base import Matrix

EXACT_BELOW = 20_000
"""Vectors that are compared one and all."""
_TAIL = 0.1
"""Part of the vectors that may stay outside of the cells before they are sorted in."""
_REGROWN = 2.0
"""Growth after which the centres are found anew."""

Places = NDArray[np.intp]


class _State(msgspec.Struct, frozen=True):
    """All that a search reads, swapped as one."""

    vectors: Matrix
    gone: NDArray[np.bool_] | None = None
    cells: Cells | None = None


class DenseIndex:
    """Vectors of length one by place, in the order they were added. Any number of threads may use it.

    With `exact_below` more vectors than that are sorted into cells.
    """

    def __init__(self, vectors: Matrix | None = None, *, exact_below: int = EXACT_BELOW) -> None:
        self._lock = threading.Lock()
        self._exact_below = exact_below
        self._room: Matrix = np.empty((0, 0), np.float32) if vectors is None else vectors
        # The vectors as they are, which may be a file mapped into memory.
        self._state = _State(self._room, None, self._sorted(self._room, None))

    def __len__(self) -> int:
        """How many were added, removed ones included: a place is never given twice."""
        return len(self._state.vectors)

    @property
    def vectors(self) -> Matrix:
        """All vectors, by place."""
        return self._state.vectors

    @property
    def is_exact(self) -> bool:
        """True if all vectors are compared with a query, whatever it is."""
        return self._state.cells is None

    @property
    def looked_at(self) -> float:
        """The part of the vectors that a query is compared with, about."""
        cells = self._state.cells
        return 1.0 if cells is None else cells.share

    def add(self, vectors: Matrix) -> range:
        """Take in more vectors; their places."""
        with self._lock:
            state = self._state
            start, count = len(state.vectors), len(state.vectors) + len(vectors)
            if count > len(self._room):
                # Room for half as many again, so that a thousand additions are not a thousand copies.
                room = np.empty((max(count, start + start // 2, 64), vectors.shape[1]), np.float32)
                if start:
                    room[:start] = state.vectors
                self._room = room
            self._room[start:count] = vectors
            grown = self._room[:count]
            gone = None if state.gone is None else np.concatenate([state.gone, np.zeros(len(vectors), np.bool_)])
            self._state = _State(grown, gone, self._sorted(grown, state.cells))
            return range(start, count)

    def remove(self, places: Iterable[int]) -> None:
        """Find these no more."""
        with self._lock:
            state = self._state
            gone = np.zeros(len(state.vectors), np.bool_) if state.gone is None else state.gone.copy()
            gone[list(places)] = True
            self._state = msgspec.structs.replace(state, gone=gone)

    def search(
        self, query: Matrix, k: int, *, where: NDArray[np.bool_] | None = None
    ) -> tuple[Places, NDArray[np.float32]]:
        """The places nearest to the query and their cosines, best first; fewer than `k` if there are no more.

        `where` says for every place whether it may be found.
        """
        state = self._state
        vectors, cells = state.vectors, state.cells
        if state.gone is not None:
            where = ~state.gone if where is None else where & ~state.gone
        if where is not None and (cells is None or np.count_nonzero(where) < self._exact_below):
            places = np.flatnonzero(where)
            # To pick out rows costs more than to compare them, unless they are few.
            scores = vectors[places] @ query if len(places) * 4 < len(vectors) else (vectors @ query)[places]
            return _best(places, scores, k)
        if cells is None:
            return _best(None, vectors @ query if len(vectors) else np.empty(0, np.float32), k)
        places, scores = cells.near(query)
        if len(vectors) > cells.count:
            places = np.concatenate([places, np.arange(cells.count, len(vectors))])
            scores = np.concatenate([scores, vectors[cells.count :] @ query])
        if where is not None:
            allowed = where[places]
            places, scores = places[allowed], scores[allowed]
        return _best(places, scores, k)

    def search_many(self, queries: Matrix | Sequence[Matrix], k: int) -> list[tuple[Places, NDArray[np.float32]]]:
        """`search` for each of several queries."""
        return [self.search(query, k) for query in queries]

    def _sorted(self, vectors: Matrix, cells: Cells | None) -> Cells | None:
        if len(vectors) <= self._exact_below:
            return None
        if cells is None or len(vectors) > cells.trained * _REGROWN:
            return Cells.of(vectors)
        return cells.grown(vectors) if len(vectors) - cells.count > len(vectors) * _TAIL else cells


def _best(places: Places | None, scores: NDArray[np.float32], k: int) -> tuple[Places, NDArray[np.float32]]:
    """The `k` highest, best first, and of equal ones the first."""
    if k < 1 or not len(scores):
        return np.empty(0, np.intp), np.empty(0, np.float32)
    if k < len(scores):
        # One more than needed would not do: of many equal ones at the edge the first must be taken.
        edge = np.partition(scores, len(scores) - k)[len(scores) - k]
        chosen = np.flatnonzero(scores >= edge)
    else:
        chosen = np.arange(len(scores))
    order = chosen if places is None else places[chosen]
    ranked = chosen[np.lexsort((order, -scores[chosen]))][:k]
    return (ranked if places is None else places[ranked]), scores[ranked]
