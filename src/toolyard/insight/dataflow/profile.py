"""What a value is (`id`) and whose it is (`user`), read from its name, its surroundings and its description.

Both are written as facets: `id of user` with a weight. A value can feed another where they share a facet, as well as
their weights say. `user_id`, `user.id`, `users[].id` and the `id` of `get_user` all have that one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow.facets import ALONE, HANDLE, MADE, OUTPUT, Owners, Phrase
from toolyard.insight.dataflow.kinds import KindRow, Shape, Told, Values
from toolyard.insight.dataflow.paths import FieldRow, Holder, rows_of
from toolyard.insight.dataflow.settle import BOOLEAN, SCALAR
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
    r"(?:(?:the|a|an|this|your|each|all|any)\s+)?([a-z][\w' -]{2,60})"
)
_IDENTIFIES = re.compile(r"\bidentif(?:ies|y|ying)\s+(?:the|a|an|this)\s+([a-z][\w' -]{2,60})")
_LEADING = re.compile(r"(?:an? |the )?(?:(?:list|array|set) of )?(?:the |an? )?")
_BEFORE = re.compile(r"\b((?:[a-z][\w-]*\s+){1,3}?)(?:unique\s+)?(?:id|identifier|name|uuid|key|code)s?\b")
# All of them are for texts in lower case, where they are found in half the time.
_WORD = re.compile(r"\w+|[.,;:()\[\]]")
_PHRASE_ENDS = frozenset(
    """to that which for in of on from is are was will you whose where when with being used this as by or and if
    associated created specified returned the can must should has have . , ; : ( ) [ ]""".split()  # noqa: SIM905
)
_MAX_TOOL_TEXT = 200
_MAX_READ = 240


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


def told_of(tool: Tool) -> Told:
    """All that is compared of a tool."""
    nouns = tool_nouns(tool.name)
    noun = nouns[-1] if nouns else ()
    words = words_of(tool.name)
    wanted = rows_of(tool.parameters)
    needed = _needed(wanted)
    inputs = _values(wanted, _asked(tool.name) or noun, needed, 0, maker=not MAKERS.isdisjoint(words[:2]))
    outputs = _values(rows_of(tool.output_parameters), noun, frozenset(), OUTPUT)
    if not GONE.isdisjoint(words[:2]):
        # The id that came in goes out again, and stands for nothing any more.
        given = {words_of(_last(path)) for path in inputs.paths}
        kept = [words_of(_last(path)) not in given for path in outputs.paths]
        outputs = outputs.only(kept)
    text = f"{' '.join(words)}. {_beginning(tool.description)}"
    return Told(outputs, inputs, len(needed), text)


def forget() -> None:
    """Read every name and description anew, as a process does that has just begun."""
    for memo in (_named, _around, _entity, _told):
        memo.cache_clear()
    forget_words()


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _needed(fields: list[FieldRow]) -> frozenset[str]:
    """Paths that a call must have: required, and not only the holder of others that are."""
    required = [field[0] for field in fields if field[8]]
    holders = {path.rpartition(".")[0] for path in required}
    return frozenset(path for path in required if path not in holders)


def _values(fields: list[FieldRow], noun: Phrase, needed: frozenset[str], side: int, *, maker: bool = False) -> Values:
    paths: list[str] = []
    kept: list[KindRow] = []
    holder, place = None, _NOWHERE
    for path, name, inside, kinds, items, form, enum, description, required, _ in fields:
        known = _named(name) if name else _spelled(noun)
        if known is None:
            continue
        spoken, alone, attribute, own, generic, state, tells, listed = known
        if items and listed:
            spoken, alone, attribute, own, generic, state, tells, _ = _spelled(listed) or known
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
        paths.append(path)
        shape, must = _SHAPES[kinds, items, many], required and not side
        kept.append((must, state, spoken, description, shape, form, enum, attribute, own, generic, owners, role))
    return Values(paths, [path in needed for path in paths] if needed else [False] * len(paths), kept)


class _Shapes(dict[Shape, Shape]):
    """One and the same for all that have it: there are few, and never more than the bits of kinds allow."""

    def __missing__(self, shape: Shape) -> Shape:
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
    lower = description.lower()
    if len(lower) != len(description):
        # A letter that is longer in lower case.
        description = lower
    match = _OWNER.search(lower)
    if not match and "dent" in lower:
        match = _IDENTIFIES.search(lower)
    if match:
        return _noun_phrase(_phrase(description[slice(*match.span(1))]))
    leading = _LEADING.match(lower)
    match = _BEFORE.match(lower, leading.end() if leading else 0)
    return _noun_phrase(description[slice(*match.span(1))]) if match else ()


def _phrase(text: str) -> str:
    """What stands before the first word, or sign, that ends a phrase."""
    for word in _WORD.finditer(text):
        if word[0].lower() in _PHRASE_ENDS:
            return text[: word.start()]
    return text


_BEFORE_NOUNS = EMPTY_NOUNS | VERBS


def _noun_phrase(text: str) -> Phrase:
    words = tuple(words_in(text))
    while words and words[0] in _BEFORE_NOUNS:
        words = words[1:]
    return words[-3:] if words and words[-1] not in EMPTY_NOUNS else ()


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


def _beginning(description: str) -> str:
    """The first words of a tool's description."""
    some = " ".join(description[: 2 * _MAX_TOOL_TEXT].split())
    if len(some) < _MAX_TOOL_TEXT:
        # Short, or mostly blank.
        some = " ".join(description.split())
    return some[:_MAX_TOOL_TEXT]
