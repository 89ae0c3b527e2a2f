"""Whether a tool has a word in common with a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from toolyard.insight.search.text import is_stop, stem, stems, words
from toolyard.model.tool import Tool

_SHORTEST = 4
"""Letters of a word that another one may begin or end with: `mail` is in `email`, `car` need not be in `card`."""
_LONGEST = 40
"""Letters of a word that is looked into; beyond, it is none."""
_COMPOUND = re.compile(r"[^\W_]+(?:[-\u2010\u2011][^\W_]+)+")
_HYPHEN = re.compile(r"[-\u2010\u2011]")
_EMPTY = "api call data detail details function info information input output provided return value"
"""Words that any description may have, whatever the tool is for."""


class ContentWords:
    """Which tools say which words, in their names and descriptions."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._count = len(tools)
        self._places: dict[str, list[int]] = {}
        for place, tool in enumerate(tools):
            text = " . ".join((tool.name, *tool.aliases, tool.description, *tool.tags))
            for word in content_words(text):
                self._places.setdefault(word, []).append(place)
        self._within: dict[str, list[str]] = {}
        for word in self._places:
            for part in _list_ends(word):
                self._within.setdefault(part, []).append(word)

    def shared(self, text: str) -> npt.NDArray[np.bool_]:
        """Whether each tool has a word of the text, one that begins or ends with one, or the other way round.

        `e-mail`, `mail` and `emails` are all in `send_email`.
        """
        found = np.zeros(self._count, np.bool_)
        for word in content_words(text):
            for known in (word, *_list_ends(word), *self._within.get(word, ())):
                found[self._places.get(known, [])] = True
        return found


def content_words(text: str) -> list[str]:
    """The stems of the words that say what a text is about, each once; a word with hyphens without them as well."""
    compounds = (_HYPHEN.sub("", found.lower()) for found in _COMPOUND.findall(text))
    found = dict.fromkeys((*stems(text), *map(stem, compounds)))
    return [
        word for word in found if len(word) > 1 and not (word.isdigit() or is_stop(word) or word in _list_empty_words())
    ]


@cache
def _list_empty_words() -> frozenset[str]:
    return frozenset(map(stem, _EMPTY.split()))


def has_words(text: str) -> bool:
    """Whether a text says anything at all."""
    return bool(words(text))


def _list_ends(word: str) -> Iterator[str]:
    """The beginnings and ends of a word that may be words themselves."""
    for length in range(_SHORTEST, len(word) if len(word) <= _LONGEST else 0):
        yield word[:length]
        yield word[-length:]
