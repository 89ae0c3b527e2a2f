"""The inputs and outputs of a tool, with name, type, text and meaning.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required string, is one kind. Kinds are
compared; the tables in `match` record where each occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from toolyard.insight.dataflow import meaning, names
from toolyard.insight.dataflow.names import Phrase, name_words
from toolyard.insight.dataflow.paths import (
    BOOLEAN,
    OBJECT,
    SCALAR,
    STRING,
    SchemaField,
    find_required_leaves,
    read_fields,
)
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Tool

_MAX_TEXT = 160
ITEMS, MANY = 6, 12
"""Bit offsets in `Kind.shape` of the item types and of the "many" flag; the bits before are the value's own types."""


class Kind(NamedTuple):
    """What is compared about a value; equal for values that need not be distinguished."""

    required: bool
    """For inputs only; always false for outputs."""
    state: bool
    """Whether it describes a thing rather than identifying it."""
    name_text: str
    """Its name as words."""
    description: str
    shape: int
    """The types of a value, of its items, and whether it is one of many, packed at `ITEMS` and `MANY`."""
    attribute: str
    """What the value is, such as `id`."""
    owner: Phrase
    """The owner in its name."""
    generic: bool
    """Whether many unrelated things have such a value."""
    owners: meaning.Owners
    """Owners from other evidence; empty if `owner` decides."""
    role: int
    """Bits: `OUTPUT`, `HANDLE`, `FOREIGN`."""

    @property
    def text(self) -> str:
        """The text from which the text signal is computed."""
        return build_value_text(self.name_text, self.description)

    @property
    def facets(self) -> meaning.Facets:
        """What the value is and whose, with weights."""
        return meaning.compute_facets(self.attribute, self.owner, self.generic, self.owners, self.role)


def build_value_text(name_text: str, description: str) -> str:
    """The text of a value: its name, and the beginning of the description on one line."""
    line = " ".join(description[: 2 * _MAX_TEXT].split())[:_MAX_TEXT]
    return f"{name_text}: {line}" if line else name_text


def unpack_shape(shape: int) -> tuple[int, int, int]:
    """Unpack a shape: the types of a value, of its items, and whether it is one of many."""
    return shape & _KINDS, shape >> ITEMS & _KINDS, shape >> MANY


_KINDS = (1 << ITEMS) - 1


class Values(NamedTuple):
    """The outputs or the inputs of one tool, by column."""

    paths: list[str]
    needed: list[bool]
    """Whether a call requires it."""
    nested: list[int]
    """How many other entities contain it: 0 for the user's id in the result of a tool about users."""
    kinds: list[Kind]


class ToolProfile(NamedTuple):
    """The outputs and inputs of one tool."""

    outputs: Values
    inputs: Values
    required: int
    """How many values a call requires."""
    unread: int
    """How many values were not read because of the limits on schemas."""


_MAX_TOOL_TEXT = 200


_MAX_NESTED = 3


def read_profile(tool: Tool) -> ToolProfile:
    """Read everything about a tool that is compared."""
    words = name_words(tool.name)
    text = f"{' '.join(words)}. {_read_beginning(tool.description)}"
    noun, id_owners = _read_subject(tool, words)
    creates, reads = not names.CREATE_VERBS.isdisjoint(words), not names.READ_VERBS.isdisjoint(words[:1])
    taken, given = read_fields(tool.parameters), read_fields(tool.output_parameters)
    needed = find_required_leaves(field.path for field in taken.found if field.required)
    inputs = _read_values(
        taken.found, meaning.ToolSubject(0, noun, id_owners, names.find_channel(text), creates, reads), needed
    )
    outputs = _read_values(given.found, meaning.ToolSubject(meaning.OUTPUT, noun, {}, "", False, reads), frozenset())
    if not names.DELETE_VERBS.isdisjoint(words[:2]):
        # The ids a deleting tool returns no longer refer to anything.
        gone = frozenset(map(_last_words, inputs.paths))
        left = [row for row in zip(*outputs, strict=True) if _last_words(row[0]) not in gone]
        outputs = Values(*map(list, zip(*left, strict=True))) if left else Values([], [], [], [])
    return ToolProfile(outputs, inputs, len(needed), taken.unread + given.unread)


