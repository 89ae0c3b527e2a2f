"""What a description says in its first sentence, and where it says what is returned: verbs and noun phrases."""

from __future__ import annotations

import re
from itertools import islice

import msgspec

from toolyard.insight.outputs.grammar import ENDS, Phrase, is_english, phrases_from, split_words
from toolyard.insight.outputs.sections import ListedField, Sections, fields_of, read_sections, type_of
from toolyard.insight.outputs.words import LINKS, VAGUE, VERBS, Deed, base_verb
from toolyard.model.tool import Schema

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_PARAGRAPH = re.compile(r"(?<![.!?:;,\s])[ \t]*\n[ \t]*\n\s*")
_LEAD = re.compile(
    r"""\s*(?:(?:this|the|an?)\s+(?:\w+\s+){0,2}?(?:tool|function|api|method|endpoint|utility|service|plugin|app|operation|command)
     \s+(?:is\s+used\s+to|is\s+designed\s+to|is\s+for|allows?\s+(?:\w+\s+){0,2}?to|lets?\s+(?:you|users)|enables?\s+(?:\w+\s+){0,2}?to
     |can(?:\s+be\s+used\s+to)?|will|helps?\s+(?:\w+\s+)?(?:to\s+)?|that|which|to|for)?\s*
    |(?:use\s+this\s+(?:\w+\s+)?to|used\s+to|allows?\s+(?:\w+\s+){0,2}?to|enables?\s+(?:\w+\s+){0,2}?to|helps?\s+(?:you\s+)?(?:to\s+)?
     |lets?\s+(?:you|users)|easily|quickly|simply|automatically|utility\s+(?:for|to))\s+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_LABEL = "ool description:"
_LEAD_LETTERS = frozenset("TtAaUuEeHhLlQqSs")
_INCLUDES = re.compile(
    r"(?<!criteria )(?<!parameters )(?<!filters )(?<!options )"
    r"\b(?:including|includes?|such as|containing|contains?|consisting of|with (?:its|their|fields?)|and (?:its|their)"
    r"|along with)\b:?",
    re.IGNORECASE,
)
_RETURNS = re.compile(
    r"(?:\breturns|(?<=\. )return|\b(?:will|(?<!used )to|and|then) return|\breturning|\boutputs|\byields"
    r"|\b(?:will|and|then) (?:output|yield)"
    r"|\bgiv(?:es?|ing) back|\bresponds? with|(?P<response>\bresponse (?:contains|includes))"
    r"|(?P<gets>(?<!, )\band (?:then )?(?:gets?|receives?|obtains?)))\b:?\s+",
    re.IGNORECASE,
)
_STATES = ("return", "output", "yield", " back", "respon", "and get", "and then ", "and receive", "and obtain")
_KINDS = r"json array|json object|json string|json|string|integer|int|float|number|boolean|bool|dict(?:ionary)?|object"
_HOLDS = re.compile(
    rf"(?:an?|the|one)?\s*(?:\w+\s+)?(?:(?P<kind>{_KINDS})|tuple|pair|map|response|payload|struct(?:ure)?|array|list)s?"
    r"\s+(?:(?:that|which)\s+)?(?:represent(?:s|ing)|indicat(?:es|ing)|contain(?:s|ing)|denot(?:es|ing)|with|holding"
    r"|describ(?:es|ing)|consisting of|including|includes)\s+(?:the\s+)?"
    r"(?:(?:following\s+)?(?:keys|fields|properties|attributes|elements|values)\b)?:?\s*",
    re.IGNORECASE,
)
"""As in `a JSON object with the fields`: what matters stands behind it."""
_AS = re.compile(
    rf"(?<!such )\bas (?:an? )?(?:\w+ )?((?:list|array)s? of \w+|percentage|list|array|{_KINDS})\b"
    r"(?! (?:format|file|string))",
    re.IGNORECASE,
)
_TYPE_HEADS = frozenset(
    (
        *("string", "integer", "int", "float", "number", "boolean", "bool", "object", "dict", "dictionary", "json"),
        *("array", "list", "tuple", "true", "false", "up", "both", "content", "code", "error", "either"),
    )
)
"""Heads that say of which type an answer is, and not what."""
_WRAPPERS = frozenset(("object", "objects", "instance", "instances", "resource", "resources"))
_DOORS = {"in": "login", "into": "login", "on": "login", "out": "logout", "off": "logout", "up": "signup"}
"""To log or sign in is another thing than to log or sign."""
_HOW = frozenset(("either", "both", "also", "only", "just"))
_ARTICLES = frozenset(("the", "a", "an", "your", "this", "these"))
_INTO = frozenset(
    ("convert", "transform", "turn", "translate", "parse", "compile", "geocode", "map", "decode", "resolve", "exchange")
)
_GENERAL = VAGUE | {"dimensions", "metrics", "attributes", "fields", "measurements", "measures"}
_HOW_TO_LOOK = frozenset(("criteria", "filters", "options", "parameters", "preferences", "conditions", "based"))
_NO_RETURN = re.compile(
    r"\b(?:error|none|null|nothing|exception|empty)\b|^no\b|^success(?: or| if|[.,]|$)", re.IGNORECASE
)
_CONDITION = re.compile(r"(?:if|when|unless|should|otherwise|by default|on failure)\b(?! successful)", re.IGNORECASE)
"""How a sentence begins about what is not always so."""
_NOUN = re.compile(
    r"[*)-]|(?:an? )?\w+\.\w|(?:and|or|of|for|from|dates?|times?|flights?|trips?|journeys?|airports?|labels?)\b",
    re.IGNORECASE,
)
"""What stands behind `return` where that is a noun: `the return dates`, `the asset returns of a fund`."""
_WHETHER = re.compile(r"""^["'`]?(?:true|false|a boolean|boolean|whether|if)\b""", re.IGNORECASE)
_MOST = 8
_MOST_STATEMENTS = 24
_MOST_LETTERS = 1000
"""Of a sentence about the answer; what is longer is none."""


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
    into: tuple[Phrase, ...] = ()
    """What a thing is turned into."""
    parts: tuple[Phrase, ...] = ()
    """What is said to be included."""
    understood: bool = True


def read_description(description: str) -> Reading:
    """The first sentence, and what other sentences say about the answer."""
    found = read_sections(description)
    prose, titled = _PARAGRAPH.subn(". ", found.prose.strip()) if "\n" in found.prose else (found.prose, 0)
    text = " ".join(prose.split())
    sentence, *more = _SENTENCE.split(_lead_off(text), maxsplit=2)
    sentence = _lead_off(sentence)
    tokens = split_words(sentence)
    if titled and more and _read_verb(tokens)[0] is None:
        # "Sharpe Ratio": a title, and then the sentence.
        second = split_words(_lead_off(more[0]))
        if _read_verb(second)[0] is not None:
            sentence, tokens = more[0], second
    said = _read_section(found)
    if not is_english(sentence, tokens):
        said = said or _Statement()
        return Reading(None, (), "", said.phrases, said.flag, said.kind, found.fields, understood=False)
    verb, place = _read_verb(tokens)
    asks = ""
    things: tuple[Phrase, ...] = ()
    into: tuple[Phrase, ...] = ()
    if place < len(tokens) and tokens[place] in ("if", "whether", "that"):
        asks = " ".join(token for token in tokens[place + 1 :] if token not in ENDS)
    else:
        things, place = phrases_from(tokens, place)
        things = _read_search(verb, things, tokens, place)
        into = _read_conversion(verb, tokens, place)
    deed = VERBS.get(verb or "", "get")
    said = said or _read_return(text, deed)
    kind = said.kind
    if not said.phrases and kind is None and deed in ("get", "find", "count") and (typed := _AS.search(sentence)):
        kind = type_of(typed[1]) or {"type": "array"}
    fields = found.fields or said.fields
    return Reading(verb, things, asks, said.phrases, said.flag, kind, fields, into, _read_parts(text))


def _read_conversion(verb: str | None, tokens: list[str], place: int) -> tuple[Phrase, ...]:
    """In `convert an address to latitude and longitude`, what comes out."""
    links = ("for",) if verb == "exchange" else ("to", "into")
    if verb not in _INTO and (not tokens or tokens[0].removesuffix("s") not in _INTO):
        return ()
    at = next((at for at in range(place, len(tokens)) if tokens[at] in links), len(tokens))
    return phrases_from(tokens, at + 1)[0]


def _read_search(verb: str | None, things: tuple[Phrase, ...], tokens: list[str], place: int) -> tuple[Phrase, ...]:
    """In `search the catalog for books`, and in `search the database to find movies`, what is looked for."""
    if verb not in ("search", "query", "scan", "browse") or place >= len(tokens):
        return things
    rest = tokens[place:]
    if rest[0] == "for" and tokens[1:2] != ["for"]:
        return phrases_from(tokens, place + 1)[0] or things
    if rest[0] == "to" and rest[1:2] in (["find"], ["locate"], ["retrieve"], ["get"]):
        return phrases_from(tokens, place + 2)[0] or things
    return things


def _lead_off(text: str) -> str:
    at = text.find(_LABEL)
    if at >= 0:
        text = text[at + len(_LABEL) :].lstrip()
    while text[:1] in _LEAD_LETTERS and (lead := _LEAD.match(text)) and lead.end() < len(text):
        text = text[lead.end() :]
    return text


def _read_verb(tokens: list[str]) -> tuple[str | None, int]:
    """The verb of a sentence, and where what follows it begins."""
    if not tokens:
        return None, 0
    first = int(len(tokens) > 2 and (tokens[0] in _HOW or _is_adverb(tokens[0])))
    verb = base_verb(tokens[first])
    place = first + 1
    if verb in ("log", "sign") and tokens[place:] and tokens[place] in _DOORS:
        return _DOORS[tokens[place]], place + 1
    if verb is None:
        # "Users can retrieve ...": the verb is not far behind.
        for at, token in enumerate(tokens[:_MOST]):
            if at and tokens[at - 1] in ("to", "can", "will", "and") and base_verb(token):
                verb, place = base_verb(token), at + 1
                break
        else:
            # "Trigger the alarm": a verb that is not known, but no noun.
            skips = tokens[first] not in LINKS and tokens[place:] and tokens[place] in _ARTICLES
            return None, place if skips else 0
    while place + 1 < len(tokens) and tokens[place] in ("and", "or", ",") and base_verb(tokens[place + 1]):
        place += 2
    while place < len(tokens) and tokens[place] in ("for", "up", "out", "through", "to", "by", "on", "at", "with"):
        place += 1
    return verb, place


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and base_verb(word) is None


class _Statement(msgspec.Struct, frozen=True):
    """What stands behind `returns`."""

    phrases: tuple[Phrase, ...] = ()
    flag: bool = False
    """True for a yes or no."""
    kind: Schema | None = None
    fields: tuple[ListedField, ...] = ()


def _read_section(found: Sections) -> _Statement | None:
    """What the section about the answer says; None if there is none, or it cannot be read."""
    said = _read_statement(found.told) if found.told and is_english(found.told, split_words(found.told)) else None
    if said is None or found.kind is None:
        return said
    return msgspec.structs.replace(said, flag=said.flag or found.kind == {"type": "boolean"}, kind=found.kind)


def _read_return(text: str, deed: Deed) -> _Statement:
    low = text.lower()
    # Looking for letters is much faster than the pattern, and most descriptions state nothing.
    if not any(letters in low for letters in _STATES):
        return _Statement()
    for match in islice(_RETURNS.finditer(text), _MOST_STATEMENTS):
        if match.start() == 0 or (match["response"] and deed in ("get", "list", "find", "count")):
            continue  # a verb like any other, or more about what the verb has named
        if _CONDITION.match(text, text.rfind(". ", 0, match.start()) + 2):
            continue
        said = _read_statement(text[match.end() : match.end() + _MOST_LETTERS])
        if said is not None and not (match["gets"] and (not said.phrases or said.phrases[0].head in VAGUE)):
            return said
    return _Statement()


def _read_statement(text: str) -> _Statement | None:
    """Fields, nouns, a yes or no, or only a type; None for what is none of them."""
    rest = _SENTENCE.split(text[:_MOST_LETTERS], maxsplit=1)[0]
    if _NO_RETURN.search(rest[:60]) or _NOUN.match(rest):
        return None  # what happens when it fails; or no verb at all
    if _WHETHER.match(rest):
        return _Statement(flag=True)
    fields = fields_of(rest)
    if fields:
        return _Statement(fields=fields)
    kind = type_of(rest)
    if kind is not None:
        return _Statement(kind=kind) if kind["type"] in ("integer", "number") else None
    holds = _HOLDS.match(rest)
    if holds is not None:
        kind = type_of(holds["kind"] or "")
        rest = rest[holds.end() :]
        if kind == {"type": "boolean"} or rest.startswith(("whether", "success or", "if the")):
            return _Statement(flag=True)
    typed = _AS.search(rest.split(",", 1)[0])
    kind = (
        (type_of(typed[1]) or {"type": "array"})
        if typed
        else kind
        if kind and kind["type"] in ("integer", "number")
        else None
    )
    tokens = [
        "the" if token in ("its", "their") else token for token in split_words(_AS.sub("", rest) if typed else rest)
    ]
    phrases = tuple(filter(None, map(_unwrap_phrase, phrases_from(tokens, 0)[0][:_MOST])))
    if not phrases or phrases[0].head in ("user", "page", "order", "book", "item"):
        return None
    return _Statement(phrases, False, kind)


def _unwrap_phrase(phrase: Phrase) -> Phrase | None:
    """`completion object` is a completion; None for words that only name a type."""
    if phrase.head in _WRAPPERS and len(phrase.words) > 1:
        phrase = msgspec.structs.replace(phrase, words=phrase.words[:-1])
    if len(phrase.words) == 1 and not phrase.of and (phrase.head in _TYPE_HEADS or phrase.head.endswith("ed")):
        return None
    return None if phrase.words[0].isdigit() else phrase


def _read_parts(text: str) -> tuple[Phrase, ...]:
    match = _INCLUDES.search(text)
    if match is None:
        return ()
    before = split_words(text[max(0, match.start() - 60) : match.start()])
    before = [word for word in before if word != ","][-5:]
    if match[0].lower().startswith("such as") and (not before or before[-1] not in _GENERAL):
        return ()
    if _HOW_TO_LOOK.intersection(before):
        return ()
    rest = _SENTENCE.split(text[match.end() :], maxsplit=1)[0]
    return phrases_from(split_words(rest), 0)[0][:_MOST]
