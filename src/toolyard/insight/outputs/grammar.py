"""English as descriptions of tools have it: sentences cut into words, and what is noun, verb or neither."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from toolyard.insight.outputs.words import (
    AMBIGUOUS,
    ENTITIES,
    FACTS,
    FILES,
    FILLERS,
    FLAGS,
    FORMATS,
    LINKS,
    LISTS,
    NAMELESS,
    NUMBERS,
    TITLED,
    VAGUE,
    VERBS,
    WHOLE,
    WORKS,
    base_verb,
    is_plural,
    singular,
    words_of,
)

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*(?:[-'\u2019][A-Za-z0-9_]+)*|[.,;:()/&!?]")
_CAMEL = re.compile("[a-z]{2,}[A-Z]")
_ABOUT = frozenset(("about", "on", "of", "for", "regarding", "concerning"))
_LISTED = frozenset((",", "and", "or", "&", "/"))
ENDS = frozenset((".", ";", ":", ")", "!", "?", "such", "etc"))
_STOPS = frozenset((*_LISTED, *ENDS, "("))
_CLAUSES = frozenset(
    (
        *("using", "including", "containing", "regarding", "concerning", "following", "starting", "ending", "matching"),
        *("based", "associated", "related", "located", "specified", "provided", "given", "required", "needed", "made"),
        *("used", "played", "produced", "caused", "assigned", "available", "depending", "considering", "taking"),
        *("earned", "listed", "identified", "defined", "generated", "created", "owned", "posted", "published", "spent"),
        *("issued", "happening", "occurring", "involving", "suitable", "tailored", "working", "currently", "needing"),
        *("indicating", "representing", "allowing", "showing", "describing", "detailing", "matched", "corresponding"),
    )
)
"""Words with which something is said about a noun."""
_SUBJECTS = frozenset(
    (
        "a",
        "an",
        "this",
        "these",
        "you",
        "they",
        "we",
        "it",
        "i",
        "he",
        "she",
        "has",
        "have",
        "is",
        "are",
        "can",
        "must",
        "will",
        "may",
    )
)


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


def split_words(text: str) -> list[str]:
    """The words and stops of a text, in small letters; names fall into their words."""
    words: list[str] = []
    for token in _TOKEN.findall(text):
        if token.islower() and token.isalpha():
            words.append(token)
        elif "_" in token or _CAMEL.match(token):
            words += words_of(token)
        else:
            words.append(token.lower().replace("\u2019", "'").removesuffix("'s"))
    return words


def phrases_from(tokens: list[str], place: int) -> tuple[tuple[Phrase, ...], int]:
    """Noun phrases in a row: `the area and the perimeter of a circle`."""
    found: list[Phrase] = []
    while place < len(tokens):
        phrase, place = _read_phrase(tokens, place)
        if phrase is None:
            break
        found.append(phrase)
        while place < len(tokens) and tokens[place] == "(":
            place = next((at for at in range(place, len(tokens)) if tokens[at] == ")"), len(tokens)) + 1
        if place >= len(tokens) or tokens[place] not in _LISTED or phrase.of:
            break
        while place < len(tokens) and tokens[place] in _LISTED:
            place += 1
        if place < len(tokens) and (_ends_list(tokens[place]) or _goes_on(tokens, place)):
            break
    if found and found[-1].of:
        shared = found[-1].of
        found = [phrase if phrase.of else msgspec.structs.replace(phrase, of=shared) for phrase in found]
    return tuple(found), place


def _ends_list(word: str) -> bool:
    """True for what does not go on with a list of nouns; `and their cities` says more about the nouns before."""
    return word in LINKS or word in _CLAUSES or word in ("its", "their") or base_verb(word) == word


def _goes_on(tokens: list[str], place: int) -> bool:
    """True for a second verb, as in `the temperature and returns it`."""
    word = tokens[place]
    follows = tokens[place + 1] if place + 1 < len(tokens) else ""
    return word.endswith("s") and word[:-1] in VERBS and follows in FILLERS


def _read_phrase(tokens: list[str], place: int) -> tuple[Phrase | None, int]:
    words, place = _read_noun(tokens, place)
    if not words:
        return None, place
    if place < len(tokens) and tokens[place] == "of" and words[-1] in LISTS:
        inner, place = _read_phrase(tokens, place + 1)
        return (Phrase(inner.words, inner.of, True), place) if inner else (Phrase(words, (), True), place)
    of: tuple[str, ...] = ()
    if place < len(tokens) and (tokens[place] == "of" or (tokens[place] in _ABOUT and words[-1] in VAGUE)):
        of, place = _read_noun(tokens, place + 1)
    return Phrase(words, of, is_plural(words[-1])), place


def _read_noun(tokens: list[str], place: int) -> tuple[tuple[str, ...], int]:
    words: list[str] = []
    while place < len(tokens):
        word = tokens[place]
        if word in _STOPS or word in LINKS or (words and (word in _CLAUSES or _says_more(tokens, place))):
            if word in ("a", "an") and len(words) > 1 and words[-1].endswith("ing"):
                words.pop()  # the judge handling a case
            break
        if word not in FILLERS or (word == "key" and words) or (not words and _is_last(tokens, place)):
            words.append(word)
        place += 1
    return tuple(words), place


def _says_more(tokens: list[str], place: int) -> bool:
    """True where a noun is over: `grants this app has`, `commits authored by them`."""
    word = tokens[place]
    if word in _SUBJECTS:
        return True
    if not word.endswith("ed") or word.endswith("eed") or len(word) < 5 or place + 1 >= len(tokens):
        return False
    return tokens[place + 1] in LINKS


def _is_last(tokens: list[str], place: int) -> bool:
    return place + 1 >= len(tokens) or tokens[place + 1] in ENDS


_OTHERS = frozenset(
    (
        *("der", "das", "eine", "einen", "einem", "einer", "eines", "ein", "und", "oder", "mit", "von", "für", "zum"),
        *("zur", "ist", "auf", "aus", "nach", "bei", "alle", "des", "dem", "wird", "nicht", "durch", "über", "vom"),
        *("le", "la", "les", "une", "un", "du", "et", "ou", "pour", "avec", "dans", "sur", "par", "aux", "ses"),
        *("el", "los", "las", "una", "unos", "del", "al", "y", "para", "con", "por", "que", "desde", "segun", "su"),
        *("il", "lo", "gli", "della", "delle", "dei", "di", "che", "uno", "nel", "alla", "tra"),
        *("o", "os", "um", "uma", "da", "dos", "ao", "em", "com", "pelo", "pela", "het", "een", "van", "voor", "naar"),
        *("och", "ett", "som", "av", "med", "til", "og", "det", "en", "den", "de", "ve", "bir", "ile", "icin"),
        *("jest", "dla", "lub", "dan", "untuk", "yang", "dari", "untuk"),
    )
)
"""Small words of other languages, none of which is one of English."""
_SHARED = frozenset(("a", "an", "in", "as", "on", "at", "me", "over", "under", "per", "via", "us", "to", "so", "all"))
"""Small words that mean something elsewhere, too."""
_SMALL = (LINKS | FILLERS | {"and", "or", "is", "are", "be", "it", "if", "not", "will", "can"}) - _SHARED
_NOUNS = frozenset(
    (
        *ENTITIES,
        *AMBIGUOUS,
        *FACTS,
        *FILES,
        *FLAGS,
        *FORMATS,
        *LISTS,
        *NAMELESS,
        *NUMBERS,
        *TITLED,
        *VAGUE,
        *WHOLE,
        *WORKS,
        *(
            "weather",
            "forecast",
            "time",
            "status",
            "address",
            "location",
            "direction",
            "coordinate",
            "id",
            "identifier",
        ),
    )
)


def is_known(word: str) -> bool:
    """True for a verb or noun that the rules know something about."""
    return word in _NOUNS or singular(word) in _NOUNS or base_verb(word) is not None


def is_english(text: str, tokens: Sequence[str]) -> bool:
    """True unless the small words are those of another language, or no word is known at all."""
    other = small = shared = 0
    for token in tokens:
        if token in _SMALL:
            small += 1
        elif token in _SHARED:
            shared += 1
        elif token in _OTHERS:
            other += 1
    if other > small:
        return False
    if not text.isascii() and _foreign_letters(text):
        return False
    return small + shared > 0 or not tokens or any(map(is_known, tokens))


def _foreign_letters(text: Iterable[str]) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    return sum(not letter.isascii() for letter in letters) > len(letters) * 0.15
