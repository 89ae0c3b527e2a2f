"""What a value is (`id`) and whose it is (`user`), read from its name, its surroundings and its description.

Both are written as facets: `id of user` with a weight. A value can feed another where they share a facet, as well as
their weights say. `user_id`, `user.id`, `users[].id` and the `id` of `get_user` all have that one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow.facets import (
    ALONE,
    HANDLE,
    MADE,
    OUTPUT,
    Claim,
    Facets,
    Owners,
    Phrase,
    claim,
    counted_out,
)
from toolyard.insight.dataflow.paths import BOOLEAN, SCALAR, Field, Holder, fields_of
from toolyard.insight.dataflow.vocabulary import (
    ADJECTIVES,
    CONTROL,
    EMPTY_NOUNS,
    GENERIC,
    GONE,
    IDENTITY,
    LISTS,
    MAKERS,
    PEOPLE,
    PREPOSITIONS,
    SCOPED,
    STATE,
    STOPS,
    SUFFIXES,
    VERBS,
    VERBS_FIRST,
    VERBS_LAST,
    WEAK_WRAPPERS,
    WRAPPERS,
)
from toolyard.insight.dataflow.words import forget_words, words_in, words_of
from toolyard.model.tool import Tool

_OWNER = re.compile(
    r"\b(?:id|identifier|uuid|uid|sid|name|title|key|code|number|arn|slug|primary key|abbreviation|index|symbol|email|"
    r"reference)s?\b"
    r"(?:\s*\((?:[^)]*)\))?\s+(?:of|for|that identifies|identifying|that describes|assigned to)\s+"
    r"(?:(?:the|a|an|this|your|each|all|any)\s+)?([a-z][\w' -]{2,60})",
    re.I,
)
_IDENTIFIES = re.compile(r"\bidentif(?:ies|y|ying)\s+(?:the|a|an|this)\s+([a-z][\w' -]{2,60})", re.I)
_BEFORE = re.compile(r"\b((?:[a-z][\w-]*\s+){1,3}?)(?:unique\s+)?(?:id|identifier|name|uuid|key|code)s?\b", re.I)
_LEADING = re.compile(r"^(?:an? |the )?(?:(?:list|array|set) of )?(?:the |an? )?", re.I)
_PHRASE_END = re.compile(
    r"\b(?:to|that|which|for|in|of|on|from|is|are|was|will|you|whose|where|when|with|being|used|this|as|by|or|and|if|"
    r"associated|created|specified|returned|the|can|must|should|has|have)\b|[.,;:()\[\]]",
    re.I,
)
_MAX_TEXT = 160
_MAX_TOOL_TEXT = 200
_MAX_READ = 240


class Profile(NamedTuple):
    """What is compared of a value."""

    path: str
    needed: bool
    """Whether a call cannot do without it."""
    required: bool
    state: bool
    """Whether it is told of something rather than tells what it is."""
    text: str
    """What the text signal is computed from."""
    shape: tuple[int, int, int]
    """The kinds of the value, of its items, and whether it is one of many."""
    format: str
    enum: frozenset[str] | None
    attribute: str
    """What it is."""
    own: Phrase
    """Whose it is as far as its name says."""
    generic: bool
    """Whether many unrelated things have such a value."""
    owners: Owners
    """Whose it is by everything else; empty where that is `own`."""
    role: int
    """`OUTPUT`, `HANDLE` and `MADE`, as far as they are so."""

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for values that need not be told apart: all but where it is."""
        return self[2:]

    @property
    def facets(self) -> Facets:
        """What it is and whose, each with a weight."""
        claims: list[Claim] = []
        claim(claims, self.attribute, self.own, self.generic, self.owners, self.role)
        found = counted_out(claims)
        return Facets(tuple(found), tuple(found.values()), self.attribute in SCOPED)


class _Name(NamedTuple):
    """All that the name of a value says."""

    spoken: str
    alone: bool
    """Whether it is one word, which says little."""
    attribute: str
    own: Phrase
    generic: bool
    state: bool
    tells: bool
    """Whether it tells an entity, and so a description may say of whom."""
    listed: Phrase
    """Where it ends as lists do, the words before: of `tag_list`, `tag`."""


class _Place(NamedTuple):
    """All that the surroundings of a value say."""

    inner: Phrase
    """The entity that holds it."""
    wrapper: Phrase
    """The container nearer to it that may be more than a wrapper."""
    hint: Phrase
    noun: Phrase
    owners: Owners
    """What they come to."""
    around: Phrase
    spoken: str


class Told(NamedTuple):
    """What one tool gives and takes."""

    outputs: tuple[Profile, ...]
    inputs: tuple[Profile, ...]
    required: int
    """How many values a call cannot do without."""
    text: str
    """What tools are compared by."""


