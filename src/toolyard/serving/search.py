"""Looking tools up, as the wires do it.

What fits the task comes first, as the registry's search has it, with its score. A few words may also be meant as words:
then what has all of them in its name, description or tags follows, without a score, the beginning of a word being
enough. More words than that are a task, and where no tool fits it, none is shown.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot

MAX_QUERY = 500
"""Characters of a query on every wire, which are answered quickly."""
MOST_WORDS = 12
_FEW_WORDS = 4
"""Words that may be meant as words, and not as a task."""
_MOST_HITS = 50
_WORD = re.compile(r"[^\W_]+")
_PREFIXES = 50
"""Words that one that is not a word of its own may be the beginning of."""
_IN_NAME, _IN_TEXT = 4, 2

_indexes: WeakKeyDictionary[Snapshot, WordIndex] = WeakKeyDictionary()


class FoundTools(NamedTuple):
    """The tools, best first, and how they were looked for."""

    tools: Sequence[Tool]
    scores: Mapping[int, float]
    """By the identity of a tool: how likely it is what was asked for. Not there for one that only has the words."""
    mode: str | None

    def score(self, tool: Tool) -> float | None:
        """The score of a tool, short enough to be read."""
        score = self.scores.get(id(tool))
        return None if score is None else round(score, 4)


def search_tools(
    registry: ToolRegistry,
    snapshot: Snapshot,
    text: str,
    where: Callable[[Tool], bool] | None,
    threshold: float | None = None,
) -> FoundTools:
    """The tools that a query finds among those that `where` allows.

    With a `threshold` nothing is offered unless the best has that score. Vectors that are not there yet are made
    meanwhile, and words alone are compared.
    """
    hits = registry.searcher.search(snapshot, text, _MOST_HITS, where=where, wait=False, threshold=threshold)
    found = {id(hit.tool): hit.tool for hit in hits}
    if threshold is None and len(_WORD.findall(text)) <= _FEW_WORDS:
        scores = index_words(snapshot).search(text)
        # The best first; among equals, the first registered.
        for place in sorted(scores, key=lambda place: (-scores[place], place)):
            tool = snapshot.tools[place]
            if where is None or where(tool):
                found.setdefault(id(tool), tool)
    return FoundTools(list(found.values()), {id(hit.tool): hit.score for hit in hits}, hits.mode)


def index_words(snapshot: Snapshot) -> WordIndex:
    """The index of a snapshot; made when it is first asked for, which takes a while where there are many tools."""
    found = _indexes.get(snapshot)
    if found is None:
        found = _indexes[snapshot] = WordIndex(snapshot)
    return found


class WordIndex:
    """Which tools have which words, and how much that counts."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._places: dict[str, dict[int, int]] = {}
        for place, tool in enumerate(snapshot.tools):
            for word, weight in _words_of_tool(tool):
                places = self._places.setdefault(word, {})
                places[place] = max(weight, places.get(place, 0))
        self._vocabulary = sorted(self._places)

    def search(self, text: str) -> dict[int, int]:
        """Scores of the tools, by their place in the snapshot, that have all of the words; no words, no tools."""
        scores: dict[int, int] | None = None
        for wanted in dict.fromkeys(_WORD.findall(text.lower())[:MOST_WORDS]):
            found: dict[int, int] = {}
            for word in self._matching_words(wanted):
                for place, weight in self._places[word].items():
                    found[place] = max(weight, found.get(place, 0))
            known = scores
            scores = found if known is None else {p: known[p] + weight for p, weight in found.items() if p in known}
        return scores or {}

    def _matching_words(self, wanted: str) -> list[str]:
        """The word itself, or those that begin with it."""
        if wanted in self._places:
            return [wanted]
        start = bisect_left(self._vocabulary, wanted)
        return [word for word in self._vocabulary[start : start + _PREFIXES] if word.startswith(wanted)]


def _words_of_tool(tool: Tool) -> Iterator[tuple[str, int]]:
    for text in (tool.namespace, tool.name, *tool.aliases):
        yield from ((word, _IN_NAME) for word in _WORD.findall(text.lower()))
    for text in (tool.description, *tool.tags):
        yield from ((word, _IN_TEXT) for word in _WORD.findall(text.lower()))
