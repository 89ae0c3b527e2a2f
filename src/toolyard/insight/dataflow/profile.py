"""What is compared of tools: the values that they give and take, with name, type, text and meaning.

Ten thousand tools have far fewer kinds of values than values: `user_id`, a required text, is one. What is compared is
kinds; what is counted is where they occur (`tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow.names import (
    GONE,
    IDENTITY,
    MAKING,
    ONES,
    READING,
    REMEMBERED,
    SCOPED,
    STATE,
    WEAK_WRAPPERS,
    WRAPPERS,
    Name,
    Phrase,
    channel_in,
    head_of,
    owner_in,
    read_name,
    read_words,
    sort_in,
    tool_nouns,
    words_of,
)
from toolyard.insight.dataflow.paths import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    SCALAR,
    STRING,
    Holder,
    SchemaField,
    fields_of,
    needed_of,
)
from toolyard.insight.dataflow.sorts import (
    FORMATS,
    HANDLES,
    OWN,
    PERSONS,
    REACHED,
    ROLES,
    SAME,
    SELF,
    SENDERS,
    SORTS,
    moment_in,
)
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Tool

_MAX_TEXT = 160
ITEMS, MANY = 6, 12
"""The first bits of the kinds of items, and of whether there are many; those before are the kinds of a value."""


Owners = tuple[tuple[Phrase, float], ...]
"""Whose a value may be, and how much each counts."""
Claim = tuple[str, Phrase, float]
"""What it is (an attribute, or the name of a group of them), whose, and its weight."""
Member = tuple[str, float, float]
"""An attribute of a group; its weight, and what the whole counts for then."""

OUTPUT, HANDLE = 1, 2
"""What is known of a value besides its name: that it is given, and that it may stand for an entity by its name alone.
"""

_USER: Phrase = ("user",)
NOBODY: Phrase = ()
"""The owner of what is the same whosoever it is."""
ALONE = frozenset(("uuid", "login"))
"""Names that say enough without an owner, though many things have them."""

# Names of groups begin with a space, which no attribute does.
_ASKED = " a handle"
HANDED = " id or name"
_LIKE: dict[str, str] = {}
"""For attributes of inputs that others will do for, the group of all."""
_GROUPS: dict[str, list[Member]] = {
    _ASKED: [(handle, weight, 1.0) for handle, weight in HANDLES.items()],
    HANDED: [("id", 0.75, 1.0), ("name", 0.6, 1.0)],
}
for (_first, _second), _weight in SAME.items():
    _LIKE[_second] = f" like {_second}"
    _GROUPS.setdefault(_LIKE[_second], [(_second, 1.0, 1.0)]).append((_first, 1.0, _weight))


class Facets(NamedTuple):
    """What a value is and whose, each with a weight."""

    keys: tuple[str, ...]
    weights: tuple[float, ...]
    scoped: float
    """How far it means something only where it comes from: an id does, a city does not."""


@lru_cache(REMEMBERED)
def facets_of(attribute: str, own: Phrase, generic: bool, owners: Owners, role: int) -> Facets:
    """What a value is and whose. `own` is whose it is by its name; `owners`, if any, by all that says so."""
    facets: dict[str, float] = {}
    output = role & OUTPUT
    for name, owner, weight in _list_claims(attribute, own, generic, owners, role):
        parts = parts_of(owner, output)
        for member, share, rest in _GROUPS.get(name) or [(name, 1.0, 1.0)]:
            for phrase, part in parts:
                key = f"{member} of {phrase}" if phrase else member
                facets[key] = max(facets.get(key, 0.0), weight * share * part * rest)
    scoped = 0.0 if attribute in SORTS else 1.0 if attribute in SCOPED else 0.5
    return Facets(tuple(facets), tuple(facets.values()), scoped)


def _list_claims(attribute: str, own: Phrase, generic: bool, owners: Owners, role: int) -> list[Claim]:
    claims: list[Claim] = []
    output = role & OUTPUT
    named = attribute if output else _LIKE.get(attribute, attribute)
    if attribute in SORTS:
        _, alone, owned = SORTS[attribute]
        claims.append((named, NOBODY, (alone if output else 1.0) * (owned if own else 1.0)))
    if generic or own:
        scale = 0.9 if attribute in STATE else 1.0
        for owner, weight in owners or ((own, 1.0),) if own or owners else ():
            claims.append((named, owner, weight * scale))
            if owner[-1] in PERSONS:
                claims.append((named, _USER, 0.88 * weight * scale))
    if not generic:
        claims.append((named, NOBODY, 0.95 if not own else 0.7))
        if role & HANDLE:
            handle, words = HANDED if output else _ASKED, (*own, attribute)
            claims.append((handle, words, 1.0))
            if attribute in PERSONS:
                claims.append((handle, _USER, 1.0))
            if not output and attribute in HANDLES:
                claims.append((named, words, HANDLES[attribute]))
        if output and not own:
            claims += [(attribute, owner, 0.9 * weight) for owner, weight in owners]
    elif attribute == "uuid":
        # Good whatever it identifies.
        claims.append((named, NOBODY, 0.8))
    if attribute == "login":
        claims.append((named, _USER, 0.92))
    return claims


def parts_of(owner: Phrase, output: int) -> list[tuple[str, float]]:
    """The names an owner goes by: `service plan` and `serviceplan`, and, as one of several kinds of plan, `plan`.

    Where both are of some kind, the kinds must agree. So what is given as `service plan` is also given as `plan`, and
    what is asked for as `service plan` is also asked for as `a plan`, which only what is given as `plan` is called.
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
            found.append((tail if output else f"a {tail}", SHARES[cut - 1]))
    return found