def told_of(tool: Tool) -> Told:
    """All that is compared of a tool."""
    nouns = tool_nouns(tool.name)
    noun = nouns[-1] if nouns else ()
    words = words_of(tool.name)
    wanted = fields_of(tool.parameters)
    needed = _needed(wanted)
    inputs = _profiles(wanted, _asked(tool.name) or noun, needed, 0, maker=not MAKERS.isdisjoint(words[:2]))
    outputs = _profiles(fields_of(tool.output_parameters), noun, frozenset(), OUTPUT)
    if not GONE.isdisjoint(words[:2]):
        # The id that came in goes out again, and stands for nothing any more.
        given = {words_of(_last(profile.path)) for profile in inputs}
        outputs = [profile for profile in outputs if words_of(_last(profile.path)) not in given]
    text = f"{' '.join(words)}. {' '.join(tool.description.split())[:_MAX_TOOL_TEXT]}"
    return Told(tuple(outputs), tuple(inputs), len(needed), text)


def forget() -> None:
    """Read every name and description anew, as a process does that has just begun."""
    for memo in (_named, _around, _entity, _told, tool_nouns, _asked):
        memo.cache_clear()
    forget_words()


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _needed(fields: list[Field]) -> frozenset[str]:
    """Paths that a call must have: required, and not only the holder of others that are."""
    required = [field.path for field in fields if field.required]
    holders = {path.rpartition(".")[0] for path in required}
    return frozenset(path for path in required if path not in holders)


def _profiles(
    fields: list[Field], noun: Phrase, needed: frozenset[str], side: int, *, maker: bool = False
) -> list[Profile]:
    found = []
    holder, place = None, _NOWHERE
    for path, name, inside, kinds, items, form, enum, description, required, _ in fields:
        known = _named(name) if name else _spelled(noun)
        if known is None:
            continue
        if items and known.listed:
            known = _spelled(known.listed) or known
        spoken, alone, attribute, own, generic, state, tells, _ = known
        if inside is not holder:
            # Values side by side have the same.
            holder, place = inside, _place(inside, noun)
            many = 1 if inside.lists else 0
            *_, others, around, context = place
        told = _told(description[:_MAX_READ]) if tells and description else ()
        owners = _told_owners(told, own, place) if told else () if own else others
        if generic and not own and not owners and attribute not in ALONE:
            continue
        role = side
        if not kinds & BOOLEAN and (not side or items & SCALAR):
            role |= HANDLE
        if maker and tells and not own and not inside.parents:
            role |= MADE
        if alone and around:
            spoken = f"{context} {spoken}" if spoken not in around else context
        text = f"{spoken}: {line}" if description and (line := _line(description)) else spoken
        shape, must = _SHAPES[kinds, items, many], path in needed
        made = (path, must, required, state, text, shape, form, enum, attribute, own, generic, owners, role)
        # As tuples are made: the way over `Profile` itself takes twice as long.
        found.append(tuple.__new__(Profile, made))
    return found


