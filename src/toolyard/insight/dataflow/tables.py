"""The values of a set of tools, each kind of value once, as arrays.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required text, is one. What is compared is
kinds; what is counted is where they occur.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.artifact import offsets_of
from toolyard.insight.dataflow.facets import HANDLE, Claim, Phrase, claim, members_of, parts_of, shares_of
from toolyard.insight.dataflow.kinds import KindRow, Told, Values, picked
from toolyard.insight.dataflow.vocabulary import SCOPED

Array = npt.NDArray[Any]

_SHAPE, _STATE, _REQUIRED, _ATTRIBUTE = map(picked, ("shape", "state", "required", "attribute"))
_SHAPE_AND_NEED = picked("shape", "required")
_SAID = picked("attribute", "own", "generic", "owners", "role")


class Side(NamedTuple):
    """What all tools give, or what all tools take."""

    kinds: list[KindRow]
    """Each once."""
    shapes: Array
    """For each kind, the number of its type."""
    state: Array
    required: Array
    scoped: Array
    """Whether it means something only where it comes from: an id, but not a city."""
    facets: Array
    """One row for each facet of each kind: the number of the facet, in the order of kinds. The same facet may be there
    twice, and the greater weight counts. Of outputs, those that no input has may be missing."""
    facet_kinds: Array
    facet_weights: Array
    tools: Array
    """One row for each value of each tool, in the order of tools: the tool."""
    members: Array
    """The kind."""
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
    paths: list[str]
    """Of each value, first those of outputs."""
    output_shapes: list[tuple[int, int, int]]
    input_shapes: list[tuple[int, int, int, bool]]


def tables_of(told: Sequence[Told]) -> Tables:
    """The tables of tools, in their order."""
    given, taken = [one.outputs for one in told], [one.inputs for one in told]
    outputs, output_members = _kinds(given)
    inputs, input_members = _kinds(taken)
    output_shapes, output_shaped = numbered(map(_SHAPE, outputs))
    input_shapes, input_shaped = numbered((*shape, required) for shape, required in map(_SHAPE_AND_NEED, inputs))
    rows = _facets(outputs, inputs)
    half = len(outputs)
    cut = int(np.searchsorted(rows.kinds, half))
    rows.kinds[cut:] -= half
    return Tables(
        _side(
            given,
            _Kinds(outputs, output_members, output_shaped),
            _Facets(*(column[:cut] for column in rows)),
        ),
        _side(
            taken,
            _Kinds(inputs, input_members, input_shaped),
            _Facets(*(column[cut:] for column in rows)),
        ),
        list(chain.from_iterable(one.paths for one in chain(given, taken))),
        output_shapes,
        input_shapes,
    )


def numbered(things: Iterable[Any]) -> tuple[list[Any], Array]:
    """Each of them once, as they come, and for each its number."""
    # Whatever is new gets the next number, without a step of Python for each.
    numbers: defaultdict[Any, int] = defaultdict(count().__next__)
    found = np.fromiter(map(numbers.__getitem__, things), np.int32)
    return list(numbers), found


class _Kinds(NamedTuple):
    kinds: list[KindRow]
    members: Array
    shapes: Array


class _Facets(NamedTuple):
    facets: Array
    kinds: Array
    weights: Array


def _kinds(owners: Sequence[Values]) -> tuple[list[KindRow], Array]:
    """Each kind once, and for each value its kind."""
    return numbered(chain.from_iterable(one.kinds for one in owners))


def _side(owners: Sequence[Values], kinds: _Kinds, facets: _Facets) -> Side:
    some, members = kinds.kinds, kinds.members
    counts = np.array([len(one.paths) for one in owners], np.int64)
    tools = np.repeat(np.arange(len(owners), dtype=np.int32), counts)
    return Side(
        kinds=some,
        shapes=kinds.shapes,
        state=np.fromiter(map(_STATE, some), np.bool_, len(some)),
        required=np.fromiter(map(_REQUIRED, some), np.bool_, len(some)),
        scoped=np.fromiter(map(SCOPED.__contains__, map(_ATTRIBUTE, some)), np.bool_, len(some)),
        facets=facets.facets,
        facet_kinds=facets.kinds,
        facet_weights=facets.weights,
        tools=tools,
        members=members,
        needed=np.array(list(chain.from_iterable(one.needed for one in owners)), np.bool_),
        by_kind=np.argsort(members, kind="stable").astype(np.int32),
        kind_offsets=offsets_of(members, len(some)),
        tool_offsets=offsets_of(tools, len(owners)),
    )


class _Asked(NamedTuple):
    """What inputs ask for, so that outputs need not be counted out that nobody asks for."""

    attributes: set[str]
    phrases: set[str]
    """How owners end, and how they are written in one word: equal parts of two owners have one of these in common."""

    def may_have(self, owner: Phrase) -> bool:
        """Whether somebody may ask for what is the owner's."""
        return not owner or owner[-1] in self.phrases or "".join(owner) in self.phrases


def _claims(kinds: Sequence[KindRow], asked: _Asked | None = None) -> tuple[list[Claim], list[int]]:
    """What each kind says to be, as far as it is asked for, and how many there are up to each kind."""
    made: list[Claim] = []
    ends = []
    for attribute, own, generic, owners, role in map(_SAID, kinds):
        if (
            asked is None
            or attribute in asked.attributes
            or (not generic and role & HANDLE and asked.may_have((*own, attribute)))
        ):
            claim(made, attribute, own, generic, owners, role)
        ends.append(len(made))
    return made, ends


def _facets(outputs: Sequence[KindRow], inputs: Sequence[KindRow]) -> _Facets:
    """What `facets.counted_out` does, for all kinds at once and in the same order of multiplication.

    Of outputs, only what some input may ask for.
    """
    taken, taken_ends = _claims(inputs)
    owned = {owner for _, owner, _ in taken}
    asked = _Asked(
        {attribute for name in {name for name, _, _ in taken} for attribute, _, _ in members_of(name)},
        {ending for owner in owned if owner for ending in (owner[-1], "".join(owner))},
    )
    given, ends = _claims(outputs, asked)
    ends += [len(given) + end for end in taken_ends]
    counts: Array = np.diff(np.array(ends, np.int64), prepend=0)
    kinds = np.repeat(np.arange(len(ends), dtype=np.int32), counts)
    made = given + taken
    names, about = numbered([name for name, _, _ in made])
    owners, whose = numbered([owner for _, owner, _ in made])
    weights = np.array([weight for _, _, weight in made], np.float64)
    owners = [owner if asked.may_have(owner) else None for owner in owners]
    met = np.array([owner is not None for owner in owners], np.bool_)[whose]
    kinds, about, whose, weights = kinds[met], about[met], whose[met], weights[met]

    members = [members_of(name) for name in names]
    claims, at = _each(members, about)
    said: Sequence[Any] = list(zip(*chain.from_iterable(members), strict=True)) or ((), (), ())
    attributes = numbered(said[0])[1].astype(np.int64)[at]
    weights, rests = weights[claims] * np.array(said[1], np.float64)[at], np.array(said[2], np.float64)[at]
    kinds, whose = kinds[claims], whose[claims]

    parts = [[] if owner is None else parts_of(owner) for owner in owners]
    claims, at = _each(parts, whose)
    phrases = numbered(chain.from_iterable(parts))[1][at]
    shares = np.array([share for owner in owners if owner is not None for share in shares_of(owner)], np.float64)[at]
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
