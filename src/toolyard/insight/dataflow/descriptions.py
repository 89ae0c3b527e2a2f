"""Whose value it is by its description: `The unique identifier of the balance account`."""

from __future__ import annotations

import re

from toolyard.insight.dataflow.facets import Phrase
from toolyard.insight.dataflow.memo import remembered
from toolyard.insight.dataflow.vocabulary import EMPTY_NOUNS, VERBS
from toolyard.insight.dataflow.words import words_in

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


@remembered(16384)
def owner_in(description: str) -> Phrase:
    """The entity that a description names, as in `The unique identifier of the balance account`."""
    lower = description.lower()
    if len(lower) != len(description):
        # A letter that is longer in lower case.
        description = lower
    identifies = "identif" in lower
    match = None
    if "of" in lower or "for" in lower or identifies or "that describes" in lower or "assigned to" in lower:
        match = _OWNER.search(lower)
    if not match and identifies:
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
