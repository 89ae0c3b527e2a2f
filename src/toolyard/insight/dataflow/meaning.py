"""Determine what a value is, and whose, from its name, its containers, its description and its tool.

Facets are the keys by which outputs and inputs are then matched: "id of user"; "email", whosever it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow import names
from toolyard.insight.dataflow.names import Name, Phrase, find_sort, name_words, read_name, read_nouns, read_words
from toolyard.insight.dataflow.paths import INTEGER, NUMBER, SCALAR, STRING, FieldContainer, SchemaField
from toolyard.words.identifiers import word_set

Owners = tuple[tuple[Phrase, float], ...]
"""The possible owners of a value, with weights."""
Claim = tuple[str, Phrase, float]
"""An attribute or group of attributes, its owner, and a weight."""
Member = tuple[str, float, float]
"""An attribute of a group, its weight, and the factor applied to the whole claim."""

OUTPUT, HANDLE, FOREIGN = 1, 2, 4
"""Role bits: it is an output; its name alone may identify an entity; it comes only from another namespace."""

_USER: Phrase = ("user",)
NOBODY: Phrase = ()
"""The owner of values that mean the same for every owner."""

# Names of groups begin with a space, which no attribute does.
_INPUT_HANDLE = " a handle"
OUTPUT_HANDLE = " id or name"
_GROUP_BY_ATTRIBUTE: dict[str, str] = {}
"""For input attributes that other attributes may satisfy, the group of all of them."""
_GROUPS: dict[str, list[Member]] = {
    _INPUT_HANDLE: [(handle, weight, 1.0) for handle, weight in names.HANDLES.items()],
    OUTPUT_HANDLE: [("id", 0.75, 1.0), ("name", 0.6, 1.0)],
}
for (_first, _second), _weight in names.SYNONYMS.items():
    _GROUP_BY_ATTRIBUTE[_second] = f" like {_second}"
    _GROUPS.setdefault(_GROUP_BY_ATTRIBUTE[_second], [(_second, 1.0, 1.0)]).append((_first, 1.0, _weight))


class Facets(NamedTuple):
    """The facets of a value, with weights."""

    keys: tuple[str, ...]
    weights: tuple[float, ...]
    scoped: float
    """How far the value is meaningful only within its source: 1 for an id, 0 for a city."""


@lru_cache(names.CACHE_SIZE)
def compute_facets(attribute: str, name_owner: Phrase, generic: bool, owners: Owners, role: int) -> Facets:
    """Compute the facets of a value.

    `name_owner` is the owner in its name; `owners`, if any, come from all other evidence.
    """
    facets: dict[str, float] = {}
    output = role & OUTPUT
    for name, owner, weight in _list_claims(attribute, name_owner, generic, owners, role):
        parts = list_spellings(owner, output)
        for member, share, rest in _GROUPS.get(name) or [(name, 1.0, 1.0)]:
            for phrase, part in parts:
                key = f"{member} of {phrase}" if phrase else member
                facets[key] = max(facets.get(key, 0.0), weight * share * part * rest)
    scoped = 0.0 if attribute in names.SORTS or role & FOREIGN else 1.0 if attribute in names.SCOPED else 0.5
    return Facets(tuple(facets), tuple(facets.values()), scoped)


def _list_claims(attribute: str, name_owner: Phrase, generic: bool, owners: Owners, role: int) -> list[Claim]:
    claims: list[Claim] = []
    output = role & OUTPUT
    named = attribute if output else _GROUP_BY_ATTRIBUTE.get(attribute, attribute)
    if attribute in names.SORTS:
        _, single_word, owned = names.SORTS[attribute]
        claims.append((named, NOBODY, (single_word if output else 1.0) * (owned if name_owner else 1.0)))
    if generic or name_owner:
        scale = 0.9 if attribute in names.STATE else 1.0
        for owner, weight in owners or ((name_owner, 1.0),) if name_owner or owners else ():
            claims.append((named, owner, weight * scale))
            if owner[-1] in names.PERSONS:
                claims.append((named, _USER, 0.88 * weight * scale))
    if not generic:
        claims.append((named, NOBODY, 0.95 if not name_owner else 0.7))
        if role & HANDLE:
            handle, words = OUTPUT_HANDLE if output else _INPUT_HANDLE, (*name_owner, attribute)
            claims.append((handle, words, 1.0))
            if attribute in names.PERSONS:
                claims.append((handle, _USER, 1.0))
            if not output and attribute in names.HANDLES:
                claims.append((named, words, names.HANDLES[attribute]))
        if output and not name_owner:
            claims += [(attribute, owner, 0.9 * weight) for owner, weight in owners]
    elif attribute == "uuid":
        # A uuid is unique whatever it identifies.
        claims.append((named, NOBODY, 0.8))
    if attribute == "login":
        claims.append((named, _USER, 0.92))
    elif attribute in _NAMES_AND_QUERIES:
        known = [(owner[-1], weight) for owner, weight in owners or ((name_owner, 1.0),) if owner]
        claims += _list_general_claims(attribute, known, role)
    return claims


_NAMES_AND_QUERIES = frozenset(("name", "query", "title"))


def _list_general_claims(attribute: str, known: list[tuple[str, float]], role: int) -> list[Claim]:
    """Claims without an owner: what names and titles of things mean in general, and what people are searched by."""
    output = role & OUTPUT
    if attribute == "name" and output:
        return [(names.NAME_SORTS[last], NOBODY, 0.85 * weight) for last, weight in known if last in names.NAME_SORTS]
    if attribute == "query" and not output and any(names.NAME_SORTS.get(last) == "full name" for last, _ in known):
        return [("email", NOBODY, 0.85)]
    if attribute == "title" and (output or role & FOREIGN) and not any(last in names.TITLED for last, _ in known):
        return [("subject", NOBODY, 0.75 if output else 0.85)]
    return []


def list_spellings(owner: Phrase, output: int) -> list[tuple[str, float]]:
    """The spellings of an owner: `service plan`, `serviceplan` and, as the more general kind, `plan`.

    Qualifiers must not contradict. So an output `service plan` also counts as a `plan`, and an input `service plan`
    also accepts `a plan`, a key that only outputs called just `plan` have.
    """
    if not owner:
        return [("", 1.0)]
    whole = " ".join(owner)
    found = [(whole, 1.0)]
    if output:
        found.append((f"a {whole}", 1.0))
    if len(owner) > 1:
        found.append(("".join(owner), 0.95))
        for cut in range(1, min(len(owner), 4)):
            tail = " ".join(owner[cut:])
            found.append((tail if output else f"a {tail}", TAIL_WEIGHTS[cut - 1]))
    return found


TAIL_WEIGHTS = (0.9, 0.8, 0.8)
"""Weights of names that leave out one, two or three leading words."""


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
    creates: bool
    """Whether it creates its subject."""
    reads: bool
    """Whether it searches or reads."""


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
    if not side and name.name_text in names.QUERIES:
        return name._replace(attribute="query", owner=(), generic=True, identifies=False), 0
    name = _read_sort(name, field, context, subject.channel)
    if not name.identifies and name.attribute not in names.SORTS:
        name = _read_moment(name, field, subject)
    return name, FOREIGN if subject.creates and name.attribute == "text" and kinds & STRING else 0


_CONTROLS = frozenset(("sort", "order", "page", "pagination", "paging"))


# Names of points in time: which of them fits depends on whether it starts or ends something.
_CLOCK = word_set("date datetime timestamp time at on day")
_MOMENTS_OF_SORT = {sort: frozenset(words) for sort, *words in names.split_table("""
    due due deadline, departs departure checkin, returns return checkout, begin start begin from since after min gte gt
    earliest, end end until before to max lte lt latest""")}  # fmt: skip
_DATES = word_set("date date-time")
_AMBIGUOUS = word_set("to from start end begin after before")
_MOMENTS = _CLOCK | _AMBIGUOUS | word_set("since until deadline due checkin checkout in out")
_NO_MOMENT = word_set("expire expires expiry expiration exp birth zone login deleted")
# Modifiers of dates in searches; a creation date is not the start of a thing.
_PAST = word_set("created updated published modified last creation filter utc local")
_DATED = re.compile(r"iso[- ]?8601|rfc[- ]?3339|yyyy-?mm-?dd|\b(?:date|timestamp|epoch)\b")
_EPOCH = re.compile(r"\b(?:timestamp|epoch)\b")
_SIDES = (("start",), ("end",), ("due",))


def _read_moment(name: Name, field: SchemaField, subject: ToolSubject) -> Name:
    """Reinterpret a name as a point in time, if it is one."""
    kinds, words, description = field.kinds | field.items, name_words(field.name), ""
    if not words or not kinds & (STRING | INTEGER | NUMBER):
        return name
    plain = not kinds & STRING
    if field.format not in _DATES:
        if words[-1] not in _MOMENTS and not (plain and "epoch" in field.description):
            return name
        description = field.description[:MAX_READ] if plain or words[-1] in _AMBIGUOUS else ""
    if field.holder.parents and (outer := name_words(field.holder.parents[-1])[-1:]) in _SIDES:
        words = outer + words
    sort = _find_moment(words, field.format in _DATES, description, plain)
    if subject.reads and not subject.side:
        sort = {"begin": "since", "end": "until"}.get(sort, sort)
    return name._replace(attribute=sort, owner=(), generic=True, state=False) if sort else name


@lru_cache(4096)
def _find_moment(words: Phrase, sure: bool, description: str, plain: bool) -> str:
    """The sort of point in time that these words name, or "". `sure` if the format says it is a date.

    Otherwise numbers (`plain`) and ambiguous words such as `to` must be described as timestamps or dates.
    """
    words = tuple(" ".join(words).replace("check in", "checkin").replace("check out", "checkout").split())
    said = _EPOCH if plain else _DATED if words[-1] in _AMBIGUOUS else None
    if not _NO_MOMENT.isdisjoint(words) or not (sure or said is None or said.search(description.lower())):
        return ""
    sort = next((sort for sort, marks in _MOMENTS_OF_SORT.items() if not marks.isdisjoint(words)), "")
    if not sort:
        return "moment" if "date" in words and _CLOCK.issuperset(words) else ""
    return sort if (_CLOCK | _PAST | _MOMENTS_OF_SORT[sort]).issuperset(words) else ""


def qualify_entity(entity: Phrase, noun: Phrase) -> Phrase:
    """Qualify an entity by the tool's subject: for a tool about image actions, `action` is `image action`.

    Persons are not qualified: a user is a user.
    """
    known = len(noun) > len(entity) > 0 and noun[-len(entity) :] == entity and entity[-1] not in names.PERSONS
    return noun if known else entity


def _read_sort(name: Name, field: SchemaField, context: ContainerContext, channel: str) -> Name:
    """Refine a name by format, containers and description, where the name itself is not specific."""
    if not (field.kinds | field.items) & SCALAR:
        return name
    if name.attribute in names.SORTS and (name.attribute != "text" or context.sort != "url"):
        if channel and name.attribute == "location" and not names.ROLES.isdisjoint(name_words(field.name)):
            return name._replace(attribute=channel)
        whose = names.read_head(field.description[:MAX_READ])[1] if name.owner and field.description else ()
        is_owner = whose and whose[-1] not in names.ROLES and len(whose) <= len(name.owner)
        return name._replace(owner=whose) if is_owner else name
    around = context.sort
    if around and not name.owner and (name.attribute in _BARE or (around == "url" and not name.state)):
        return name._replace(attribute=around, generic=True, state=False)
    if name.attribute == "state" and any("address" in name_words(parent) for parent in field.holder.parents):
        return name._replace(attribute="region", owner=(), generic=True, state=False)
    if name.identifies and name.attribute != "login" and not (name.owner and name.owner[-1] in names.PERSONS):
        return name
    what, whose = names.read_head(field.description[:MAX_READ]) if field.description else ("", ())
    if name.identifies:
        # A login described as an email address is one.
        return name._replace(attribute=what, owner=(), identifies=False) if what in names.CONTACT_SORTS else name
    sort = names.FORMATS.get(field.format, "")
    if sort:
        owner = (*name.owner, *name.attribute.split("_")) if name.attribute not in names.ROLES else name.owner
        return name._replace(
            attribute=sort,
            owner=() if owner and owner[-1] in names.ROLES | names.IDENTITY else owner,
            generic=True,
            state=False,
        )
    if what in names.SORTS and not name.state:
        return name._replace(attribute=what, owner=() if whose and whose[-1] in names.ROLES else whose, generic=True)
    if what and whose and not name.owner:
        return name._replace(attribute=what, owner=whose, generic=True, state=False)
    if channel and name.attribute in (names.ROUTE_ENDS if channel == "location" else names.ROLES) and not name.owner:
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