def _read_subject(tool: Tool, words: Phrase) -> tuple[Phrase, Mapping[str, Phrase]]:
    """A tool's subject, and the owners of ids in its path or name: `get-accounts-id-limits` takes an account's id."""
    nouns = names.read_nouns(tool.name)
    noun = nouns[-1] if nouns else ()
    id_owners: dict[str, Phrase] = {}
    if "id" in words[1:] and (before := names.read_nouns("_".join(words[: words.index("id", 1)]))):
        id_owners["id"] = before[-1]
    if isinstance(tool.binding, RestBinding):
        things: list[Phrase] = []
        for part in tool.binding.path.split("/"):
            if part.startswith("{") and things:
                id_owners[part.strip("{}")] = things[-1]
            elif part and not part.startswith("{"):
                things.append(name_words(part))
        if len(noun) == 1 and len(things) > 1 and things[-1][-1:] == noun:
            noun = (*things[-2][-1:], *noun)
    return noun, id_owners


def _last_words(path: str) -> Phrase:
    return name_words(path.rpartition(".")[2])


def _read_values(fields: list[SchemaField], subject: meaning.ToolSubject, needed: frozenset[str]) -> Values:
    found = Values([], [], [], [])
    noun = subject.noun
    for field in fields:
        if not (field.kinds | field.items) & _FEEDABLE_TYPES:
            continue
        context = meaning.read_containers(field.holder, noun)
        kind = _read_kind(field, context, subject)
        if kind is not None:
            foreign = bool(kind.owner) and kind.owner[-1] not in noun
            found.paths.append(field.path)
            found.needed.append(field.path in needed)
            found.nested.append(min(context.nested + foreign, _MAX_NESTED))
            found.kinds.append(kind)
    return found


_FEEDABLE_TYPES = SCALAR & ~BOOLEAN | OBJECT
"""Types of values that can be passed on: booleans identify nothing."""


def _read_kind(field: SchemaField, context: meaning.ContainerContext, subject: meaning.ToolSubject) -> Kind | None:
    """The kind of one value; None if no other tool's result can feed it, or it has no owner."""
    side, noun = subject.side, subject.noun
    name, foreign = meaning.read_meaning(field, context, subject)
    if name is None or (side and name.state):
        return None
    if name.identifies:
        whose = name.owner or context.inner or noun
        if subject.creates and name.attribute in _NAMES and name.plain and noun[-len(whose) :] == whose:
            # The caller chooses the name of a new thing, unless it copies one from elsewhere.
            if name.attribute not in _COPIED:
                return None
            foreign = meaning.FOREIGN
        owner = meaning.qualify_entity(name.owner or subject.id_owners.get(field.path, ()), noun)
        if owner != name.owner:
            name = name._replace(owner=owner)
    elif (
        subject.creates
        and name.attribute in names.SORTS
        and not name.owner
        and (name.attribute != "text" or not foreign)
    ):
        name = name._replace(owner=context.inner or noun)
    described = names.find_owner(field.description[: meaning.MAX_READ]) if name.identifies and field.description else ()
    if name.owner:
        # The owner of `payor_payment_id` is not the payor, whatever the description says.
        owners = (
            meaning.combine_owners(described, name.owner) if described and described[-1] not in name.owner[:-1] else ()
        )
    else:
        owners = (
            meaning.find_owners(described, context.inner, context.wrapper, context.hint, noun)
            if described
            else context.owners
        )
        if name.generic and not owners and name.attribute not in OWNERLESS and name.attribute not in names.SORTS:
            return None
    name_text = name.name_text
    if name.single_word and context.around:
        name_text = f"{context.name_text} {name_text}" if name_text not in context.around else context.name_text
    measured = not (field.kinds | field.items) & STRING and not name.identifies and name.attribute not in names.SORTS
    shape = field.kinds | field.items << ITEMS | (1 << MANY if field.holder.lists else 0)
    role = side | foreign | (meaning.HANDLE if not side or (field.kinds | field.items) & SCALAR else 0)
    compared = name_text, field.description, shape, name.attribute, name.owner, name.generic, owners, role
    return Kind(field.required and not side, name.state or measured, *compared)


_COPIED = frozenset(("name", "title", "login"))
_NAMES = names.IDENTITY - {"id", "uuid", "number", "index", "sha", "reference"}
OWNERLESS = frozenset(("uuid", "login"))
"""Names that need no owner, though many things have them."""


def _read_beginning(description: str) -> str:
    """The beginning of a tool's description, on one line."""
    some = " ".join(description[: 2 * _MAX_TOOL_TEXT].split())
    if len(some) < _MAX_TOOL_TEXT and len(description) > 2 * _MAX_TOOL_TEXT:
        # The part that was cut off was mostly blank.
        some = " ".join(description.split())
    return some[:_MAX_TOOL_TEXT]
