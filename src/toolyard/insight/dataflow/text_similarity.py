"""How alike the texts of outputs and parameters are: by vectors, or by their words where there is no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.profile import pick_fields, text_of
from toolyard.insight.dataflow.tables import Side, Tables
from toolyard.insight.dataflow.words import words_in

DIMENSIONS = 384
_COMMON = frozenset(
    """the a an of to for and or in on is are be this that with by from as at it its which you your will can if
    e g i optional required string value""".split()  # noqa: SIM905
)


@lru_cache(maxsize=65536)
def _hash_word(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little") % DIMENSIONS


def token_vectors(texts: Sequence[str]) -> npt.NDArray[Any]:
    """One row a text, of length one: texts that share words are alike. Words of the name count twice."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        name, _, rest = text.partition(":")
        counts: dict[str, float] = {}
        for part, weight in ((name, 2.0), (rest, 1.0)):
            for word in words_in(part[:200]):
                if word not in _COMMON:
                    counts[word] = counts.get(word, 0.0) + weight
        for word, count in counts.items():
            rows[row, _hash_word(word)] += math.sqrt(count)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


Array = npt.NDArray[Any]
Vectors = Callable[[Sequence[str]], Array]
"""Gives one row of length one for each text."""

_NAMED = pick_fields("spoken", "description")
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
        rows = self._embed_texts(outputs, inputs)
        if rows is None:
            return np.zeros(0, np.float32)
        return compare_rows(rows, self._numbers[0][outputs], self._numbers[1][inputs])

    def _embed_texts(self, *met: Array) -> Array | None:
        """The vectors of all texts so far; None if there are none."""
        known = self._known
        before = len(known)
        for side, numbers, kinds in zip(self._sides, self._numbers, met, strict=True):
            fresh = np.zeros(len(numbers), np.bool_)
            fresh[kinds] = True
            some = np.flatnonzero(fresh & (numbers < 0))
            numbers[some] = [known.setdefault(text, len(known)) for text in _list_texts(side, some)]
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


def _list_texts(side: Side, kinds: Array) -> list[str]:
    return [text_of(*_NAMED(side.kinds[kind])) for kind in kinds.tolist()]


def compare_rows(rows: Array, left: Array, right: Array) -> Array:
    """How alike each pair of rows is, 0 to 1."""
    sizes = [int(np.count_nonzero(np.bincount(some))) for some in (left, right)]
    if len(left) > _DENSE * sizes[0] * sizes[1]:
        found = _compare_all(rows, left, right)
    else:
        found = np.empty(len(left), np.float32)
        for start in range(0, len(left), _CHUNK):
            part = slice(start, start + _CHUNK)
            found[part] = np.einsum("ij,ij->i", rows[left[part]], rows[right[part]])
    return np.clip(found, 0.0, 1.0, out=found)


def _compare_all(rows: Array, left: Array, right: Array) -> Array:
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
