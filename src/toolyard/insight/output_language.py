"""Whether a text is in the language that the rules read, which is English."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolyard.insight.output_words import (
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
    WHOLE,
    WORKS,
    base_verb,
    singular,
)

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
