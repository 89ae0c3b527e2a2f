"""What is compared of a tool: the values that it gives and takes, with name, type, text and meaning."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

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