class _Shapes(dict[tuple[int, int, int], tuple[int, int, int]]):
    """One and the same for all that have it: there are few, and never more than the bits of kinds allow."""

    def __missing__(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        self[shape] = shape
        return shape


_SHAPES = _Shapes()


@lru_cache(maxsize=65536)
def _named(name: str) -> _Name | None:
    """What the name of a value says; None for what no other tool's answer is for."""
    words = tuple(words_in(name))
    spoken = " ".join(words)
    return None if name[:2] in _HEADERS or spoken in _CONTROL else _spelled(words, spoken)


_HEADERS = ("x-", "X-")
_CONTROL = frozenset(name.replace("_", " ") for name in CONTROL)


def _spelled(words: Phrase, spoken: str = "") -> _Name | None:
    if not words:
        return None
    last = words[-1]
    if len(words) == 1:
        return tuple.__new__(_Name, (last, True, last, (), last in _COMMON, last in STATE, last in IDENTITY, ()))
    attribute, own, generic = _split(words)
    listed = words[:-1] if last in LISTS else ()
    spoken, tells = spoken or " ".join(words), attribute in IDENTITY
    return tuple.__new__(_Name, (spoken, False, attribute, own, generic, last in STATE, tells, listed))


_COMMON = GENERIC | STATE


def _split(words: Phrase) -> tuple[str, Phrase, bool]:
    """What it is, whose it is as far as the name says, and whether many unrelated things have such a value."""
    if words[0] == "number" and len(words) > 1:
        return "count", tuple(word for word in words[1:] if word != "of"), True
    cut = len(words) - 1
    if words[-1] in PREPOSITIONS and cut:
        cut -= 1
    while cut and words[cut - 1] in ADJECTIVES:
        cut -= 1
    attribute = "_".join(words[cut:])
    return attribute, words[:cut], words[-1] in _COMMON or len(words) - cut > 1


_NOWHERE = _Place((), (), (), (), (), (), "")


def _place(holder: Holder, noun: Phrase) -> _Place:
    inner, wrapper = _around(holder.parents)
    hint = _entity(words_of(holder.hint)) if holder.hint else ()
    around = inner or noun
    spoken = " ".join(dict.fromkeys(around)) if len(around) > 1 else around[0] if around else ""
    owners = _owners((), inner, wrapper, hint, noun)
    return tuple.__new__(_Place, (inner, wrapper, hint, noun, owners, around, spoken))


def _told_owners(told: Phrase, own: Phrase, place: _Place) -> Owners:
    """Whose value it is where its description names an entity."""
    if own:
        # `request_id`, described as the id of a check, is rather the check's.
        return ((own, 1.0 if told[-1] in own else 0.85), (told, 0.9))
    return _owners(told, place.inner, place.wrapper, place.hint, place.noun)


def _owners(told: Phrase, inner: Phrase, wrapper: Phrase, hint: Phrase, noun: Phrase) -> Owners:
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
    for owner, _ in found:
        if owner[-1] in PEOPLE:
            found.append((("user",), 0.88))
            break
    return tuple(found)


@lru_cache(maxsize=65536)
def _around(parents: tuple[str, ...]) -> tuple[Phrase, Phrase]:
    """The entity that holds a value, and the container nearer to it that may be more than a wrapper."""
    wrapper: Phrase = ()
    for name in reversed(parents):
        words = words_of(name)
        entity = _entity(words)
        if entity:
            return entity, wrapper
        if words and words[-1] in WEAK_WRAPPERS and not wrapper:
            wrapper = words
    return (), wrapper


@lru_cache(maxsize=65536)
def _entity(words: Phrase) -> Phrase:
    """A container's name as an entity; empty if it only wraps."""
    kept = tuple(word for word in words if not word.isdigit())
    return () if not kept or (kept[-1] in WRAPPERS and len(kept) == 1) else kept


@lru_cache(maxsize=16384)
def _told(description: str) -> Phrase:
    """The entity that a description names, as in `The unique identifier of the balance account`."""
    match = _OWNER.search(description)
    if not match and "dent" in description.lower():
        match = _IDENTIFIES.search(description)
    if match:
        return _noun_phrase(_PHRASE_END.split(match.group(1), 1)[0])
    match = _BEFORE.match(_LEADING.sub("", description))
    return _noun_phrase(match.group(1)) if match else ()


_BEFORE_NOUNS = EMPTY_NOUNS | VERBS


def _noun_phrase(text: str) -> Phrase:
    words = tuple(words_in(text))
    while words and words[0] in _BEFORE_NOUNS:
        words = words[1:]
    return words[-3:] if words and words[-1] not in EMPTY_NOUNS else ()


@lru_cache(maxsize=65536)
def tool_nouns(name: str) -> list[Phrase]:
    """What a tool is about: `list_team_members` -> `[team member]`, `get-accounts-id-limits` -> `[account, limit]`."""
    nouns: list[Phrase] = []
    part: list[str] = []
    words = words_of(name)
    for at, word in enumerate((*words, "id")):
        verb = word in VERBS or (at == 0 and word in VERBS_FIRST) or (at == len(words) - 1 and word in VERBS_LAST)
        if verb or word.isdigit():
            if len(part) > 1 and part[-1] in SUFFIXES:
                part.pop()
            if part:
                nouns.append(tuple(part))
                part = []
            if word in STOPS and nouns:
                break
        else:
            part.append(word)
    return nouns


@lru_cache(maxsize=65536)
def _asked(name: str) -> Phrase:
    """Whose `id` a call is about: in `get-accounts-id-limits` the account's."""
    words = words_of(name)
    if "id" not in words[1:]:
        return ()
    before: list[str] = []
    for word in reversed(words[: len(words) - 1 - words[::-1].index("id")]):
        if word in VERBS:
            break
        before.insert(0, word)
    return tuple(before)


def _line(description: str) -> str:
    """The beginning of a description, in one line."""
    line = description[:_MAX_TEXT]
    if line.isprintable() and "  " not in line and line[0] != " " and line[-1] != " ":
        # Only plain blanks, one at a time: nothing to do.
        return line
    return " ".join(description[: 2 * _MAX_TEXT].split())[:_MAX_TEXT]
