"""The values of a set of tools, each kind of value once, as arrays.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required text, is one. What is compared is
kinds; what is counted is where they occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.artifact import offsets_of
from toolyard.insight.dataflow.facets import Claim, claim, members_of, parts_of, shares_of
from toolyard.insight.dataflow.profile import Profile, Told
from toolyard.insight.dataflow.vocabulary import SCOPED

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
    """One row for each facet of each kind: the number of the facet, in the order of kinds. The same facet may be there
    twice, and the greater weight counts."""
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


def tables_of(told: Sequence[Told]) -> Tables:
    """The tables of tools, in their order."""
    given, taken = [one.outputs for one in told], [one.inputs for one in told]
    outputs, inputs = list(chain.from_iterable(given)), list(chain.from_iterable(taken))
    paths, path_numbers = _numbered([one.path for one in chain(outputs, inputs)])
    output_kinds, output_members = _kinds(outputs)
    input_kinds, input_members = _kinds(inputs)
    texts, text_numbers = _numbered([one.text for one in chain(output_kinds, input_kinds)])
    output_shapes, output_shaped = _numbered([one.shape for one in output_kinds])
    input_shapes, input_shaped = _numbered([(*one.shape, one.required) for one in input_kinds])
    rows = _facets(output_kinds + input_kinds)
    half = len(output_kinds)
    cut = int(np.searchsorted(rows.kinds, half))
    rows.kinds[cut:] -= half
    return Tables(
        _side(
            given,
            outputs,
            _Kinds(output_kinds, output_members, text_numbers[:half], output_shaped),
            path_numbers[: len(outputs)],
            _Facets(*(column[:cut] for column in rows)),
        ),
        _side(
            taken,
            inputs,
            _Kinds(input_kinds, input_members, text_numbers[half:], input_shaped),
            path_numbers[len(outputs) :],
            _Facets(*(column[cut:] for column in rows)),
        ),
        texts,
        paths,
        output_shapes,
        input_shapes,
    )


def _numbered(things: Sequence[Any]) -> tuple[list[Any], Array]:
    """Each of them once, as they come, and for each its number."""
    numbers: dict[Any, int] = {}
    found = [numbers.setdefault(thing, len(numbers)) for thing in things]
    return list(numbers), np.array(found, np.int32)


class _Kinds(NamedTuple):
    kinds: list[Profile]
    members: Array
    texts: Array
    shapes: Array


class _Facets(NamedTuple):
    facets: Array
    kinds: Array
    weights: Array


def _kinds(profiles: Sequence[Profile]) -> tuple[list[Profile], Array]:
    """One of each kind, and for each value its kind."""
    # As `kind` does: a property costs more than what it gives.
    members = _numbered([profile[2:] for profile in profiles])[1]
    firsts = np.flatnonzero(np.diff(np.maximum.accumulate(members), prepend=-1))
    return [profiles[first] for first in firsts.tolist()], members


def _side(
    owners: Sequence[Sequence[Profile]], profiles: Sequence[Profile], kinds: _Kinds, paths: Array, facets: _Facets
) -> Side:
    some, members = kinds.kinds, kinds.members
    counts = np.array(list(map(len, owners)), np.int64)
    tools = np.repeat(np.arange(len(owners), dtype=np.int32), counts)
    return Side(
        kinds=some,
        texts=kinds.texts,
        shapes=kinds.shapes,
        state=np.array([one.state for one in some], np.bool_),
        required=np.array([one.required for one in some], np.bool_),
        scoped=np.array([one.attribute in SCOPED for one in some], np.bool_),
        facets=facets.facets,
        facet_kinds=facets.kinds,
        facet_weights=facets.weights,
        tools=tools,
        members=members,
        paths=paths,
        needed=np.array([one.needed for one in profiles], np.bool_),
        by_kind=np.argsort(members, kind="stable").astype(np.int32),
        kind_offsets=offsets_of(members, len(some)),
        tool_offsets=offsets_of(tools, len(owners)),
    )


def _facets(profiles: Sequence[Profile]) -> _Facets:
    """What `facets.counted_out` does, for all values at once and in the same order of multiplication."""
    made: list[Claim] = []
    ends = []
    for profile in profiles:
        claim(made, *profile[-5:])
        ends.append(len(made))
    counts: Array = np.diff(np.array(ends, np.int64), prepend=0)
    kinds = np.repeat(np.arange(len(profiles), dtype=np.int32), counts)
    said: Sequence[Any] = list(zip(*made, strict=True)) or ((), (), ())
    names, about = _numbered(said[0])
    owners, whose = _numbered(said[1])
    weights = np.array(said[2], np.float64)

    members = [members_of(name) for name in names]
    claims, at = _each(members, about)
    said = list(zip(*chain.from_iterable(members), strict=True)) or ((), (), ())
    attributes = _numbered(said[0])[1].astype(np.int64)[at]
    weights, rests = weights[claims] * np.array(said[1], np.float64)[at], np.array(said[2], np.float64)[at]
    kinds, whose = kinds[claims], whose[claims]

    parts = [parts_of(owner) for owner in owners]
    claims, at = _each(parts, whose)
    phrases = _numbered(list(chain.from_iterable(parts)))[1][at]
    shares = np.array(list(chain.from_iterable(map(shares_of, owners))), np.float64)[at]
    weights = weights[claims] * shares * rests[claims]
    # There are fewer phrases than 2 ** 32.
    return _Facets(attributes[claims] << 32 | phrases, kinds[claims], weights.astype(np.float32))


def _each(rows: Sequence[Sequence[Any]], wanted: Array) -> tuple[Array, Array]:
    """The entries of the wanted rows: of which it is, and where it is with all rows end to end."""
    counts = np.array(list(map(len, rows)), np.int64)
    return expand((np.cumsum(counts) - counts)[wanted], counts[wanted])


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
