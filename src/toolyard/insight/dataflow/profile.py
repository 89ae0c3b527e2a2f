"""What is compared of tools: the values that they give and take, with name, type, text and meaning.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required text, is one. What is compared is
kinds; what is counted is where they occur (`Tables`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from toolyard.insight.dataflow.artifact import Array, offsets_of
from toolyard.insight.dataflow.names import REMEMBERED, owner_in, read_name, read_words, tool_nouns, words_of
from toolyard.insight.dataflow.paths import BOOLEAN, SCALAR, Holder, SchemaField, fields_of, needed_of
from toolyard.insight.dataflow.value_meanings import (
    ALONE,
    GONE,
    HANDLE,
    OUTPUT,
    SCOPED,
    WEAK_WRAPPERS,
    WRAPPERS,
    Claim,
    Facets,
    Owners,
    Phrase,
    add_claim,
    counted_out,
)
from toolyard.model.tool import Tool

_MAX_TEXT = 160
ITEMS, MANY = 6, 12
"""The first bits of the kinds of items, and of whether there are many; those before are the kinds of a value."""


class Kind(NamedTuple):
    """What is compared of a value; equal for values that need not be told apart."""

    required: bool
    """Of what is taken; what is given is there or not."""
    state: bool
    """Whether it is told of something rather than tells what it is."""
    spoken: str
    """Its name in words."""
    description: str
    shape: int
    """The kinds of a value, of its items, and whether it is one of many: `ITEMS` and `MANY` say which bits."""
    attribute: str
    """What it is."""
    own: Phrase
    """Whose it is as far as its name says."""
    generic: bool
    """Whether many unrelated things have such a value."""
    owners: Owners
    """Whose it is by everything else; empty where that is `own`."""
    role: int
    """`OUTPUT` and `HANDLE`, as far as they are so."""

    @property
    def text(self) -> str:
        """What the text signal is computed from."""
        return text_of(self.spoken, self.description)

    @property
    def facets(self) -> Facets:
        """What it is and whose, each with a weight."""
        claims: list[Claim] = []
        add_claim(claims, self.attribute, self.own, self.generic, self.owners, self.role)
        found = counted_out(claims)
        return Facets(tuple(found), tuple(found.values()), self.attribute in SCOPED)


def text_of(spoken: str, description: str) -> str:
    """What values are compared by: the name, and the beginning of the description in one line."""
    line = " ".join(description[: 2 * _MAX_TEXT].split())[:_MAX_TEXT]
    return f"{spoken}: {line}" if line else spoken


def types_of(shape: int) -> tuple[int, int, int]:
    """The kinds of a value, of its items, and whether it is one of many."""
    return shape & _KINDS, shape >> ITEMS & _KINDS, shape >> MANY


_KINDS = (1 << ITEMS) - 1


class Values(NamedTuple):
    """What one tool gives, or what it takes, by column."""

    paths: list[str]
    needed: list[bool]
    """Whether a call cannot do without it."""
    kinds: list[Kind]

    def by_path(self) -> dict[str, Kind]:
        """To look at them."""
        return dict(zip(self.paths, self.kinds, strict=True))


class Told(NamedTuple):
    """What one tool gives and takes."""

    outputs: Values
    inputs: Values
    required: int
    """How many values a call cannot do without."""
    text: str
    """What tools are compared by."""


_MAX_TOOL_TEXT = 200
_MAX_READ = 240


class _Place(NamedTuple):
    """All that the surroundings of a value say."""

    inner: Phrase
    """The entity that holds it."""
    wrapper: Phrase
    """The container nearer to it that may be more than a wrapper."""
    hint: Phrase
    owners: Owners
    """What they come to."""
    around: Phrase
    spoken: str


def told_of(tool: Tool) -> Told:
    """All that is compared of a tool."""
    nouns = tool_nouns(tool.name)
    noun = nouns[-1] if nouns else ()
    taken = fields_of(tool.parameters)
    needed = needed_of(field.path for field in taken if field.required)
    inputs = _read_values(taken, noun, 0, needed)
    outputs = _read_values(fields_of(tool.output_parameters), noun, OUTPUT, frozenset())
    words = words_of(tool.name)
    if not GONE.isdisjoint(words[:2]):
        # The id that came in goes out again, and stands for nothing any more.
        gone = frozenset(map(_last_words, inputs.paths))
        left = [row for row in zip(*outputs, strict=True) if _last_words(row[0]) not in gone]
        outputs = Values(*map(list, zip(*left, strict=True))) if left else Values([], [], [])
    text = f"{' '.join(words)}. {_read_beginning(tool.description)}"
    return Told(outputs, inputs, len(needed), text)


def _last_words(path: str) -> Phrase:
    return words_of(path.rpartition(".")[2])


def _read_values(fields: list[SchemaField], noun: Phrase, side: int, needed: frozenset[str]) -> Values:
    found = Values([], [], [])
    for field in fields:
        kind = _read_kind(field, noun, side)
        if kind is not None:
            found.paths.append(field.path)
            found.needed.append(field.path in needed)
            found.kinds.append(kind)
    return found


def _read_kind(field: SchemaField, noun: Phrase, side: int) -> Kind | None:
    """What is compared of one value; None for what no other tool's answer is for, or is nobody's."""
    name = read_name(field.name) if field.name else read_words(noun)
    if name is None:
        return None
    if field.items and name.listed:
        name = read_words(name.listed) or name
    told = owner_in(field.description[:_MAX_READ]) if name.tells and field.description else ()
    place = _read_place(field.holder, noun)
    if name.own:
        owners = _told_owners(told, name.own) if told else ()
    else:
        owners = _find_owners(told, place.inner, place.wrapper, place.hint, noun) if told else place.owners
        if name.generic and not owners and name.attribute not in ALONE:
            return None
    spoken = name.spoken
    if name.alone and place.around:
        spoken = f"{place.spoken} {spoken}" if spoken not in place.around else place.spoken
    role = side
    if not field.kinds & BOOLEAN and (not side or field.items & SCALAR):
        role |= HANDLE
    return Kind(
        required=field.required and not side,
        state=name.state,
        spoken=spoken,
        description=field.description,
        shape=field.kinds | field.items << ITEMS | (1 << MANY if field.lists else 0),
        attribute=name.attribute,
        own=name.own,
        generic=name.generic,
        owners=owners,
        role=role,
    )


@lru_cache(REMEMBERED)
def _read_place(holder: Holder, noun: Phrase) -> _Place:
    inner, wrapper = _find_containers(holder.parents)
    hint = _read_entity(words_of(holder.hint)) if holder.hint else ()
    around = inner or noun
    owners = _find_owners((), inner, wrapper, hint, noun)
    return _Place(inner, wrapper, hint, owners, around, " ".join(dict.fromkeys(around)))


def _told_owners(told: Phrase, own: Phrase) -> Owners:
    """Whose value it is where both its name and its description name an entity."""
    # `request_id`, described as the id of a check, is rather the check's.
    return ((own, 1.0 if told[-1] in own else 0.85), (told, 0.9))


def _find_owners(told: Phrase, inner: Phrase, wrapper: Phrase, hint: Phrase, noun: Phrase) -> Owners:
    """Whose value it is where its name does not say so, by everything else: (phrase, how much it counts)."""
    found: list[tuple[Phrase, float]] = []
    if told:
        found.append((told, 0.97))
    if inner:
        found.append((inner, 0.97))
    if wrapper:
        found.append((wrapper, 0.85))
    if hint and hint != inner:
        found.append((hint, 0.9))
    if noun and not inner:
        found.append((noun, 0.88 if not told else 0.75))
    return tuple(found)


def _find_containers(parents: tuple[str, ...]) -> tuple[Phrase, Phrase]:
    """The entity that holds a value, and the container nearer to it that may be more than a wrapper."""
    wrapper: Phrase = ()
    for name in reversed(parents):
        words = words_of(name)
        entity = _read_entity(words)
        if entity:
            return entity, wrapper
        if words and words[-1] in WEAK_WRAPPERS and not wrapper:
            wrapper = words
    return (), wrapper


def _read_entity(words: Phrase) -> Phrase:
    """A container's name as an entity; empty if it only wraps."""
    kept = tuple(word for word in words if not word.isdigit())
    return () if not kept or (kept[-1] in WRAPPERS and len(kept) == 1) else kept


def _read_beginning(description: str) -> str:
    """The first words of a tool's description."""
    some = " ".join(description[: 2 * _MAX_TOOL_TEXT].split())
    if len(some) < _MAX_TOOL_TEXT and len(description) > 2 * _MAX_TOOL_TEXT:
        # Mostly blank.
        some = " ".join(description.split())
    return some[:_MAX_TOOL_TEXT]


class Side(NamedTuple):
    """What all tools give, or what all tools take."""

    kinds: list[Kind]
    """Each once."""
    shapes: Array
    """For each kind, the number of its type."""
    state: Array
    required: Array
    scoped: Array
    """Whether it means something only where it comes from: an id, but not a city."""
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
    scoped: list[bool] = []
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
        np.array(found, np.int64), np.array(owners, np.int32), np.array(weights, np.float32), np.array(scoped, np.bool_)
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
