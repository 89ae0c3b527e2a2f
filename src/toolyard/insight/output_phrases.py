"""What a description says in its first sentence, and where it says what is returned: verbs and noun phrases."""

from __future__ import annotations

import re

import msgspec

from toolyard.insight.output_words import FILLERS, LINKS, LISTS, VAGUE, base_verb, is_plural

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*(?:[-'\u2019][A-Za-z0-9_]+)*|[.,;:()/&!?]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
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
_ABOUT = frozenset(("about", "on", "of", "for", "regarding", "concerning"))
_LISTED = frozenset((",", "and", "or", "&", "/"))
_ENDS = frozenset((".", ";", ":", ")", "!", "?", "such", "etc"))
_STOPS = frozenset((*_LISTED, *_ENDS, "("))
_CLAUSES = frozenset(
    (
        *("using", "including", "containing", "regarding", "concerning", "following", "starting", "ending", "matching"),
        *("based", "associated", "related", "located", "specified", "provided", "given", "required", "needed", "made"),
        *("used", "played", "produced", "caused", "assigned", "available", "depending", "considering", "taking"),
        *("earned", "listed", "identified", "defined", "generated", "created", "owned", "posted", "published", "spent"),
        *("issued", "happening", "occurring", "involving", "suitable", "tailored", "working", "currently", "needing"),
    )
)
"""Words with which something is said about a noun."""
_INCLUDES = re.compile(
    r"(?<!criteria )(?<!parameters )(?<!filters )(?<!options )"
    r"\b(?:including|includes?|such as|containing|contains?|consisting of|with (?:its|their|fields?)|and (?:its|their)"
    r"|along with)\b:?",
    re.IGNORECASE,
)
_RETURNS = re.compile(
    r"(?:\breturns|(?<=\. )return|\b(?:will|to|and) return|\breturning|\boutputs|\byields)\b:?\s+", re.IGNORECASE
)
_GENERAL = VAGUE | {"dimensions", "metrics", "attributes", "fields", "measurements", "measures"}
_HOW_TO_LOOK = frozenset(("criteria", "filters", "options", "parameters", "preferences", "conditions", "based"))
_NO_RETURN = re.compile(r"\b(?:error|none|null|nothing|exception|empty)\b", re.IGNORECASE)
_WHETHER = re.compile(r"^(?:true|false|a boolean|boolean|whether|if)\b", re.IGNORECASE)
_MOST = 8


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
    parts: tuple[Phrase, ...] = ()
    """What is said to be included."""


def read(description: str) -> Reading:
    """The first sentence, and what other sentences say about the answer."""
    text = re.sub(r"\s+", " ", description).strip()
    sentence = _lead_off(_SENTENCE.split(_lead_off(text), maxsplit=1)[0])
    tokens = _tokens(sentence)
    verb, place = _verb(tokens)
    asks = ""
    things: tuple[Phrase, ...] = ()
    if place < len(tokens) and tokens[place] in ("if", "whether", "that"):
        asks = " ".join(token for token in tokens[place + 1 :] if token not in _ENDS)
    else:
        things, place = _phrases(tokens, place)
        things = _searched(verb, things, tokens, place)
    returned, flag = _returned(text, sentence)
    return Reading(verb, things, asks, returned, flag, _parts(text))


def _searched(verb: str | None, things: tuple[Phrase, ...], tokens: list[str], place: int) -> tuple[Phrase, ...]:
    """In `search the catalog for books`, and in `search the database to find movies`, what is looked for."""
    if verb not in ("search", "query", "scan", "browse") or place >= len(tokens):
        return things
    rest = tokens[place:]
    if rest[0] == "for" and tokens[1:2] != ["for"]:
        return _phrases(tokens, place + 1)[0] or things
    if rest[0] == "to" and rest[1:2] in (["find"], ["locate"], ["retrieve"], ["get"]):
        return _phrases(tokens, place + 2)[0] or things
    return things


def _lead_off(text: str) -> str:
    at = text.find(_LABEL)
    if at >= 0:
        text = text[at + len(_LABEL) :].lstrip()
    while text[:1] in _LEAD_LETTERS and (lead := _LEAD.match(text)) and lead.end() < len(text):
        text = text[lead.end() :]
    return text


def _tokens(text: str) -> list[str]:
    words = (token.lower().replace("\u2019", "'") for token in _TOKEN.findall(text))
    return [word.removesuffix("'s") for word in words]


def _verb(tokens: list[str]) -> tuple[str | None, int]:
    """The verb of a sentence, and where what follows it begins."""
    if not tokens:
        return None, 0
    verb = base_verb(tokens[0])
    place = 1
    if verb is None:
        # "Users can retrieve ...": the verb is not far behind.
        for at, token in enumerate(tokens[:_MOST]):
            if at and tokens[at - 1] in ("to", "can", "will", "and") and base_verb(token):
                verb, place = base_verb(token), at + 1
                break
        else:
            return None, 0
    while place + 1 < len(tokens) and tokens[place] in ("and", "or", ",") and base_verb(tokens[place + 1]):
        place += 2
    while place < len(tokens) and tokens[place] in ("for", "up", "out", "through", "to", "by", "on", "at", "with"):
        place += 1
    return verb, place


def _phrases(tokens: list[str], place: int) -> tuple[tuple[Phrase, ...], int]:
    """Noun phrases in a row: `the area and the perimeter of a circle`."""
    found: list[Phrase] = []
    while place < len(tokens):
        phrase, place = _phrase(tokens, place)
        if phrase is None:
            break
        found.append(phrase)
        while place < len(tokens) and tokens[place] == "(":
            place = next((at for at in range(place, len(tokens)) if tokens[at] == ")"), len(tokens)) + 1
        if place >= len(tokens) or tokens[place] not in _LISTED or phrase.of:
            break
        while place < len(tokens) and tokens[place] in _LISTED:
            place += 1
        if place < len(tokens) and _ends_list(tokens[place]):
            break
    if found and found[-1].of:
        shared = found[-1].of
        found = [phrase if phrase.of else msgspec.structs.replace(phrase, of=shared) for phrase in found]
    return tuple(found), place


def _ends_list(word: str) -> bool:
    """True for what does not go on with a list of nouns; `and their cities` says more about the nouns before."""
    return word in LINKS or word in _CLAUSES or word in ("its", "their") or base_verb(word) == word


def _phrase(tokens: list[str], place: int) -> tuple[Phrase | None, int]:
    words, place = _noun(tokens, place)
    if not words:
        return None, place
    if place < len(tokens) and tokens[place] == "of" and words[-1] in LISTS:
        inner, place = _phrase(tokens, place + 1)
        return (Phrase(inner.words, inner.of, True), place) if inner else (Phrase(words, (), True), place)
    of: tuple[str, ...] = ()
    if place < len(tokens) and (tokens[place] == "of" or (tokens[place] in _ABOUT and words[-1] in VAGUE)):
        of, place = _noun(tokens, place + 1)
    return Phrase(words, of, is_plural(words[-1])), place


def _noun(tokens: list[str], place: int) -> tuple[tuple[str, ...], int]:
    words: list[str] = []
    while place < len(tokens):
        word = tokens[place]
        if word in _STOPS or word in LINKS or (words and word in _CLAUSES):
            break
        if word not in FILLERS or (not words and _is_last(tokens, place)):
            words.append(word)
        place += 1
    return tuple(words), place


def _is_last(tokens: list[str], place: int) -> bool:
    return place + 1 >= len(tokens) or tokens[place + 1] in _ENDS


def _returned(text: str, first: str) -> tuple[tuple[Phrase, ...], bool]:
    for match in _RETURNS.finditer(text):
        rest = _SENTENCE.split(text[match.end() :], maxsplit=1)[0]
        if match.start() == 0 or _NO_RETURN.search(rest[:60]):
            continue  # a verb like any other, or what happens when it fails
        if _WHETHER.match(rest):
            return (), True
        tokens = _tokens(rest)
        phrases = _phrases(tokens, 0)[0]
        if phrases and phrases[0].head not in ("user", "page", "order", "book", "item"):
            return phrases[:_MOST], False
    return (), False


def _parts(text: str) -> tuple[Phrase, ...]:
    match = _INCLUDES.search(text)
    if match is None:
        return ()
    before = _tokens(text[max(0, match.start() - 60) : match.start()])
    before = [word for word in before if word != ","][-5:]
    if match[0].lower().startswith("such as") and (not before or before[-1] not in _GENERAL):
        return ()
    if _HOW_TO_LOOK.intersection(before):
        return ()
    rest = _SENTENCE.split(text[match.end() :], maxsplit=1)[0]
    return _phrases(_tokens(rest), 0)[0][:_MOST]
