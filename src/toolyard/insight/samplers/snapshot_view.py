"""Data about a snapshot that samplers compute once and share: similarity, words, names, namespaces, the graph."""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from toolyard.insight.arrays import Floats, compute_cosines, group_positions, round_rows, row_lengths
from toolyard.insight.base import Edge
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.embeddings.vectors import read_embedding_matrix
from toolyard.insight.search.query import is_stop_word, stem, stem_words
from toolyard.model.tool import Tool
from toolyard.plugins import View

_WORD_DIMENSIONS = 512
_NAME_WEIGHT = 3
SAME = 0.97
"""Similarity from which two tools are practically the same."""


class ToolLikeness:
    """Cosines between tools, clipped to 0..1."""

    def __init__(self, vectors: npt.NDArray[Any], kind: str) -> None:
        self.kind = kind
        """The kind of similarity: "embeddings" or "words"."""
        self.vectors = round_rows(vectors)
        """One row per tool."""
        self._lengths = row_lengths(self.vectors)

    def to(self, place: int) -> Floats:
        """The similarity of every tool to the one at index `place`."""
        return compute_cosines(self.vectors, self._lengths, place)

    def similarity_to_any(self, places: Sequence[int]) -> Floats:
        """The similarity of every tool to the most similar of these."""
        best = self.to(places[0])
        for place in places[1:]:
            np.maximum(best, self.to(place), out=best)
        return best


def compare_words(tools: Sequence[Tool]) -> ToolLikeness:
    """Similarity by the words of names, descriptions and parameters, weighted by rarity."""
    counts = []
    for tool in tools:
        properties = tool.parameters.get("properties")
        names = " ".join(map(str, properties)) if isinstance(properties, Mapping) else ""
        count = Counter(_list_words(f"{tool.description} {names}"))
        for word in _list_words(tool.name):
            count[word] += _NAME_WEIGHT
        counts.append(count)
    seen = Counter(word for count in counts for word in count)
    matrix = np.zeros((len(tools), _WORD_DIMENSIONS))
    for row, count in zip(matrix, counts, strict=True):
        for word, number in count.items():
            weight = (1 + math.log(number)) * math.log(1 + len(tools) / seen[word])
            code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
            row[code % _WORD_DIMENSIONS] += weight if code & 1024 else -weight
    return ToolLikeness(matrix, "words")


def _list_words(text: str) -> list[str]:
    """The stems of a text without stop words, as in search."""
    return [word for word in stem_words(text) if not is_stop_word(word)]


_GRAPHS = 8
"""Filtered graphs cached per snapshot; few pairs of `min_score` and namespaces are in use at a time."""


class SnapshotView:
    """Lazily computed data about a snapshot. It does not keep the snapshot itself alive."""

    def __init__(self, view: View) -> None:
        self.tools: Sequence[Tool] = view.tools
        self.artifacts: Mapping[str, Any] = view.artifacts
        self.all_places = tuple(range(len(self.tools)))
        self.spaces = group_positions(tool.namespace for tool in self.tools)
        self._named = group_positions((tool.namespace, tool.name) for tool in self.tools)
        self._bare = group_positions(tool.name for tool in self.tools)
        numbers = {name: number for number, name in enumerate(self._named)}
        self.name_ids = [numbers[tool.namespace, tool.name] for tool in self.tools]
        """A number for each tool's name, equal for overloads."""
        self._graphs: dict[tuple[float, tuple[str, ...]], Graph] = {}
        self._lock = threading.Lock()

    def graph(self, min_score: float, spaces: tuple[str, ...]) -> Graph:
        """The dataflow between tools of these namespaces, without edges below `min_score`; cached."""
        key = (min_score, spaces)
        with self._lock:
            self._graphs[key] = graph = self._graphs.pop(key, None) or build_graph(self, min_score, spaces)
            while len(self._graphs) > _GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            return graph

    def named(self, namespace: str, name: str) -> tuple[int, ...]:
        """Indexes of the overloads of a name; empty if there are none."""
        return self._named.get((namespace, name), ())

    def namesakes(self, name: str) -> tuple[int, ...]:
        """Indexes of the tools with a bare name, in any namespace."""
        return self._bare.get(name, ())

    @cached_property
    def likeness(self) -> ToolLikeness:
        """The similarity of tools: by embeddings if the registry has them, else by words."""
        known = self.artifacts.get("embeddings")
        if known is None:
            return compare_words(self.tools)
        return ToolLikeness(read_embedding_matrix(known, self.tools), "embeddings")

    @cached_property
    def content(self) -> ContentWords:
        """The content words of each tool."""
        return ContentWords(self.tools)


_snapshot_views: WeakKeyDictionary[Any, SnapshotView] = WeakKeyDictionary()
_lock = threading.Lock()


def snapshot_view_of(view: View) -> SnapshotView:
    """Return the `SnapshotView` of a snapshot; cached as long as the snapshot is in use."""
    try:
        with _lock:
            found = _snapshot_views.get(view)
            if found is None:
                found = _snapshot_views[view] = SnapshotView(view)
            return found
    except TypeError:
        # A custom view that is not hashable or weakly referenceable.
        return SnapshotView(view)


