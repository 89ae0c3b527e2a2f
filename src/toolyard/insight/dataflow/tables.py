"""The values of a set of tools, each kind of value once, as arrays.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required text, is one. What is compared is
kinds; what is counted is where they occur.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.artifact import offsets_of
from toolyard.insight.dataflow.profile import Profile, Told

Array = npt.NDArray[Any]


class Side(NamedTuple):
    """What all tools give, or what all tools take."""

    kinds: list[Profile]
    """One of each kind."""
    texts: Array
    """For each kind, the number of its text."""
    shapes: Array
    """For each kind, the number of its type."""
    state: Array
    required: Array
    scoped: Array
    """Whether it means something only where it comes from: an id, but not a city."""
    facets: Array
    """One row for each facet of each kind: the number of the facet, in the order of kinds."""
    facet_kinds: Array
    facet_weights: Array
    tools: Array
    """One row for each value of each tool, in the order of tools: the tool."""
    members: Array
    """The kind."""
    paths: Array
    """The number of its path."""
    needed: Array
    """Whether the tool cannot be called without it."""
    by_kind: Array
    """The rows above, kind by kind."""
    kind_offsets: Array
    tool_offsets: Array


class Tables(NamedTuple):
    """Both sides, and the strings they share."""

    outputs: Side
    inputs: Side
    texts: list[str]
    paths: list[str]
    output_shapes: list[tuple[int, int, int]]
    input_shapes: list[tuple[int, int, int, bool]]
    facet_count: int


class _Numbers(dict[Any, int]):
    """Things, numbered as they come."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


def tables_of(told: Sequence[Told]) -> Tables:
    """The tables of tools, in their order."""
    texts, paths, facets = _Numbers(), _Numbers(), _Numbers()
    output_shapes, input_shapes = _Numbers(), _Numbers()
    outputs = _side([one.outputs for one in told], texts, paths, facets, lambda profile: output_shapes[profile.shape])
    inputs = _side(
        [one.inputs for one in told],
        texts,
        paths,
        facets,
        lambda profile: input_shapes[(*profile.shape, profile.required)],
    )
    return Tables(outputs, inputs, list(texts), list(paths), list(output_shapes), list(input_shapes), len(facets))


def _side(
    owners: Sequence[Sequence[Profile]],
    texts: _Numbers,
    paths: _Numbers,
    facets: _Numbers,
    shape: Callable[[Profile], int],
) -> Side:
    kinds: dict[Any, int] = {}
    profiles: list[Profile] = []
    rows: list[tuple[int, int, int, bool]] = []
    for place, owned in enumerate(owners):
        for profile in owned:
            kind = kinds.get(profile.kind)
            if kind is None:
                kind = kinds[profile.kind] = len(profiles)
                profiles.append(profile)
            rows.append((place, kind, paths[profile.path], profile.needed))
    table = np.array(rows, np.int32).reshape(-1, 4)
    members = np.ascontiguousarray(table[:, 1])
    sets = {one.facets.number: one.facets for one in profiles}
    known = {number: [facets[key] for key in one.keys] for number, one in sets.items()}
    numbers: list[int] = []
    strengths: list[float] = []
    for one in profiles:
        numbers += known[one.facets.number]
        strengths += one.facets.weights
    counts = [len(one.facets.keys) for one in profiles]
    return Side(
        kinds=profiles,
        texts=np.array([texts[one.text] for one in profiles], np.int32),
        shapes=np.array([shape(one) for one in profiles], np.int32),
        state=np.array([one.state for one in profiles], np.bool_),
        required=np.array([one.required for one in profiles], np.bool_),
        scoped=np.array([one.facets.scoped for one in profiles], np.bool_),
        facets=np.array(numbers, np.int32),
        facet_kinds=np.repeat(np.arange(len(profiles), dtype=np.int32), counts),
        facet_weights=np.array(strengths, np.float32),
        tools=np.ascontiguousarray(table[:, 0]),
        members=members,
        paths=np.ascontiguousarray(table[:, 2]),
        needed=table[:, 3].astype(np.bool_),
        by_kind=np.argsort(members, kind="stable").astype(np.int32),
        kind_offsets=offsets_of(members, len(profiles)),
        tool_offsets=offsets_of(table[:, 0], len(owners)),
    )


def expand(starts: Array, counts: Array) -> tuple[Array, Array]:
    """Ranges laid end to end: for each element the number of its range, and its position."""
    total = int(counts.sum())
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    ends = np.cumsum(counts)
    positions = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return owners, positions


def first_of(sorted_keys: Array) -> Array:
    """Where each run of equal keys begins."""
    changes: Array = sorted_keys[1:] != sorted_keys[:-1]
    return np.flatnonzero(np.concatenate((np.ones(min(1, len(sorted_keys)), np.bool_), changes)))


def rank_in_runs(sorted_keys: Array) -> Array:
    """The position of each row within its run of equal keys."""
    begins = first_of(sorted_keys)
    lengths = np.diff(np.append(begins, len(sorted_keys)))
    ranks: Array = np.arange(len(sorted_keys)) - np.repeat(begins, lengths)
    return ranks
