"""How alike the texts of values are, which are turned into vectors only where that could matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.kinds import picked, text_of
from toolyard.insight.dataflow.tables import Side, Tables

Array = npt.NDArray[Any]
Vectors = Callable[[Sequence[str]], Array]
"""Gives one row of length one for each text."""

_NAMED = picked("spoken", "description")
_CHUNK = 128
"""Pairs of texts at a time, so that they fit into the nearest memory."""
_BLOCK = 4_000_000
"""Pairs at a time, so that memory does not grow with the square of the texts."""
_DENSE = 0.04
"""Beyond this share of pairs, comparing all texts at once is quicker than comparing those that met."""


class Texts:
    """The texts of kinds that met. Most never do, and a vector costs more than all else that is done for a value."""

    def __init__(self, tables: Tables, vectors: Vectors) -> None:
        self._sides = tables.outputs, tables.inputs
        self._vectors = vectors
        self._numbers = [np.full(len(side.kinds), -1, np.int32) for side in self._sides]
        """For each kind the number of its text, once that is known."""
        self._known: dict[str, int] = {}
        self._rows: Array | None = None
        """The vector of each that is known, and room for more."""

    def alike(self, outputs: Array, inputs: Array) -> Array:
        """How alike the texts of each pair of kinds are, 0 to 1."""
        rows = self._learn(outputs, inputs)
        if rows is None:
            return np.zeros(0, np.float32)
        return alike(rows, self._numbers[0][outputs], self._numbers[1][inputs])

    def _learn(self, *met: Array) -> Array | None:
        """The vectors of all texts so far; None if there are none."""
        known = self._known
        before = len(known)
        for side, numbers, kinds in zip(self._sides, self._numbers, met, strict=True):
            fresh = np.zeros(len(numbers), np.bool_)
            fresh[kinds] = True
            some = np.flatnonzero(fresh & (numbers < 0))
            numbers[some] = [known.setdefault(text, len(known)) for text in _texts(side, some)]
        if len(known) > before:
            more, rows = self._vectors(list(islice(known, before, None))), self._rows
            if rows is None:
                self._rows = more
            else:
                if len(rows) < len(known):
                    rows = np.resize(rows, (2 * len(known), rows.shape[1]))
                rows[before : len(known)] = more
                self._rows = rows
        return self._rows


def _texts(side: Side, kinds: Array) -> list[str]:
    return [text_of(*_NAMED(side.kinds[kind])) for kind in kinds.tolist()]


def alike(rows: Array, left: Array, right: Array) -> Array:
    """How alike each pair of rows is, 0 to 1."""
    sizes = [int(np.count_nonzero(np.bincount(some))) for some in (left, right)]
    if len(left) > _DENSE * sizes[0] * sizes[1]:
        found = _all(rows, left, right)
    else:
        found = np.empty(len(left), np.float32)
        for start in range(0, len(left), _CHUNK):
            part = slice(start, start + _CHUNK)
            found[part] = np.einsum("ij,ij->i", rows[left[part]], rows[right[part]])
    return np.clip(found, 0.0, 1.0, out=found)


def _all(rows: Array, left: Array, right: Array) -> Array:
    """How alike pairs of rows are, by comparing all of them with all."""
    some, left = np.unique(left, return_inverse=True)
    others, right = np.unique(right, return_inverse=True)
    found = np.empty(len(left), np.float32)
    step = max(1, _BLOCK // max(1, len(others)))
    wanted = rows[others].T
    order = np.argsort(left, kind="stable")
    cuts = np.searchsorted(left[order], np.arange(0, len(some) + step, step))
    for number, start in enumerate(range(0, len(some), step)):
        here = order[cuts[number] : cuts[number + 1]]
        block = rows[some[start : start + step]] @ wanted
        found[here] = block[left[here] - start, right[here]]
    return found
