"""`Cells`: vectors sorted by the centre that is nearest to them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.embedders.base import Matrix, unit

RECALL = 0.98
"""Part of the true neighbours that must be found in the sample on which the number of cells is chosen."""
NEIGHBOURS = 5
LEAST = 0.1
"""Part of the cells that is always looked at: questions are further from all descriptions than a sample shows."""
MOST = 0.3
"""Part of the cells beyond which to look at them is hardly quicker than to look at all vectors."""
_SAMPLE = 128
_ROUNDS = 8
_FOR_EACH = 40
"""Vectors for each centre, from which centres are found."""
_BLOCK = 8192
_BLUR = 1.0
"""How far sample queries are from the vectors they are made of: what people ask for is no copy of a description."""

Places = NDArray[np.intp]


class Cells:
    """Never changed after it is made; `grown` makes another."""

    def __init__(self, centres: Matrix, cell_of: NDArray[np.int32], vectors: Matrix, trained: int) -> None:
        self.count = len(vectors)
        self.trained = trained
        """How many vectors there were when the centres were found."""
        self.probes: int | None = None
        """How many cells are looked at; None if it must be all vectors."""
        self._centres = centres
        self._cell_of = cell_of
        self._order: Places = np.argsort(cell_of, kind="stable").astype(np.intp)
        self._starts = np.searchsorted(cell_of[self._order], np.arange(len(centres) + 1))
        # Sorted, the vectors of a cell are one block of memory.
        self._sorted = vectors[self._order]

    @classmethod
    def of(cls, vectors: Matrix) -> Cells:
        """Find centres, sort the vectors around them, and measure how many cells must be looked at."""
        centres = _centres(vectors)
        cells = cls(centres, _nearest(vectors, centres), vectors, len(vectors))
        cells.probes = cells._measured()
        return cells

    def grown(self, vectors: Matrix) -> Cells:
        """The same centres with more vectors around them."""
        fresh = _nearest(vectors[self.count :], self._centres)
        cells = Cells(self._centres, np.concatenate([self._cell_of, fresh]), vectors, self.trained)
        cells.probes = self.probes
        return cells

    @property
    def share(self) -> float:
        """The part of the cells that is looked at."""
        return 1.0 if self.probes is None else self.probes / len(self._centres)

    def near(self, query: Matrix) -> tuple[Places, NDArray[np.float32]]:
        """Places and cosines of the vectors in the cells nearest to the query; in no order."""
        if self.probes is None:
            return self._order, self._sorted @ query
        chosen = np.argpartition(self._centres @ query, -self.probes)[-self.probes :]
        blocks = [slice(self._starts[cell], self._starts[cell + 1]) for cell in np.sort(chosen)]
        scores = np.concatenate([self._sorted[block] @ query for block in blocks])
        return np.concatenate([self._order[block] for block in blocks]), scores

    def _measured(self) -> int | None:
        """The least number of cells that finds the neighbours of sample queries; None if that takes too many."""
        queries, own = self._queries()
        exact = queries @ self._sorted.T
        exact[np.arange(len(queries)), own] = -np.inf
        best = np.argpartition(exact, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:]
        cells = self._cell_of[self._order][best]
        ranks = np.argsort(np.argsort(-(queries @ self._centres.T), axis=1), axis=1)
        needed = np.sort(np.take_along_axis(ranks, cells, axis=1), axis=None)
        probes = int(needed[math.ceil(RECALL * len(needed)) - 1]) + 1
        least = math.ceil(LEAST * len(self._centres))
        return max(probes, least) if probes <= MOST * len(self._centres) else None

    def _queries(self) -> tuple[Matrix, Places]:
        random = np.random.default_rng(1)
        own = np.sort(random.choice(self.count, min(_SAMPLE, self.count), replace=False))
        noise = unit(random.standard_normal((len(own), self._sorted.shape[1]), np.float32))
        return unit(self._sorted[own] + _BLUR * noise), own


def _centres(vectors: Matrix) -> Matrix:
    """Centres by k-means on a sample; the same for the same vectors."""
    random = np.random.default_rng(0)
    count = max(1, round(2 * math.sqrt(len(vectors))))
    size = min(len(vectors), count * _FOR_EACH)
    sample = vectors[np.sort(random.choice(len(vectors), size, replace=False))]
    centres = sample[np.sort(random.choice(size, count, replace=False))]
    for _ in range(_ROUNDS):
        cell_of = _nearest(sample, centres)
        order = np.argsort(cell_of, kind="stable")
        used, starts = np.unique(cell_of[order], return_index=True)
        centres = centres.copy()
        centres[used] = np.add.reduceat(sample[order], starts, axis=0)
        centres = unit(centres)
    return centres


def _nearest(vectors: Matrix, centres: Matrix) -> NDArray[np.int32]:
    parts = [np.argmax(block @ centres.T, axis=1).astype(np.int32) for block in _blocks(vectors)]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _blocks(vectors: Matrix) -> Iterator[Matrix]:
    for start in range(0, len(vectors), _BLOCK):
        yield vectors[start : start + _BLOCK]
