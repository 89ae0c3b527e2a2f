"""What is compared of tools: the values that they give and take, with name, type, text and meaning.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required text, is one. What is compared is
kinds; what is counted is where they occur (`tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from toolyard.insight.dataflow import meaning
from toolyard.insight.dataflow.facets import FOREIGN, HANDLE, OUTPUT, Facets, Owners, facets_of
from toolyard.insight.dataflow.meaning import MAX_READ, ToolSubject, ValuePlace, read_meaning, read_place
from toolyard.insight.dataflow.names import (
    GONE,
    IDENTITY,
    MAKING,
    READING,
    Phrase,
    channel_in,
    owner_in,
    tool_nouns,
    words_of,
)
from toolyard.insight.dataflow.paths import BOOLEAN, OBJECT, SCALAR, STRING, SchemaField, fields_of, needed_of
from toolyard.insight.dataflow.sorts import SORTS
from toolyard.model.bindings import RestBinding
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
        return facets_of(self.attribute, self.own, self.generic, self.owners, self.role)


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
    nested: list[int]
    """How many other things it is told of by the way: 0 for the id of a user that a tool about users gives."""
    kinds: list[Kind]


class Told(NamedTuple):
    """What one tool gives and takes."""

    outputs: Values
    inputs: Values
    required: int
    """How many values a call cannot do without."""
    unread: int
    """How many values were not read, because there are too many."""


_MAX_TOOL_TEXT = 200


_MAX_NESTED = 3


def told_of(tool: Tool) -> Told:
    """All that is compared of a tool."""
    words = words_of(tool.name)
    text = f"{' '.join(words)}. {_read_beginning(tool.description)}"
    noun, held = _read_subject(tool, words)
    makes, reads = not MAKING.isdisjoint(words), not READING.isdisjoint(words[:1])
    taken, given = fields_of(tool.parameters), fields_of(tool.output_parameters)
    needed = needed_of(field.path for field in taken.found if field.required)
    inputs = _read_values(taken.found, ToolSubject(0, noun, held, channel_in(text), words, makes, reads), needed)
    outputs = _read_values(given.found, ToolSubject(OUTPUT, noun, {}, "", words, False, reads), frozenset())
    if not GONE.isdisjoint(words[:2]):
        # The id that came in goes out again, and stands for nothing any more.
        gone = frozenset(map(_last_words, inputs.paths))
        left = [row for row in zip(*outputs, strict=True) if _last_words(row[0]) not in gone]
        outputs = Values(*map(list, zip(*left, strict=True))) if left else Values([], [], [], [])
    return Told(outputs, inputs, len(needed), taken.unread + given.unread)


def _read_subject(tool: Tool, words: Phrase) -> tuple[Phrase, Mapping[str, Phrase]]:
    """What a tool is about, and whose the ids in its path or name are: `get-accounts-id-limits` takes an account's."""
    nouns = tool_nouns(tool.name)
    noun = nouns[-1] if nouns else ()
    held: dict[str, Phrase] = {}
    if "id" in words[1:] and (before := tool_nouns("_".join(words[: words.index("id", 1)]))):
        held["id"] = before[-1]
    if isinstance(tool.binding, RestBinding):
        things: list[Phrase] = []
        for part in tool.binding.path.split("/"):
            if part.startswith("{") and things:
                held[part.strip("{}")] = things[-1]
            elif part and not part.startswith("{"):
                things.append(words_of(part))
        if len(noun) == 1 and len(things) > 1 and things[-1][-1:] == noun:
            noun = (*things[-2][-1:], *noun)
    return noun, held


def _last_words(path: str) -> Phrase:
    return words_of(path.rpartition(".")[2])


def _read_values(fields: list[SchemaField], subject: ToolSubject, needed: frozenset[str]) -> Values:
    found = Values([], [], [], [])
    noun = subject.noun
    for field in fields:
        if not (field.kinds | field.items) & _TELLING:
            continue
        place = read_place(field.holder, noun)
        kind = _read_kind(field, place, subject)
        if kind is not None:
            foreign = bool(kind.own) and kind.own[-1] not in noun
            found.paths.append(field.path)
            found.needed.append(field.path in needed)
            found.nested.append(min(place.nested + foreign, _MAX_NESTED))
            found.kinds.append(kind)
    return found


_TELLING = SCALAR & ~BOOLEAN | OBJECT
"""Kinds of values that are handed on: nothing is told by a yes or no."""


def _read_kind(field: SchemaField, place: ValuePlace, subject: ToolSubject) -> Kind | None:
    """What is compared of one value; None for what no other tool's answer is for, or is nobody's."""
    side, noun = subject.side, subject.noun
    name, foreign = read_meaning(field, place, subject)
    if name is None or (side and name.state):
        return None
    if name.tells:
        whose = name.own or place.inner or noun
        if subject.makes and name.attribute in _NAMES and name.plain and noun[-len(whose) :] == whose:
            # What a thing will be called is up to whoever makes it, unless it is a copy of one that is elsewhere.
            if name.attribute not in _COPIED:
                return None
            foreign = FOREIGN
        own = meaning.qualify(name.own or subject.held.get(field.path, ()), noun)
        if own != name.own:
            name = name._replace(own=own)
    elif subject.makes and name.attribute in SORTS and not name.own and (name.attribute != "text" or not foreign):
        name = name._replace(own=place.inner or noun)
    told = owner_in(field.description[:MAX_READ]) if name.tells and field.description else ()
    if name.own:
        # Of `payor_payment_id` the payor is not told, whatever else is said of it.
        owners = meaning.told_owners(told, name.own) if told and told[-1] not in name.own[:-1] else ()
    else:
        owners = meaning.find_owners(told, place.inner, place.wrapper, place.hint, noun) if told else place.owners
        if name.generic and not owners and name.attribute not in ALONE and name.attribute not in SORTS:
            return None
    spoken = name.spoken
    if name.alone and place.around:
        spoken = f"{place.spoken} {spoken}" if spoken not in place.around else place.spoken
    measured = not (field.kinds | field.items) & STRING and not name.tells and name.attribute not in SORTS
    shape = field.kinds | field.items << ITEMS | (1 << MANY if field.holder.lists else 0)
    role = side | foreign | (HANDLE if not side or (field.kinds | field.items) & SCALAR else 0)
    told_as = spoken, field.description, shape, name.attribute, name.own, name.generic, owners, role
    return Kind(field.required and not side, name.state or measured, *told_as)


_COPIED = frozenset(("name", "title", "login"))
_NAMES = IDENTITY - {"id", "uuid", "number", "index", "sha", "reference"}
ALONE = frozenset(("uuid", "login"))
"""Names that say enough without an owner, though many things have them."""


def _read_beginning(description: str) -> str:
    """The first words of a tool's description."""
    some = " ".join(description[: 2 * _MAX_TOOL_TEXT].split())
    if len(some) < _MAX_TOOL_TEXT and len(description) > 2 * _MAX_TOOL_TEXT:
        # Mostly blank.
        some = " ".join(description.split())
    return some[:_MAX_TOOL_TEXT]
