"""The neighbors of tools, row by row of the matrix of their likeness, which is never held whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolyard.insight.progress import track_progress
from toolyard.insight.samplers.similarity import find_highest, lengths_of

Array = npt.NDArray[Any]
AT_ONCE = 8_000_000
"""Likenesses that are held in memory at a time."""
_ITSELF = -2.0
"""Below every likeness."""


class NeighborRows(NamedTuple):
    """For each tool a list: that of tool `i` is at `offsets[i]:offsets[i + 1]`, best first."""

    offsets: Array
    places: Array
    scores: Array


class ToolNeighbors(NamedTuple):
    """What is known of one tool."""

    near: list[tuple[int, float]]
    same: list[tuple[int, float]]
    doors: tuple[float, float]
    """The likeness above which another tool would come into consideration: any tool, and one of its namespace."""


class NeighborLimits(NamedTuple):
    """How many are looked at and kept, and from where on two are nearly the same."""

    candidates: int
    neighbors: int
    duplicate: float


class NeighborSearch:
    """All tools, ready to be compared. Vectors are rows of whole numbers, so that their products are exact."""

    def __init__(
        self, vectors: Array, spaces: Array, limits: NeighborLimits, pair: tuple[Array, Array] | None = None
    ) -> None:
        self._vectors = vectors
        self._lengths = lengths_of(vectors)
        self._spaces = spaces
        self._own: dict[int, Array] = {}
        self._limits = limits
        self._pair = pair
        self._pair_lengths = None if pair is None else (lengths_of(pair[0]), lengths_of(pair[1]))

    def alike(self, places: Array, among: slice = slice(None)) -> Array:
        """The likeness of some tools, one row each, to the others."""
        products = self._vectors[places] @ self._vectors[among].T
        found: Array = products / (self._lengths[places, None] * self._lengths[among])
        return found

    def rows(self, places: Array) -> Iterator[ToolNeighbors]:
        """What is found for some tools, in order."""
        block = max(1, AT_ONCE // max(1, len(self._spaces)))
        starts = range(0, len(places), block)
        for start in track_progress(starts, "finding neighbors", total=len(starts)):
            some = places[start : start + block]
            alike = self.alike(some)
            alike[np.arange(len(some)), some] = _ITSELF
            for place, row in zip(some.tolist(), alike, strict=True):
                yield self._find_row(place, row)

    def touched(self, first_new: int, doors: Array) -> Array:
        """The older tools that one of the tools from `first_new` on comes into consideration for."""
        new = np.arange(first_new, len(self._spaces))
        alike = self.alike(new, slice(0, first_new))
        own = self._spaces[new][:, None] == self._spaces[:first_new]
        enters = (alike > doors[:, 0]) | (own & (alike > doors[:, 1]))
        return np.flatnonzero(enters.any(axis=0))

    def _find_row(self, place: int, row: Array) -> ToolNeighbors:
        some = self._limits.candidates
        own = self._own_places(int(self._spaces[place]))
        anyone, kin = find_highest(row, some), own[find_highest(row[own], some)]
        doors = (_find_door(row[anyone], some), _find_door(row[kin], some))
        chosen = np.union1d(anyone, kin)
        chosen = chosen[row[chosen] > _ITSELF]
        scores = row[chosen]
        twins = scores >= np.float32(self._limits.duplicate)
        same = _sort_scored(chosen[twins], scores[twins])
        chosen, scores = chosen[~twins], scores[~twins]
        if self._pair is not None and self._pair_lengths is not None:
            lengths = self._pair_lengths[1][chosen] * self._pair_lengths[0][place]
            scores = self._pair[1][chosen] @ self._pair[0][place] / lengths
        return ToolNeighbors(self._trim_row(_sort_scored(chosen, scores)), same, doors)

    def _own_places(self, space: int) -> Array:
        own = self._own.get(space)
        if own is None:
            own = self._own[space] = np.flatnonzero(self._spaces == space)
        return own

    def _trim_row(self, row: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """At most so many of each namespace."""
        counts: dict[int, int] = {}
        kept = []
        for place, score in row:
            space = int(self._spaces[place])
            counts[space] = counts.get(space, 0) + 1
            if counts[space] <= self._limits.neighbors:
                kept.append((place, score))
        return kept


def _find_door(scores: Array, some: int) -> float:
    # Itself, or a place that nobody has taken: everyone may come in.
    return float(scores.min()) if len(scores) >= some else _ITSELF


def _sort_scored(places: Array, scores: Array) -> list[tuple[int, float]]:
    order = np.lexsort((places, -scores))
    return list(zip(places[order].tolist(), scores[order].tolist(), strict=True))


def pack_rows(rows: Sequence[Sequence[tuple[int, float]]]) -> NeighborRows:
    """Lists as arrays."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return NeighborRows(
        offsets,
        np.array([place for row in rows for place, _ in row], np.int32),
        np.array([score for row in rows for _, score in row], np.float32),
    )


def row_of(rows: NeighborRows, place: int) -> list[tuple[int, float]]:
    """The list of one tool."""
    start, end = rows.offsets[place : place + 2].tolist()
    return list(zip(rows.places[start:end].tolist(), rows.scores[start:end].tolist(), strict=True))
