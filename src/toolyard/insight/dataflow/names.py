"""What a value is called, and what its description calls it: words of names, each worked out once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow.value_meanings import (
    ADJECTIVES,
    CONTROL,
    EMPTY_NOUNS,
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
    Phrase,
)
from toolyard.words.identifiers import singular

REMEMBERED = 65536
"""Names of each sort that are worked out once; a catalog has few different ones, each of them many times."""
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_a-zA-Z]+")
_IDS = re.compile("IDS(?![a-z])|ID")

_FORMS = {
    **dict.fromkeys(("identifier", "uid", "sid", "ids", "pk", "oid"), ("id",)),
    "addr": ("address",),
    "acct": ("account",),
    "amt": ("amount",),
    "apis": ("api",),
    "app": ("application",),
    "cat": ("category",),
    "cfg": ("configuration",),
    "config": ("configuration",),
    "conf": ("configuration",),
    "ccy": ("currency",),
    "dept": ("department",),
    "desc": ("description",),
    "dest": ("destination",),
    "dir": ("directory",),
    "doc": ("document",),
    "env": ("environment",),
    "filename": ("file", "name"),
    "filepath": ("file", "path"),
    "firstname": ("first", "name"),
    "fullname": ("full", "name"),
    "geo": ("geo",),
    "hostname": ("host", "name"),
    "img": ("image",),
    "info": ("information",),
    "lang": ("language",),
    "lastname": ("last", "name"),
    "lat": ("latitude",),
    "lng": ("longitude",),
    "lon": ("longitude",),
    "loc": ("location",),
    "msg": ("message",),
    "msisdn": ("phone",),
    "nickname": ("nick", "name"),
    "num": ("number",),
    "org": ("organization",),
    "organisation": ("organization",),
    "param": ("parameter",),
    "pct": ("percent",),
    "percentage": ("percent",),
    "guid": ("uuid",),
    "pkg": ("package",),
    "phonenumber": ("phone", "number"),
    "pic": ("picture",),
    "postcode": ("postal", "code"),
    "zip": ("postal",),
    "zipcode": ("postal", "code"),
    "prod": ("product",),
    "qty": ("quantity",),
    "ref": ("reference",),
    "repo": ("repository",),
    "src": ("source",),
    "tel": ("phone",),
    "telephone": ("phone",),
    "temp": ("temperature",),
    "timezone": ("time", "zone"),
    "tz": ("time", "zone"),
    "txn": ("transaction",),
    "uri": ("url",),
    "link": ("url",),
    "href": ("url",),
    "userid": ("user", "id"),
    "username": ("user", "login"),
    "val": ("value",),
    "ver": ("version",),
    "vol": ("volume",),
    "mail": ("email",),
    "ticker": ("symbol",),
}


@lru_cache(REMEMBERED)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name: lower case, singular, abbreviations written out."""
    return tuple(words_in(name))


def words_in(text: str) -> list[str]:
    """The same of a text that is not worth remembering."""
    found: list[str] = []
    if "ID" in text:
        text = _IDS.sub(lambda found: found[0].capitalize(), text)
    for part in _PARTS.findall(text):
        found += _form(part)
    return found


@lru_cache(REMEMBERED)
def _form(part: str) -> tuple[str, ...]:
    word = part.lower()
    if word in _FORMS:
        return _FORMS[word]
    if word[-1] != "s":
        return (word,)
    single = singular(word)
    return _FORMS.get(single, (single,))


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


@lru_cache(REMEMBERED)
def read_name(name: str) -> Name | None:
    """What the name of a value says; None for what no other tool's answer is for."""
    words = tuple(words_in(name))
    spoken = " ".join(words)
    return None if name[:2] in _HEADERS or spoken in _CONTROL else read_words(words, spoken)


_HEADERS = ("x-", "X-")
_CONTROL = frozenset(name.replace("_", " ") for name in CONTROL)


def read_words(words: Phrase, spoken: str = "") -> Name | None:
    """What a name of these words says."""
    if not words:
        return None
    *before, last = words
    state = last in STATE
    if not before:
        return Name(last, True, last, (), state or last in GENERIC, state, last in IDENTITY, ())
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
    return Name(spoken, False, attribute, own, generic, state, tells, listed)


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


@lru_cache(REMEMBERED // 4)
def owner_in(description: str) -> Phrase:
    """The entity that a description names, as in `The unique identifier of the balance account`."""
    lower = description.lower()
    if len(lower) != len(description):
        # A letter that is longer in lower case.
        description = lower
    match = _OWNER.search(lower) or _IDENTIFIES.search(lower)
    if match:
        return _noun_phrase(_cut_phrase(description[slice(*match.span(1))]))
    leading = _LEADING.match(lower)
    match = _BEFORE.match(lower, leading.end() if leading else 0)
    return _noun_phrase(description[slice(*match.span(1))]) if match else ()


def _cut_phrase(text: str) -> str:
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