SHARES = (0.9, 0.8, 0.8)
"""What a name counts for that leaves out so many of the words before it."""


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
    unread: int
    """How many values were not read, because there are too many."""


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
    nested: int
    """How many entities around it are not what the tool is about."""
    sort: str
    """The sort of value that the entity which holds it is called as."""


_MAX_NESTED = 3


class _Subject(NamedTuple):
    """What a tool says of the values that it takes or gives."""

    side: int
    """`OUTPUT` for what it gives."""
    noun: Phrase
    """What it is about."""
    held: Mapping[str, Phrase]
    """Whose the ids are that stand in its path, or in its name."""
    channel: str
    """The sort of value that it reaches people by."""
    makes: bool
    """Whether it makes the thing that it is about."""
    words: Phrase
    """Its name."""

    def sends(self, name: str) -> bool:
        """Whether a parameter of this name says who sends."""
        return bool(self.channel) and self.words[0] not in READING and not SENDERS.isdisjoint(words_of(name))

    def owns(self, sort: str) -> bool:
        """Whether the addresses that it gives are those of whoever asks."""
        return sort_in(self.noun)[0] == sort or not SELF.isdisjoint(self.words)


def told_of(tool: Tool) -> Told:
    """All that is compared of a tool."""
    words = words_of(tool.name)
    text = f"{' '.join(words)}. {_read_beginning(tool.description)}"
    channel = channel_in(text)
    noun, held = _read_subject(tool, words)
    taken, given = fields_of(tool.parameters), fields_of(tool.output_parameters)
    needed = needed_of(field.path for field in taken.found if field.required)
    inputs = _read_values(taken.found, _Subject(0, noun, held, channel, not MAKING.isdisjoint(words), words), needed)
    outputs = _read_values(given.found, _Subject(OUTPUT, noun, {}, "", False, words), frozenset())
    if not GONE.isdisjoint(words[:2]):
        # The id that came in goes out again, and stands for nothing any more.
        gone = frozenset(map(_last_words, inputs.paths))
        left = [row for row in zip(*outputs, strict=True) if _last_words(row[0]) not in gone]
        outputs = Values(*map(list, zip(*left, strict=True))) if left else Values([], [], [], [])
    return Told(outputs, inputs, len(needed), text, taken.unread + given.unread)


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


def _read_values(fields: list[SchemaField], subject: _Subject, needed: frozenset[str]) -> Values:
    found = Values([], [], [], [])
    noun = subject.noun
    for field in fields:
        if not (field.kinds | field.items) & _TELLING:
            continue
        place = _read_place(field.holder, noun)
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


def _read_kind(field: SchemaField, place: _Place, subject: _Subject) -> Kind | None:
    """What is compared of one value; None for what no other tool's answer is for, or is nobody's."""
    side, noun, held, channel, makes, _ = subject
    name = read_name(field.name) if field.name else read_words(noun)
    if name is None or (side and name.state and name.attribute != "state"):
        return None
    if name.alone and field.holder.parents and read_name(f"{field.holder.parents[-1]}_{field.name}") is None:
        # `sort.by` is `sort_by`.
        return None
    if field.items and name.listed:
        name = read_words(name.listed) or name
    name = _read_sort(name, field, place, channel)
    if not name.tells and name.attribute not in SORTS:
        name = _read_moment(name, field, subject)
    if name.attribute in OWN and (subject.sends(field.name) if not side else subject.owns(name.attribute)):
        name = name._replace(attribute=OWN[name.attribute])
    if side and name.state:
        return None
    if name.tells:
        whose = name.own or place.inner or noun
        if makes and name.attribute in _NAMES and name.plain and noun[-len(whose) :] == whose:
            # What a thing will be called is up to whoever makes it.
            return None
        own = name.own or held.get(field.path, ())
        name = name._replace(own=_qualify(own, noun))
    elif makes and name.attribute in SORTS and not name.own:
        name = name._replace(own=place.inner or noun)
    told = owner_in(field.description[:_MAX_READ]) if name.tells and field.description else ()
    if name.own:
        # Of `payor_payment_id` the payor is not told, whatever else is said of it.
        owners = _told_owners(told, name.own) if told and told[-1] not in name.own[:-1] else ()
    else:
        owners = _find_owners(told, place.inner, place.wrapper, place.hint, noun) if told else place.owners
        if name.generic and not owners and name.attribute not in ALONE and name.attribute not in SORTS:
            return None
    spoken = name.spoken
    if name.alone and place.around:
        spoken = f"{place.spoken} {spoken}" if spoken not in place.around else place.spoken
    measured = not (field.kinds | field.items) & STRING and not name.tells and name.attribute not in SORTS
    return Kind(
        required=field.required and not side,
        state=name.state or measured,
        spoken=spoken,
        description=field.description,
        shape=field.kinds | field.items << ITEMS | (1 << MANY if field.holder.lists else 0),
        attribute=name.attribute,
        own=name.own,
        generic=name.generic,
        owners=owners,
        role=side | (HANDLE if not side or (field.kinds | field.items) & SCALAR else 0),
    )


