"""What a description says in its first sentence, and where it says what is returned: a verb and noun phrases."""

from __future__ import annotations

import re
from itertools import islice

import msgspec

from toolyard.insight.outputs.nouns import FILLERS, LINKS, LISTS, VAGUE, word_set
from toolyard.insight.outputs.sections import ListedField, fields_of, read_sections, type_of
from toolyard.model.tool import Schema
from toolyard.words.identifiers import split_ascii_identifier
from toolyard.words.plurals import is_plural
from toolyard.words.verbs import base_verb

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*(?:[-'\u2019][A-Za-z0-9_]+)*|[.,;:()/&!?]")
_CAMEL = re.compile("[a-z]{2,}[A-Z]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_PARAGRAPH = re.compile(r"(?<![.!?:;,\s])[ \t]*\n[ \t]*\n\s*")
_LEAD = re.compile(
    r"""\s*(?:(?:this|the|an?)\s+(?:\w+\s+){0,2}?(?:tool|function|api|method|endpoint|operation)\s+)?
    (?:(?:is\s+)?(?:used|designed)\s+to|use\s+this\s+(?:\w+\s+)?to|(?:allows?|enables?|helps?)\s+(?:\w+\s+){0,2}?to
    |lets?\s+(?:you|users)|can(?:\s+be\s+used\s+to)?|will)\s+
    |\s*(?:this|the)\s+(?:tool|function|api|method|endpoint|operation)\s+""",
    re.IGNORECASE | re.VERBOSE,
)
"""As in `This tool allows users to`: the verb stands behind it."""
_RETURNS = re.compile(
    r"(?:\breturns|(?<=\. )return|\b(?:will|(?<!used )to|and|then) return|\breturning|\boutputs|\bresponds? with"
    r"|\bgives back|\bresponse (?:contains|includes)|\band (?:get|receive))\b:?\s+",
    re.IGNORECASE,
)
_HOLDS = re.compile(
    r"(?:an?|the)?\s*(?:json )?(?:dict(?:ionary)?|object|response|tuple|list|array|string|integer|int|float|number)s?"
    r"\s+"
    r"(?:(?:that|which)\s+)?(?:represent(?:s|ing)|contain(?:s|ing)|indicat(?:es|ing)|with|holding|of)\s+(?:the\s+)?"
    r"(?:(?:following\s+)?(?:keys|fields|properties|values)\b)?:?\s*",
    re.IGNORECASE,
)
"""As in `a JSON object with the fields`: what matters stands behind it."""
_NO_ANSWER = re.compile(
    r"\b(?:error|none|null|nothing|exception|empty)\b|^no\b|^success\b|^(?:dates?|times?|flights?|trips?|of|for)\b",
    re.IGNORECASE,
)
"""What is returned on failure; or no verb at all, as in `the return dates`."""
_CONDITION = re.compile(r"(?:if|when|unless|should|otherwise|by default|on failure)\b", re.IGNORECASE)
"""How a sentence begins about what is not always so."""
_FLAG = re.compile(r"""^["'`]?(?:an? )?(?:true|false|boolean|whether|if)\b""", re.IGNORECASE)
_LISTED = frozenset((",", "and", "or", "&", "/"))
_ENDS = frozenset((".", ";", ":", ")", "!", "?", "such", "etc"))
_STOPS = frozenset((*_LISTED, *_ENDS, "("))
_ABOUT = frozenset(("about", "on", "of", "for", "regarding"))
_SUBJECTS = word_set(
    "a an this these you they we it i he she has have is are can must will may based associated related using "
    "including containing available"
)
"""Words with which something is said about the noun before."""
_SHARED = word_set("a an in as on at me over under per via us to so all")
"""Small words that mean something in other languages, too."""
_ENGLISH = (LINKS | FILLERS | {"and", "or", "is", "are", "be", "it", "if", "not", "will", "can"}) - _SHARED
_TYPE_WORDS = word_set("string integer int float number boolean bool object dict json array list both either")
_WRAPPERS = frozenset(("object", "objects", "instance", "resource", "resources"))
_MOST = 8
_MOST_STATEMENTS = 24
_MOST_LETTERS = 1000
"""Of a sentence about the answer; what is longer is none."""


class Phrase(msgspec.Struct, frozen=True):
    """A noun with what stands before it, such as `average daily price`, and what it is a price of."""

    words: tuple[str, ...]
    of: tuple[str, ...] = ()
    many: bool = False
    """True for a list of them, or a plural."""

    @property
    def head(self) -> str:
        """The noun itself."""
        return self.words[-1]

    @property
    def text(self) -> str:
        """The phrase as it is read."""
        return " ".join(self.words) + (f" of {' '.join(self.of)}" if self.of else "")


class Reading(msgspec.Struct, frozen=True):
    """A description, as far as it is understood."""

    verb: str | None = None
    things: tuple[Phrase, ...] = ()
    """What the verb is done to."""
    asks: str = ""
    """The words behind `if` or `whether`, where that is what is found out."""
    returned: tuple[Phrase, ...] = ()
    """What is said to be returned."""
    returns_flag: bool = False
    kind: Schema | None = None
    """Of which type it is said to be."""
    fields: tuple[ListedField, ...] = ()
    """What is said to be returned, by names that are to be taken as they are."""
    understood: bool = True


def read_description(description: str) -> Reading:
    """The first sentence, and what other sentences say about the answer."""
    found = read_sections(description)
    text = " ".join(_PARAGRAPH.sub(". ", found.prose.strip()).split())
    said = _read_statement(found.told) or _read_return(text)
    said = msgspec.structs.replace(said, kind=found.kind or said.kind, fields=found.fields or said.fields)
    sentence, *more = map(_drop_lead, _SENTENCE.split(text, maxsplit=2)[:2])
    tokens = _split_words(sentence)
    verb, place = _read_verb(tokens)
    if verb is None and more and (second := _read_verb(_split_words(more[0])))[0] is not None:
        # "Sharpe Ratio": a title, and then the sentence.
        tokens, (verb, place) = _split_words(more[0]), second
    if verb is None and sentence and _ENGLISH.isdisjoint(tokens):
        return msgspec.structs.replace(said, understood=False)
    if tokens[place : place + 1] and tokens[place] in ("if", "whether", "that"):
        asks = " ".join(token for token in tokens[place + 1 :] if token not in _ENDS)
        return msgspec.structs.replace(said, verb=verb, asks=asks)
    things = _read_phrases(tokens, place)
    return msgspec.structs.replace(
        said, verb=verb, things=things, returned=said.returned or (things if verb == "return" else ())
    )


def _drop_lead(text: str) -> str:
    while (lead := _LEAD.match(text)) and lead.end() < len(text):
        text = text[lead.end() :]
    return text


def _read_verb(tokens: list[str]) -> tuple[str | None, int]:
    """The verb of a sentence, and where what follows it begins."""
    for at, token in enumerate(tokens[:_MOST]):
        # "Users can retrieve ...": the verb is not far behind.
        if (at == 0 or tokens[at - 1] in ("to", "can", "will", "and") or tokens[0].endswith("ly")) and base_verb(token):
            place = at + 1
            while place + 1 < len(tokens) and tokens[place] in _LISTED and base_verb(tokens[place + 1]):
                place += 2
            while place < len(tokens) and tokens[place] in ("for", "up", "out", "through", "to", "by", "on", "at"):
                place += 1
            return base_verb(token), place
    # "Trigger the alarm": a verb that is not known, but no noun.
    return None, int(len(tokens) > 1 and tokens[0] not in LINKS and tokens[1] in ("the", "a", "an"))


def _read_return(text: str) -> Reading:
    for match in islice(_RETURNS.finditer(text), _MOST_STATEMENTS):
        begins = text.rfind(". ", 0, match.start()) + 2
        # At the very beginning it is a verb like any other.
        if match.start() and not _CONDITION.match(text, begins):
            said = _read_statement(text[match.end() : match.end() + _MOST_LETTERS])
            if said is not None:
                return said
    return Reading()


def _read_statement(text: str) -> Reading | None:
    """Fields, nouns, or a yes or no; None for what is none of them."""
    rest = _SENTENCE.split(text[:_MOST_LETTERS], maxsplit=1)[0]
    if _NO_ANSWER.search(rest[:60]):
        return None
    if _FLAG.match(rest):
        return Reading(returns_flag=True)
    if fields := fields_of(rest):
        return Reading(fields=fields)
    if (kind := type_of(rest)) is not None:
        return Reading(kind=kind) if kind["type"] in ("integer", "number") else None
    holds = _HOLDS.match(rest)
    tokens = _split_words(rest[holds.end() :] if holds else rest)
    tokens = ["the" if token in ("its", "their") else token for token in tokens]
    phrases = tuple(filter(None, map(_unwrap_phrase, _read_phrases(tokens, 0)[:_MOST])))
    return Reading(returned=phrases) if phrases else None


def _unwrap_phrase(phrase: Phrase) -> Phrase | None:
    """`completion object` is a completion; None for words that only name a type."""
    if phrase.head in _WRAPPERS and len(phrase.words) > 1:
        phrase = msgspec.structs.replace(phrase, words=phrase.words[:-1])
    return None if phrase.head in _TYPE_WORDS and len(phrase.words) == 1 and not phrase.of else phrase


def _split_words(text: str) -> list[str]:
    """The words and stops of a text, in small letters; names fall into their words."""
    words: list[str] = []
    for token in _TOKEN.findall(text):
        if "_" in token or _CAMEL.match(token):
            words += split_ascii_identifier(token)
        else:
            words.append(token.lower().replace("\u2019", "'").removesuffix("'s"))
    return words


def _read_phrases(tokens: list[str], place: int) -> tuple[Phrase, ...]:
    """Noun phrases in a row: `the area and the perimeter of a circle`."""
    found: list[Phrase] = []
    while place < len(tokens):
        phrase, place = _read_phrase(tokens, place)
        if phrase is None:
            break
        found.append(phrase)
        if tokens[place : place + 1] == ["("]:
            place = next((at for at in range(place, len(tokens)) if tokens[at] == ")"), len(tokens)) + 1
        if place >= len(tokens) or tokens[place] not in _LISTED or phrase.of:
            break
        while place < len(tokens) and tokens[place] in _LISTED:
            place += 1
        if place < len(tokens) and (tokens[place] in LINKS or base_verb(tokens[place]) is not None):
            break
    if found and found[-1].of:
        found = [phrase if phrase.of else msgspec.structs.replace(phrase, of=found[-1].of) for phrase in found]
    return tuple(found)


def _read_phrase(tokens: list[str], place: int) -> tuple[Phrase | None, int]:
    words, place = _read_noun(tokens, place)
    if not words:
        return None, place
    follows = tokens[place] if place < len(tokens) else ""
    if follows == "of" and words[-1] in LISTS:
        inner, place = _read_phrase(tokens, place + 1)
        return (Phrase(inner.words, inner.of, True), place) if inner else (Phrase(words, (), True), place)
    of: tuple[str, ...] = ()
    if follows == "of" or (follows in _ABOUT and words[-1] in VAGUE):
        of, place = _read_noun(tokens, place + 1)
    return Phrase(words, of, is_plural(words[-1])), place


def _read_noun(tokens: list[str], place: int) -> tuple[tuple[str, ...], int]:
    words: list[str] = []
    while place < len(tokens):
        word = tokens[place]
        if word in _STOPS or word in LINKS or (words and _says_more(tokens, place)):
            break
        if word not in FILLERS:
            words.append(word)
        place += 1
    return tuple(words), place


def _says_more(tokens: list[str], place: int) -> bool:
    """True where a noun is over: `grants this app has`, `commits authored by them`."""
    word = tokens[place]
    return word in _SUBJECTS or (
        word.endswith("ed") and tokens[place + 1 : place + 2] != [] and tokens[place + 1] in LINKS
    )
