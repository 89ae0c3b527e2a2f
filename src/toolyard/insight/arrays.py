"""Positions, runs and ranges of lists that are packed into flat arrays; lengths, products and cosines of vectors."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float32]
"""One vector a row."""
T = TypeVar("T")


def compute_offsets(owners: Array, count: int) -> Array:
    """The offset of each owner's rows, for rows ordered by owner."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
    return offsets


def number_distinct(things: Iterable[Any]) -> tuple[list[Any], Array]:
    """Return the distinct things in order of appearance, and the number of each given thing."""
    # New keys get the next number; this avoids a Python loop.
    numbers: defaultdict[Any, int] = defaultdict(itertools.count().__next__)
    found = np.fromiter(map(numbers.__getitem__, things), np.int32)
    return list(numbers), found


def group_positions(values: Iterable[T]) -> dict[T, tuple[int, ...]]:
    """The positions of each distinct value."""
    groups: dict[T, list[int]] = {}
    for position, value in enumerate(values):
        groups.setdefault(value, []).append(position)
    return {value: tuple(positions) for value, positions in groups.items()}


def expand_ranges(starts: Array, counts: Array) -> tuple[Array, Array]:
    """Concatenate ranges: for each element, return the number of its range and its position."""
    total = int(counts.sum())
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    ends = np.cumsum(counts)
    positions = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return owners, positions


def find_run_starts(sorted_keys: Array) -> Array:
    """The index at which each run of equal keys starts."""
    changes: Array = sorted_keys[1:] != sorted_keys[:-1]
    return np.flatnonzero(np.concatenate((np.ones(min(1, len(sorted_keys)), np.bool_), changes)))


def rank_in_runs(sorted_keys: Array) -> Array:
    """The position of each row within its run of equal keys."""
    begins = find_run_starts(sorted_keys)
    lengths = np.diff(np.append(begins, len(sorted_keys)))
    ranks: Array = np.arange(len(sorted_keys)) - np.repeat(begins, lengths)
    return ranks


def split_blocks(sizes: Array, most: int) -> Iterator[tuple[int, int]]:
    """Split into consecutive blocks whose sizes sum to at most `most`; a larger item gets a block to itself."""
    total = np.concatenate(([0], np.cumsum(sizes)))
    start = 0
    while start < len(sizes):
        end = max(int(np.searchsorted(total, total[start] + most, side="right")) - 1, start + 1)
        yield start, end
        start = end


def normalise_rows(rows: Matrix) -> Matrix:
    """Scale each row to length one; rows of zeros are kept."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


_PIECE = 9000
"""Size of a matrix that the BLAS library multiplies in a single thread."""


def multiply_rows(some: Matrix, many: Matrix) -> Matrix:
    """Compute `some @ many.T` in this thread alone.

    For large matrices the library uses all cores and waits for each of them: faster on an idle machine, and twenty
    times slower on a server whose cores are busy.
    """
    size = many.shape[1]
    # A power of two: libraries process rows in groups of four or eight and round the remainder differently.
    step = 1 << (_PIECE // size or 1).bit_length() - 1
    pieces = len(many) // step
    whole = pieces * step
    first = many[:whole].reshape(pieces, step, size) @ some.T
    return np.concatenate([first.reshape(whole, len(some)), many[whole:] @ some.T]).T


LEVELS = 4000
"""Vectors are scaled to this length and rounded to integers.

Sums of their products stay below 2**24, where float32 is exact, so the similarity of two tools is the same on every
machine and in every order of addition.
"""


def round_rows(vectors: npt.NDArray[Any]) -> Floats:
    """Scale rows to length `LEVELS` and round them to integers."""
    rows = np.asarray(vectors, np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.rint(rows / np.where(lengths > 0, lengths, 1.0) * LEVELS).astype(np.float32)


def row_lengths(rows: Floats) -> Floats:
    """The lengths of integer rows; 1 for a row of zeros, so that it can be divided by."""
    lengths: Floats = np.sqrt((rows * rows).sum(axis=1))
    return np.maximum(lengths, np.float32(1))


def compute_cosines(rows: Floats, lengths: Floats, place: int) -> Floats:
    """The cosine of every row with the one at `place`; negative values become 0."""
    found: Floats = np.maximum(rows @ rows[place] / (lengths * lengths[place]), np.float32(0))
    return found


def find_highest(row: npt.NDArray[Any], some: int) -> npt.NDArray[np.intp]:
    """Indexes of the `some` highest values, unordered; among equal values the first ones."""
    if some >= len(row):
        return np.arange(len(row))
    edge = np.partition(row, len(row) - some)[len(row) - some]
    above = np.flatnonzero(row > edge)
    return np.concatenate([above, np.flatnonzero(row == edge)[: some - len(above)]])