def _read_moment(name: Name, field: SchemaField, subject: _Subject) -> Name:
    """A name as that of a moment, if it is one."""
    kinds, words = field.kinds | field.items, words_of(field.name)
    if not kinds & (STRING | INTEGER | NUMBER) or not words:
        return name
    if field.holder.parents and words_of(field.holder.parents[-1])[-1:] in (("start",), ("end",), ("due",)):
        words = (*words_of(field.holder.parents[-1])[-1:], *words)
    sort, own = moment_in(words, field.format, field.description[:_MAX_READ], plain=not kinds & STRING)
    if not subject.side:
        if subject.words[0] in READING:
            sort = {"begin": "since", "end": "until"}.get(sort, sort)
        elif sort == "past" and not own:
            # When it was made is not for others to say.
            sort = ""
    return name._replace(attribute=sort, own=own, generic=True, state=False) if sort else name


_NAMES = IDENTITY - {"id", "uuid", "number", "index", "sha", "reference"}


def _qualify(entity: Phrase, noun: Phrase) -> Phrase:
    """An entity as the tool calls it: of a tool about image actions, an action is an image action. A user is a user."""
    known = len(noun) > len(entity) > 0 and noun[-len(entity) :] == entity and entity[-1] not in PERSONS
    return noun if known else entity


def _read_sort(name: Name, field: SchemaField, place: _Place, channel: str) -> Name:
    """A name as its format, surroundings and description would have it, where it does not say itself what sort of value
    it is.
    """
    if not (field.kinds | field.items) & SCALAR:
        return name
    if name.attribute in SORTS:
        if channel and name.attribute == "location" and not ROLES.isdisjoint(words_of(field.name)):
            return name._replace(attribute=channel)
        whose = head_of(field.description[:_MAX_READ])[1] if name.own and field.description else ()
        return name._replace(own=whose) if whose and whose[-1] not in ROLES and len(whose) <= len(name.own) else name
    around = place.sort
    if around and not name.own and (name.attribute in _BARE or (around == "url" and not name.state)):
        return name._replace(attribute=around, generic=True, state=False)
    if name.attribute == "state" and any("address" in words_of(parent) for parent in field.holder.parents):
        return name._replace(attribute="region", own=(), generic=True, state=False)
    what, whose = head_of(field.description[:_MAX_READ]) if field.description else ("", ())
    if name.tells:
        # A login that is said to be an address of mail is one.
        person = name.attribute == "login" or (name.own and name.own[-1] in PERSONS)
        return name._replace(attribute=what, own=(), tells=False) if person and what in REACHED else name
    sort = FORMATS.get(field.format, "")
    if sort:
        own = (*name.own, *name.attribute.split("_")) if name.attribute not in ROLES else name.own
        return name._replace(
            attribute=sort, own=() if own and own[-1] in ROLES | IDENTITY else own, generic=True, state=False
        )
    if what in SORTS and not name.state:
        return name._replace(attribute=what, own=() if whose and whose[-1] in ROLES else whose, generic=True)
    if what and whose and not name.own:
        return name._replace(attribute=what, own=whose, generic=True, state=False)
    if channel and name.attribute in ROLES and not name.own:
        return name._replace(attribute=channel, generic=True)
    return name


_BARE = frozenset(("value", "number", "address", "code"))
"""Names that say nothing beside the name of what holds them."""


@lru_cache(REMEMBERED)
def _read_place(holder: Holder, noun: Phrase) -> _Place:
    inner, wrapper = _find_containers(holder.parents)
    inner = _qualify(inner, noun)
    nouns = tool_nouns(holder.hint) if holder.hint else ()
    hint = _qualify(_read_entity(nouns[-1]), noun) if nouns else ()
    around = inner or noun
    owners = _find_owners((), inner, wrapper, hint, noun)
    entities = filter(None, (_read_entity(words_of(name)) for name in holder.parents))
    nested = sum(entity[-1] not in noun for entity in entities)
    return _Place(inner, wrapper, hint, owners, around, " ".join(dict.fromkeys(around)), nested, sort_in(inner)[0])


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
    while len(kept) > 1 and kept[-1] in ONES:
        kept = kept[:-1]
    return () if not kept or (kept[-1] in WRAPPERS and len(kept) == 1) else kept


def _read_beginning(description: str) -> str:
    """The first words of a tool's description."""
    some = " ".join(description[: 2 * _MAX_TOOL_TEXT].split())
    if len(some) < _MAX_TOOL_TEXT and len(description) > 2 * _MAX_TOOL_TEXT:
        # Mostly blank.
        some = " ".join(description.split())
    return some[:_MAX_TOOL_TEXT]
