"""What all tools give and take, as arrays: each kind of value once, and where it occurs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from toolyard.insight.dataflow.artifact import Array, offsets_of
from toolyard.insight.dataflow.profile import Kind, Told, Values
from toolyard.insight.dataflow.value_meanings import SORTS


class Side(NamedTuple):
    """What all tools give, or what all tools take."""

    kinds: list[Kind]
    """Each once."""
    shapes: Array
    """For each kind, the number of its type."""
    state: Array
    required: Array
    scoped: Array
    """How far it means something only where it comes from: an id does, a city does not."""
    sorted: Array
    """Whether it means the same to everybody."""
    facets: Array
    """One row for each facet of each kind: the number of the facet, in the order of kinds. Of outputs only those that
    inputs have."""
    facet_kinds: Array
    facet_weights: Array
    tools: Array
    """One row for each value of each tool, in the order of tools: the tool."""
    members: Array
    """The kind."""
    needed: Array
    """Whether the tool cannot be called without it."""
    nested: Array
    by_kind: Array
    """The rows above, kind by kind."""
    kind_offsets: Array
    tool_offsets: Array


class Tables(NamedTuple):
    """Both sides, and the strings they share."""

    outputs: Side
    inputs: Side
    paths: list[str]
    """Of each value, first those of outputs."""
    output_shapes: list[int]
    input_shapes: list[tuple[int, bool]]
    """And whether it is required."""


def tables_of(told: Sequence[Told]) -> Tables:
    """The tables of tools, in their order."""
    taken, given = [one.inputs for one in told], [one.outputs for one in told]
    inputs, input_members = number_distinct(chain.from_iterable(one.kinds for one in taken))
    outputs, output_members = number_distinct(chain.from_iterable(one.kinds for one in given))
    input_shapes, input_shaped = number_distinct((kind.shape, kind.required) for kind in inputs)
    output_shapes, output_shaped = number_distinct(kind.shape for kind in outputs)
    numbers: dict[str, int] = {}
    asked = _number_facets(inputs, numbers, fresh=True)
    met = _number_facets(outputs, numbers, fresh=False)
    return Tables(
        _build_side(given, _Kinds(outputs, output_members, output_shaped), met),
        _build_side(taken, _Kinds(inputs, input_members, input_shaped), asked),
        list(chain.from_iterable(one.paths for one in chain(given, taken))),
        output_shapes,
        input_shapes,
    )


def number_distinct(things: Iterable[Any]) -> tuple[list[Any], Array]:
    """Each of them once, as they come, and for each its number."""
    # Whatever is new gets the next number, without a step of Python for each.
    numbers: defaultdict[Any, int] = defaultdict(count().__next__)
    found = np.fromiter(map(numbers.__getitem__, things), np.int32)
    return list(numbers), found


class _Kinds(NamedTuple):
    kinds: list[Kind]
    members: Array
    shapes: Array


class _Facets(NamedTuple):
    facets: Array
    kinds: Array
    weights: Array
    scoped: Array
    """For each kind."""


def _number_facets(kinds: Sequence[Kind], numbers: dict[str, int], *, fresh: bool) -> _Facets:
    """The facets of kinds by their numbers; those that have none get one if they may, else they are left out."""
    found: list[int] = []
    owners: list[int] = []
    weights: list[float] = []
    scoped: list[float] = []
    for at, kind in enumerate(kinds):
        facets = kind.facets
        scoped.append(facets.scoped)
        for key, weight in zip(facets.keys, facets.weights, strict=True):
            number = numbers.setdefault(key, len(numbers)) if fresh else numbers.get(key)
            if number is not None:
                found.append(number)
                owners.append(at)
                weights.append(weight)
    return _Facets(
        np.array(found, np.int64),
        np.array(owners, np.int32),
        np.array(weights, np.float32),
        np.array(scoped, np.float32),
    )


def _build_side(owners: Sequence[Values], kinds: _Kinds, facets: _Facets) -> Side:
    some, members = kinds.kinds, kinds.members
    counts = np.fromiter([len(one.paths) for one in owners], np.int64, len(owners))
    tools = np.repeat(np.arange(len(owners), dtype=np.int32), counts)
    return Side(
        kinds=some,
        shapes=kinds.shapes,
        state=np.array([kind.state for kind in some], np.bool_),
        required=np.array([kind.required for kind in some], np.bool_),
        scoped=facets.scoped,
        sorted=np.array([kind.attribute in SORTS for kind in some], np.bool_),
        facets=facets.facets,
        facet_kinds=facets.kinds,
        facet_weights=facets.weights,
        tools=tools,
        members=members,
        needed=np.fromiter(chain.from_iterable(one.needed for one in owners), np.bool_, len(members)),
        nested=np.fromiter(chain.from_iterable(one.nested for one in owners), np.float32, len(members)),
        by_kind=np.argsort(members, kind="stable").astype(np.int32),
        kind_offsets=offsets_of(members, len(some)),
        tool_offsets=offsets_of(tools, len(owners)),
    )


def expand_ranges(starts: Array, counts: Array) -> tuple[Array, Array]:
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
