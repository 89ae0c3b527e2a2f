"""What names say: of a value, what it is and whose (`user_id`); of a tool, what it is about."""

from __future__ import annotations

from typing import NamedTuple

from toolyard.insight.dataflow.facets import Phrase
from toolyard.insight.dataflow.memo import remembered
from toolyard.insight.dataflow.vocabulary import (
    ADJECTIVES,
    CONTROL,
    GENERIC,
    IDENTITY,
    LISTS,
    PREPOSITIONS,
    STATE,
    STOPS,
    SUFFIXES,
    VERBS,
    VERBS_FIRST,
    VERBS_LAST,
)
from toolyard.insight.dataflow.words import words_in, words_of


class Name(NamedTuple):
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
    asked: set[str] | None = None
    """Of outputs: how owners end from whom it is asked for; None where it is asked for whosoever it is."""


@remembered(65536)
def named(name: str) -> Name | None:
    """What the name of a value says; None for what no other tool's answer is for."""
    words = tuple(words_in(name))
    spoken = " ".join(words)
    return None if name[:2] in _HEADERS or spoken in _CONTROL else spelled(words, spoken)


_HEADERS = ("x-", "X-")
_CONTROL = frozenset(name.replace("_", " ") for name in CONTROL)


def spelled(words: Phrase, spoken: str = "") -> Name | None:
    """What a name of these words says."""
    if not words:
        return None
    *before, last = words
    state = last in STATE
    if not before:
        return tuple.__new__(Name, (last, True, last, (), state or last in GENERIC, state, last in IDENTITY, (), None))
    if words[0] == "number":
        attribute, own, generic = "count", tuple(word for word in words[1:] if word != "of"), True
    else:
        cut = end = len(before)
        if last in PREPOSITIONS:
            cut -= 1
        while cut and before[cut - 1] in ADJECTIVES:
            cut -= 1
        attribute, own = last if cut == end else "_".join(words[cut:]), words[:cut]
        generic = state or cut < end or last in GENERIC
    listed = words[:-1] if last in LISTS else ()
    spoken, tells = spoken or " ".join(words), attribute in IDENTITY
    return tuple.__new__(Name, (spoken, False, attribute, own, generic, state, tells, listed, None))


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


def asked_of(name: str) -> Phrase:
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
