"""The values of a set of tools, each kind of value once, as arrays.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required text, is one. What is compared is
kinds; what is counted is where they occur.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from toolyard.insight.dataflow.artifact import Array, offsets_of
from toolyard.insight.dataflow.profile import KindRow, Told, Values, WantedInputs, outputs_of, pick_fields
from toolyard.insight.dataflow.value_meanings import SCOPED, Claim, add_claim, members_of, parts_of, shares_of

_SHAPE, _STATE, _REQUIRED, _ATTRIBUTE = map(pick_fields, ("shape", "state", "required", "attribute"))
_SHAPE_AND_NEED = pick_fields("shape", "required")
_SAID = pick_fields("attribute", "own", "generic", "owners", "role")


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
    twice, and the greater weight counts. Those that the other side does not have may be missing."""
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
    output_shapes: list[int]
    input_shapes: list[tuple[int, bool]]
    """And whether it is required."""


def tables_of(told: Sequence[Told], giving: Array | None = None, taking: Array | None = None) -> Tables:
    """The tables of tools, in their order: of what they give and take; only of some, if it is said of which."""
    taken = _list_values(taking, told, attrgetter("inputs"))
    inputs, input_members = _number_kinds(taken)
    claims = _list_claims(inputs)
    asked = WantedInputs(claims[0])
    given = _list_values(giving, told, lambda one: outputs_of(one.given, asked))
    outputs, output_members = _number_kinds(given)
    output_shapes, output_shaped = number_distinct(map(_SHAPE, outputs))
    input_shapes, input_shaped = number_distinct(map(_SHAPE_AND_NEED, inputs))
    rows = _build_facets(_list_claims(outputs), claims)
    half = len(outputs)
    cut = int(np.searchsorted(rows.kinds, half))
    rows.kinds[cut:] -= half
    return Tables(
        _build_side(
            given,
            _Kinds(outputs, output_members, output_shaped),
            _Facets(*(column[:cut] for column in rows)),
        ),
        _build_side(
            taken,
            _Kinds(inputs, input_members, input_shaped),
            _Facets(*(column[cut:] for column in rows)),
        ),
        list(chain.from_iterable(one.paths for one in chain(given, taken))),
        output_shapes,
        input_shapes,
    )


def _list_values(chosen: Array | None, told: Sequence[Told], values: Callable[[Told], Values]) -> list[Values]:
    if chosen is None:
        return list(map(values, told))
    return [values(one) if some else _NOTHING for one, some in zip(told, chosen.tolist(), strict=True)]


_NOTHING = Values([], [], [])


def number_distinct(things: Iterable[Any]) -> tuple[list[Any], Array]:
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


def _number_kinds(owners: Sequence[Values]) -> tuple[list[KindRow], Array]:
    """Each kind once, and for each value its kind."""
    return number_distinct(chain.from_iterable(one.kinds for one in owners))


def _build_side(owners: Sequence[Values], kinds: _Kinds, facets: _Facets) -> Side:
    some, members = kinds.kinds, kinds.members
    counts = np.fromiter([len(one.paths) for one in owners], np.int64, len(owners))
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
        needed=np.fromiter(chain.from_iterable(one.needed for one in owners), np.bool_, len(members)),
        by_kind=np.argsort(members, kind="stable").astype(np.int32),
        kind_offsets=offsets_of(members, len(some)),
        tool_offsets=offsets_of(tools, len(owners)),
    )


_Claims = tuple[list[Claim], list[int]]
"""What kinds say to be, one after the other, and how many there are up to each kind."""


def _list_claims(kinds: Sequence[KindRow]) -> _Claims:
    made: list[Claim] = []
    ends = []
    for attribute, own, generic, owners, role in map(_SAID, kinds):
        add_claim(made, attribute, own, generic, owners, role)
        ends.append(len(made))
    return made, ends


def _build_facets(outputs: _Claims, inputs: _Claims) -> _Facets:
    """What `facets.counted_out` does, for all kinds at once and in the same order of multiplication.

    Most of it is for one side only, and left out: attributes and owners that the other side does not know.
    """
    made, half = outputs[0] + inputs[0], len(outputs[0])
    first, second = (np.fromiter(ends, np.int64, len(ends)) for _, ends in (outputs, inputs))
    counts: Array = np.diff(np.concatenate((first, half + second)), prepend=0)
    kinds = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    said: Sequence[Any] = list(zip(*made, strict=True)) or ((), (), ())
    names, about = number_distinct(said[0])
    owners, whose = number_distinct(said[1])
    weights = np.fromiter(said[2], np.float64, len(made))

    members = [members_of(name) for name in names]
    of, shares, rests = list(zip(*chain.from_iterable(members), strict=True)) or ((), (), ())
    attributes = _Shared(number_distinct(of)[1], map(len, members), about, half)
    parts = list(map(parts_of, owners))
    phrases = _Shared(number_distinct(chain.from_iterable(parts))[1], map(len, parts), whose, half)
    wanted = (attributes.counts[about] > 0) & (phrases.counts[whose] > 0)
    kinds, about, whose, weights = kinds[wanted], about[wanted], whose[wanted], weights[wanted]

    claims, at = attributes.of(about)
    found = attributes.numbers[at]
    weights, rest = weights[claims] * attributes.only(shares)[at], attributes.only(rests)[at]
    kinds, whose = kinds[claims], whose[claims]
    claims, at = phrases.of(whose)
    weights = weights[claims] * phrases.only(chain.from_iterable(map(shares_of, owners)))[at] * rest[claims]
    # There are fewer phrases than 2 ** 32.
    facets = found[claims].astype(np.int64) << 32 | phrases.numbers[at]
    return _Facets(facets, kinds[claims], weights.astype(np.float32))


class _Shared:
    """What things stand for, many each, as far as things of both sides stand for it."""

    def __init__(self, numbers: Array, counts: Iterable[int], uses: Array, half: int) -> None:
        """`numbers` is what all stand for, end to end, so many each; `uses` are things, up to `half` of one side."""
        lengths = np.fromiter(counts, np.int64)
        things = np.repeat(np.arange(len(lengths)), lengths)
        both = np.ones(int(numbers.max(initial=-1)) + 1, np.bool_)
        for side in (uses[:half], uses[half:]):
            used, known = np.zeros(len(lengths), np.bool_), np.zeros(len(both), np.bool_)
            used[side] = True
            known[numbers[used[things]]] = True
            both &= known
        self._kept = both[numbers]
        self.numbers = numbers[self._kept]
        self.counts = np.bincount(things[self._kept], minlength=len(lengths))
        self._starts = np.cumsum(self.counts) - self.counts

    def only(self, values: Iterable[float]) -> Array:
        """Of what is said of each, that of those that are left."""
        return np.fromiter(values, np.float64, len(self._kept))[self._kept]

    def of(self, things: Array) -> tuple[Array, Array]:
        """What is left of things, end to end: of which it is, and where to find it."""
        return expand_ranges(self._starts[things], self.counts[things])


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
