"""Looking tools up, as the wires do it.

What fits the task comes first, as the registry's search has it. A few words may also be meant as words: then what has
them in its name, description or tags follows, the beginning of a word being enough. More words than that are a task,
and where no tool fits it, none is shown.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot

MOST_WORDS = 12
_FEW_WORDS = 4
"""Words that may be meant as words, and not as a task."""
_MOST_HITS = 50
_WORD = re.compile(r"[^\W_]+")
_PREFIXES = 50
"""Words that one that is not a word of its own may be the beginning of."""
_IN_NAME, _IN_TEXT = 4, 2

_indexes: WeakKeyDictionary[Snapshot, Index] = WeakKeyDictionary()


def found_tools(
    registry: ToolRegistry, snapshot: Snapshot, text: str, where: Callable[[Tool], bool] | None
) -> tuple[list[Tool], str]:
    """The tools that a query finds among those that `where` allows, best first, and the mode of the search.

    Vectors that are not there yet are made meanwhile, and words alone are compared.
    """
    hits = registry.searcher.search(snapshot, text, _MOST_HITS, where=where, wait=False)
    found = {id(hit.tool): hit.tool for hit in hits}
    if len(_WORD.findall(text)) <= _FEW_WORDS:
        scores = index_of(snapshot).search(text)
        # The best first; among equals, the first registered.
        for place in sorted(scores, key=lambda place: (-scores[place], place)):
            tool = snapshot.tools[place]
            if where is None or where(tool):
                found.setdefault(id(tool), tool)
    return list(found.values()), hits.mode


def index_of(snapshot: Snapshot) -> Index:
    """The index of a snapshot; made when it is first asked for, which takes a while where there are many tools."""
    found = _indexes.get(snapshot)
    if found is None:
        found = _indexes[snapshot] = Index(snapshot)
    return found


class Index:
    """Which tools have which words, and how much that counts."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._places: dict[str, dict[int, int]] = {}
        for place, tool in enumerate(snapshot.tools):
            for word, weight in _words(tool):
                places = self._places.setdefault(word, {})
                places[place] = max(weight, places.get(place, 0))
        self._vocabulary = sorted(self._places)

    def search(self, text: str) -> dict[int, int]:
        """Scores of the tools, by their place in the snapshot, that have some of the words; no words, no tools."""
        scores: dict[int, int] = {}
        for wanted in dict.fromkeys(_WORD.findall(text.lower())[:MOST_WORDS]):
            for word in self._meant(wanted):
                for place, weight in self._places[word].items():
                    scores[place] = scores.get(place, 0) + weight
        return scores

    def _meant(self, wanted: str) -> list[str]:
        """The word itself, or those that begin with it."""
        if wanted in self._places:
            return [wanted]
        start = bisect_left(self._vocabulary, wanted)
        return [word for word in self._vocabulary[start : start + _PREFIXES] if word.startswith(wanted)]


def _words(tool: Tool) -> Iterator[tuple[str, int]]:
    for text in (tool.namespace, tool.name, *tool.aliases):
        yield from ((word, _IN_NAME) for word in _WORD.findall(text.lower()))
    for text in (tool.description, *tool.tags):
        yield from ((word, _IN_TEXT) for word in _WORD.findall(text.lower()))
