"""What a value is (`id`) and whose it is (`user`), read from its name, its surroundings and its description.

Both are written as facets: `id of user` with a weight. A value can feed another where they share a facet, as well as
their weights say. `user_id`, `user.id`, `users[].id` and the `id` of `get_user` all have that one.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow.paths import BOOLEAN, SCALAR, Field, fields_of
from toolyard.insight.dataflow.vocabulary import (
    ADJECTIVES,
    CONTENT,
    CONTROL,
    EMPTY_NOUNS,
    GENERIC,
    GONE,
    HANDLES,
    IDENTITY,
    LISTS,
    MAKERS,
    PEOPLE,
    PREPOSITIONS,
    SAME,
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
from toolyard.insight.dataflow.words import words_in, words_of
from toolyard.model.tool import Tool

Phrase = tuple[str, ...]
"""Words of an entity, the one that counts last: `("service", "plan")`."""

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


class Facets(NamedTuple):
    """What a value is and whose, each with a weight."""

    number: int
    """The same for the same facets, as long as they are remembered."""
    keys: tuple[str, ...]
    weights: tuple[float, ...]
    scoped: bool
    """Whether it means something only where it comes from: an id, but not a city."""


class Profile(NamedTuple):
    """What is compared of a value."""

    path: str
    required: bool
    needed: bool
    """Whether a call cannot do without it."""
    state: bool
    """Whether it is told of something rather than tells what it is."""
    facets: Facets
    text: str
    """What the text signal is computed from."""
    shape: tuple[int, int, int]
    """The kinds of the value, of its items, and whether it is one of many."""
    format: str
    enum: frozenset[str] | None

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for values that need not be told apart."""
        return (self.text, self.facets.number, self.shape, self.required, self.format, self.enum)


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
    inputs = _profiles(wanted, _asked(tool.name) or noun, needed, maker=not MAKERS.isdisjoint(words[:2]))
    outputs = _profiles(fields_of(tool.output_parameters), noun, frozenset(), output=True)
    if not GONE.isdisjoint(words[:2]):
        # The id that came in goes out again, and stands for nothing any more.
        given = {words_of(_last(profile.path)) for profile in inputs}
        outputs = [profile for profile in outputs if words_of(_last(profile.path)) not in given]
    text = f"{' '.join(words)}. {' '.join(tool.description.split())[:_MAX_TOOL_TEXT]}"
    return Told(tuple(outputs), tuple(inputs), len(needed), text)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _needed(fields: list[Field]) -> frozenset[str]:
    """Paths that a call must have: required, and not only the holder of others that are."""
    required = [field.path for field in fields if field.required]
    holders = {path.rpartition(".")[0] for path in required}
    return frozenset(path for path in required if path not in holders)


def _profiles(
    fields: list[Field], noun: Phrase, needed: frozenset[str], *, output: bool = False, maker: bool = False
) -> list[Profile]:
    found = []
    for field in fields:
        words = _named(field.name) if field.name else noun
        if not words:
            continue
        if field.items and len(words) > 1 and words[-1] in LISTS:
            words = words[:-1]
        around = _around(field.parents)
        attribute, own, generic = _split(words)
        made = maker and not own and not field.parents and attribute in IDENTITY
        owners = _owners(field, attribute, own, noun, around)
        handles = 0 if field.kinds & BOOLEAN else 1 if not output else 2 if field.items & SCALAR else 0
        facets = _facets(attribute, own, generic, tuple(owners), output, made, handles)
        if facets.keys:
            shape = (field.kinds, field.items, min(field.lists, 1))
            text = _text(field.description, words, around[0] or noun)
            state, must = words[-1] in STATE, field.path in needed
            found.append(
                Profile(field.path, field.required, must, state, facets, text, shape, field.format, field.enum)
            )
    return found


@lru_cache(maxsize=65536)
def _named(name: str) -> Phrase:
    """The words of a value's name; none for what no other tool's answer is for."""
    words = words_of(name)
    return () if "_".join(words) in CONTROL or name[:2].lower() == "x-" else words


