"""Positions, runs and ranges: lists of different lengths, packed one behind the other into flat arrays."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
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
