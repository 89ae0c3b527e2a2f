"""Determine what a value is from its name, its containers, its description and its tool."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow import names, sorts
from toolyard.insight.dataflow.facets import FOREIGN, Owners
from toolyard.insight.dataflow.names import Name, Phrase, find_sort, name_words, read_name, read_nouns, read_words
from toolyard.insight.dataflow.paths import INTEGER, NUMBER, SCALAR, STRING, FieldContainer, SchemaField

MAX_READ = 240
"""Maximum number of characters of a description that are read."""


class ContainerContext(NamedTuple):
    """What the containers of a value say about it."""

    inner: Phrase
    """The entity that contains it."""
    wrapper: Phrase
    """The nearest container, if it may be more than a wrapper."""
    hint: Phrase
    owners: Owners
    """The owners that follow from all of these."""
    around: Phrase
    name_text: str
    nested: int
    """How many enclosing entities are not the tool's subject."""
    sort: str
    """The sort of value that the containing entity is named after."""


class ToolSubject(NamedTuple):
    """What a tool says about its inputs or outputs."""

    side: int
    """`OUTPUT` for outputs, else 0."""
    noun: Phrase
    """The tool's subject."""
    id_owners: Mapping[str, Phrase]
    """The owners of the ids in its path or name."""
    channel: str
    """The sort of address by which it reaches people."""
    words: Phrase
    """The words of its name."""

    creates: bool
    """Whether it creates its subject."""
    reads: bool
    """Whether it searches or reads."""

    def is_sender(self, name: str) -> bool:
        """Whether a parameter of this name identifies the sender."""
        return bool(self.channel) and not self.reads and not sorts.SENDERS.isdisjoint(name_words(name))

    def returns_own_address(self, sort: str) -> bool:
        """Whether the addresses it returns are the caller's own."""
        return find_sort(self.noun)[0] == sort or not sorts.SELF_WORDS.isdisjoint(self.words)


def read_meaning(field: SchemaField, context: ContainerContext, subject: ToolSubject) -> tuple[Name | None, int]:
    """The effective name of a value, and its `FOREIGN` bit; None for values that no other tool's result can feed."""
    side, kinds, parents = subject.side, field.kinds | field.items, field.holder.parents
    name = read_name(field.name) if field.name else read_words(subject.noun)
    if name is None or (side and name.state and name.attribute != "state"):
        return None, 0
    if name.single_word and parents and parents[-1] in _CONTROLS and read_name(f"{parents[-1]}_{field.name}") is None:
        # `sort.by` means `sort_by`.
        return None, 0
    if field.items and name.item_words:
        name = read_words(name.item_words) or name
    if not side and name.name_text in sorts.QUERIES:
        return name._replace(attribute="query", owner=(), generic=True, identifies=False), 0
    name = _read_sort(name, field, context, subject.channel)
    if not name.identifies and name.attribute not in sorts.SORTS:
        name = _read_moment(name, field, subject)
    if name.attribute in sorts.OWN_SORTS and (
        subject.returns_own_address(name.attribute) if side else subject.is_sender(field.name)
    ):
        name = name._replace(attribute=sorts.OWN_SORTS[name.attribute])
    return name, FOREIGN if subject.creates and name.attribute == "text" and kinds & STRING else 0


_SIDES = (("start",), ("end",), ("due",))
_CONTROLS = frozenset(("sort", "order", "page", "pagination", "paging"))


def _read_moment(name: Name, field: SchemaField, subject: ToolSubject) -> Name:
    """Reinterpret a name as a point in time, if it is one."""
    kinds, words, description = field.kinds | field.items, name_words(field.name), ""
    if not words or not kinds & (STRING | INTEGER | NUMBER):
        return name
    plain = not kinds & STRING
    if field.format not in sorts.DATES:
        if words[-1] not in sorts.MOMENTS and not (plain and "epoch" in field.description):
            return name
        description = field.description[:MAX_READ] if plain or words[-1] in sorts.AMBIGUOUS_MOMENTS else ""
    if field.holder.parents and (outer := name_words(field.holder.parents[-1])[-1:]) in _SIDES:
        words = outer + words
    sort = sorts.find_moment(words, field.format in sorts.DATES, description, plain)
    if subject.reads and not subject.side:
        sort = {"begin": "since", "end": "until"}.get(sort, sort)
    return name._replace(attribute=sort, owner=(), generic=True, state=False) if sort else name


def qualify_entity(entity: Phrase, noun: Phrase) -> Phrase:
    """Qualify an entity by the tool's subject: for a tool about image actions, `action` is `image action`.

    Persons are not qualified: a user is a user.
    """
    known = len(noun) > len(entity) > 0 and noun[-len(entity) :] == entity and entity[-1] not in sorts.PERSONS
    return noun if known else entity