_SHORTEST = 4
"""Shortest word matched as prefix or suffix of another: `mail` matches `email`, `car` does not match `card`."""
_LONGEST = 40
"""Longest word whose prefixes and suffixes are matched."""
_COMPOUND = re.compile(r"[^\W_]+(?:[-\u2010\u2011][^\W_]+)+")
_HYPHEN = re.compile(r"[-\u2010\u2011]")
_EMPTY = "api call data detail details function info information input output provided return value"
"""Words too common in descriptions to say what a tool is for."""


class ContentWords:
    """Which tools have which content words in their names and descriptions."""

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
        """For each tool, whether it shares a word with the text; prefixes and suffixes count, both ways.

        `e-mail`, `mail` and `emails` all match `send_email`.
        """
        found = np.zeros(self._count, np.bool_)
        for word in content_words(text):
            for known in (word, *_list_ends(word), *self._within.get(word, ())):
                found[self._places.get(known, [])] = True
        return found


def content_words(text: str) -> list[str]:
    """The distinct stems of a text's content words; hyphenated words also count as one word."""
    compounds = (_HYPHEN.sub("", found.lower()) for found in _COMPOUND.findall(text))
    found = dict.fromkeys((*stem_words(text), *map(stem, compounds)))
    return [
        word
        for word in found
        if len(word) > 1 and not (word.isdigit() or is_stop_word(word) or word in _list_empty_words())
    ]


@cache
def _list_empty_words() -> frozenset[str]:
    return frozenset(map(stem, _EMPTY.split()))


def _list_ends(word: str) -> Iterator[str]:
    """Yield the prefixes and suffixes of a word that may be words themselves."""
    for length in range(_SHORTEST, len(word) if len(word) <= _LONGEST else 0):
        yield word[:length]
        yield word[-length:]


Arrows = list[tuple[int, float]]


class Graph:
    """Edges by tool index, in both directions, best first; without edges between overloads of a name."""

    def __init__(self, dataflow: Dataflow, name_ids: Sequence[int], out: list[Arrows], into: list[Arrows]) -> None:
        self._dataflow = dataflow
        self.name_ids = name_ids
        self.out = out
        self.into = into
        self._hubs: dict[tuple[bool, int], list[int]] = {}

    @cached_property
    def linked(self) -> tuple[int, ...]:
        """Indexes of the tools with an edge."""
        return tuple(place for place, arrows in enumerate(self.out) if arrows or self.into[place])

    @cached_property
    def name_count(self) -> int:
        """The number of names with an edge."""
        return len({self.name_ids[place] for place in self.linked})

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Indexes of the tools that feed another."""
        return tuple(place for place, arrows in enumerate(self.out) if arrows)

    @cached_property
    def reach(self) -> list[int]:
        """For each tool, the number of names in its connected component."""
        sizes = [1] * len(self.out)
        seen = [False] * len(self.out)
        for start in self.linked:
            if seen[start]:
                continue
            seen[start] = True
            group = [start]
            for place in group:
                for other, _ in (*self.out[place], *self.into[place]):
                    if not seen[other]:
                        seen[other] = True
                        group.append(other)
            size = len({self.name_ids[place] for place in group})
            for place in group:
                sizes[place] = size
        return sizes

    def hubs(self, forward: bool, count: int) -> list[int]:
        """Indexes of the tools that feed, or are fed by, at least `count` others; cached for all draws."""
        found = self._hubs.get((forward, count))
        if found is None:
            arrows = self.out if forward else self.into
            found = self._hubs[forward, count] = [place for place in self.linked if len(arrows[place]) >= count]
        return found

    def edge(self, source: int, target: int) -> Edge:
        """The edge between two indexes, with its feeds; `KeyError` if there is none."""
        edge = self._dataflow.edge(source, target)
        if edge is None:
            raise KeyError((source, target))
        return edge

    def path(self, places: Sequence[int]) -> list[Edge]:
        """The edges from each tool to the next."""
        return [self.edge(source, target) for source, target in pairwise(places)]


def build_graph(snapshot: SnapshotView, min_score: float, spaces: tuple[str, ...]) -> Graph:
    """Build the graph of the artifact "dataflow", without weak edges and without edges to other namespaces."""
    dataflow: Dataflow = snapshot.artifacts["dataflow"]
    tools, name_ids = snapshot.tools, snapshot.name_ids
    allowed = frozenset(spaces)
    inside = [tool.namespace in allowed for tool in tools]
    out: list[Arrows] = [[] for _ in tools]
    into: list[Arrows] = [[] for _ in tools]
    for place in range(len(tools)):
        if not inside[place]:
            continue
        for other, score in dataflow.out_edges(place):
            if score >= min_score and inside[other] and name_ids[other] != name_ids[place]:
                out[place].append((other, score))
                into[other].append((place, score))
    for arrows in into:
        arrows.sort(key=lambda arrow: (-arrow[1], arrow[0]))
    return Graph(dataflow, name_ids, out, into)