@lru_cache(maxsize=32768)
def _facets(
    attribute: str,
    own: Phrase,
    generic: bool,
    owners: tuple[tuple[Phrase, float], ...],
    output: bool,
    made: bool,
    handles: int,
) -> Facets:
    facets: dict[str, float] = {}
    if generic or own:
        # The name of what is about to be made is nobody's yet.
        scale = (0.9 if attribute in STATE else 1.0) * (0.55 if made else 1.0)
        for owner, weight in owners:
            _own(facets, attribute, owner, weight * scale)
    words = (*own, attribute)
    if not generic:
        _put(facets, attribute, 0.95 if not own else 0.7)
        if handles == 1:
            for handle, weight in HANDLES.items():
                _own(facets, handle, words, weight)
        elif handles == 2:
            _own(facets, "id", words, 0.75)
            _own(facets, "name", words, 0.6)
        if output and not own:
            for parent, weight in owners:
                _own(facets, attribute, parent, 0.9 * weight)
    elif attribute == "uuid" or attribute in CONTENT:
        # An identifier that is good whatever it identifies; a text is a text.
        _put(facets, attribute, 0.8)
    if attribute == "login":
        _own(facets, attribute, ("user",), 0.92)
    if not output and attribute in _OTHERS:
        _add_same(facets, attribute)
    return Facets(next(_numbers), tuple(facets), tuple(facets.values()), attribute in SCOPED)


_numbers = itertools.count()


@lru_cache(maxsize=65536)
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
    return attribute, words[:cut], words[-1] in GENERIC or words[-1] in STATE or len(words) - cut > 1


def _owners(
    field: Field, attribute: str, own: Phrase, noun: Phrase, around: tuple[Phrase, Phrase]
) -> list[tuple[Phrase, float]]:
    """Whose value it is, by everything that says so: (phrase, how much it counts)."""
    found: list[tuple[Phrase, float]] = []
    told = _told(field.description[:_MAX_READ]) if field.description and attribute in IDENTITY else ()
    if own:
        # `request_id`, described as the id of a check, is rather the check's.
        found.append((own, 1.0 if not told or told[-1] in own else 0.85))
    if told:
        found.append((told, 0.97 if not own else 0.9))
    if own:
        return found
    inner, wrapper = around
    if inner:
        found.append((inner, 0.97))
    if wrapper:
        found.append((wrapper, 0.85))
    hint = _entity(words_of(field.hint)) if field.hint else ()
    if hint and hint != inner:
        found.append((hint, 0.9))
    if noun and not inner:
        found.append((noun, 0.88 if not told else 0.75))
    if any(owner[-1] in PEOPLE for owner, _ in found):
        found.append((("user",), 0.88))
    return found


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
    for pattern in (_OWNER, _IDENTIFIES):
        match = pattern.search(description)
        if match:
            return _noun_phrase(_PHRASE_END.split(match.group(1), 1)[0])
    match = _BEFORE.match(_LEADING.sub("", description))
    return _noun_phrase(match.group(1)) if match else ()


def _noun_phrase(text: str) -> Phrase:
    words = tuple(words_in(text))
    while words and words[0] in EMPTY_NOUNS | VERBS:
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


def _own(facets: dict[str, float], attribute: str, owner: Phrase, weight: float) -> None:
    """`id of service plan`, and a little less `id of plan`."""
    for phrase, share in _parts(owner):
        key = f"{attribute} of {phrase}"
        if weight * share > facets.get(key, 0.0):
            facets[key] = weight * share


@lru_cache(maxsize=65536)
def _parts(owner: Phrase) -> list[tuple[str, float]]:
    parts = [(" ".join(owner[cut:]), (1.0, 0.85, 0.75)[min(cut, 2)]) for cut in range(min(len(owner), 4))]
    return [*parts, ("".join(owner), 0.95)] if len(owner) > 1 else parts


def _put(facets: dict[str, float], key: str, weight: float) -> None:
    if weight > facets.get(key, 0.0):
        facets[key] = weight


def _add_same(facets: dict[str, float], attribute: str) -> None:
    """An input under the names of outputs that will do."""
    whole = len(attribute)
    owners = [(key[whole:], value) for key, value in facets.items() if key.startswith(attribute) and _ends(key, whole)]
    for other, weight in _OTHERS[attribute]:
        for owner, value in owners:
            _put(facets, other + owner, value * weight)


def _ends(key: str, at: int) -> bool:
    return len(key) == at or key[at] == " "


_OTHERS: dict[str, list[tuple[str, float]]] = {}
for (_first, _second), _weight in SAME.items():
    _OTHERS.setdefault(_second, []).append((_first, _weight))


def _text(description: str, words: Phrase, around: Phrase) -> str:
    """The name, with what holds it if the name alone says little, and the description."""
    named = " ".join(dict.fromkeys((*around, *words)) if len(words) == 1 else words)
    text = " ".join(description[: 2 * _MAX_TEXT].split())[:_MAX_TEXT] if description else ""
    return f"{named}: {text}" if text else named