def _read_sort(name: Name, field: SchemaField, context: ContainerContext, channel: str) -> Name:
    """Refine a name by format, containers and description, where the name itself is not specific."""
    if not (field.kinds | field.items) & SCALAR:
        return name
    if name.attribute in sorts.SORTS and (name.attribute != "text" or context.sort != "url"):
        if channel and name.attribute == "location" and not sorts.ROLES.isdisjoint(name_words(field.name)):
            return name._replace(attribute=channel)
        whose = names.read_head(field.description[:MAX_READ])[1] if name.owner and field.description else ()
        is_owner = whose and whose[-1] not in sorts.ROLES and len(whose) <= len(name.owner)
        return name._replace(owner=whose) if is_owner else name
    around = context.sort
    if around and not name.owner and (name.attribute in _BARE or (around == "url" and not name.state)):
        return name._replace(attribute=around, generic=True, state=False)
    if name.attribute == "state" and any("address" in name_words(parent) for parent in field.holder.parents):
        return name._replace(attribute="region", owner=(), generic=True, state=False)
    if name.identifies and name.attribute != "login" and not (name.owner and name.owner[-1] in sorts.PERSONS):
        return name
    what, whose = names.read_head(field.description[:MAX_READ]) if field.description else ("", ())
    if name.identifies:
        # A login described as an email address is one.
        return name._replace(attribute=what, owner=(), identifies=False) if what in sorts.CONTACT_SORTS else name
    sort = sorts.FORMATS.get(field.format, "")
    if sort:
        owner = (*name.owner, *name.attribute.split("_")) if name.attribute not in sorts.ROLES else name.owner
        return name._replace(
            attribute=sort,
            owner=() if owner and owner[-1] in sorts.ROLES | names.IDENTITY else owner,
            generic=True,
            state=False,
        )
    if what in sorts.SORTS and not name.state:
        return name._replace(attribute=what, owner=() if whose and whose[-1] in sorts.ROLES else whose, generic=True)
    if what and whose and not name.owner:
        return name._replace(attribute=what, owner=whose, generic=True, state=False)
    if channel and name.attribute in (sorts.ROUTE_ENDS if channel == "location" else sorts.ROLES) and not name.owner:
        return name._replace(attribute=channel, generic=True)
    return name


_BARE = frozenset(("value", "number", "address", "code"))
"""Names that add nothing to the name of their container."""


@lru_cache(names.CACHE_SIZE)
def read_containers(holder: FieldContainer, noun: Phrase) -> ContainerContext:
    """What the containers of values say, in a tool about `noun`."""
    inner, wrapper = _find_containers(holder.parents)
    inner = qualify_entity(inner, noun)
    nouns = read_nouns(holder.hint) if holder.hint else ()
    hint = qualify_entity(_read_entity(nouns[-1]), noun) if nouns else ()
    around = inner or noun
    owners = find_owners((), inner, wrapper, hint, noun)
    entities = filter(None, (_read_entity(name_words(name)) for name in holder.parents))
    nested = sum(entity[-1] not in noun for entity in entities)
    return ContainerContext(
        inner, wrapper, hint, owners, around, " ".join(dict.fromkeys(around)), nested, find_sort(inner)[0]
    )


def combine_owners(described: Phrase, owner: Phrase) -> Owners:
    """The owners of a value whose name and description both name an entity."""
    # `request_id`, described as the id of a check, more likely belongs to the check.
    return ((owner, 1.0 if described[-1] in owner else 0.85), (described, 0.9))


def find_owners(described: Phrase, inner: Phrase, wrapper: Phrase, hint: Phrase, noun: Phrase) -> Owners:
    """The owners of a value whose name does not tell, from all other evidence: (phrase, weight)."""
    around = (() if inner else noun, 0.75 if described else 0.88)
    found = ((described, 0.97), (inner, 0.97), (wrapper, 0.85), (() if hint == inner else hint, 0.9), around)
    return tuple(row for row in found if row[0])


def _find_containers(parents: tuple[str, ...]) -> tuple[Phrase, Phrase]:
    """The entity that contains a value, and the nearest container if it may be more than a wrapper."""
    wrapper: Phrase = ()
    for name in reversed(parents):
        words = name_words(name)
        entity = _read_entity(words)
        if entity:
            return entity, wrapper
        if words and words[-1] in names.WEAK_WRAPPERS and not wrapper:
            wrapper = words
    return (), wrapper


def _read_entity(words: Phrase) -> Phrase:
    """A container's name as an entity; empty if it is only a wrapper."""
    kept = tuple(word for word in words if not word.isdigit())
    while len(kept) > 1 and kept[-1] in names.ITEM_SUFFIXES:
        kept = kept[:-1]
    return () if not kept or (kept[-1] in names.WRAPPERS and len(kept) == 1) else kept
