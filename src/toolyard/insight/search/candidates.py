"""Which tools are worth a closer look: the best by words, and by the vectors that stand for meaning."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.cache.items import ItemCache
from toolyard.insight.embeddings.embedder import Embedder, Matrix, normalise_rows
from toolyard.insight.embeddings.vectors import GrowingMatrix, cached_vectors
from toolyard.insight.search.postings import Postings
from toolyard.insight.search.query import Query, QueryVectors, is_stop, vector_text
from toolyard.insight.search.signals import Weighed, WordVectors
from toolyard.model.tool import Tool

_MOST_KEPT = 4096
"""Vectors of queries and their words that are kept in memory."""
_MOST_NEW = 24
"""Words of one query that no tool has, and that are embedded all the same."""
_SKETCH_FROM = 2000
_SKETCH = 64
"""Numbers of a vector that are compared first."""
_FIRM = 200
"""Tools from which on a catalog's own mean counts for more than the usual one."""


class Known(msgspec.Struct, frozen=True):
    """The vectors at one moment: those of the first `rows` tools, and of the words of their texts."""

    dense: GrowingMatrix
    words: WordVectors
    tool_mean: Matrix
    word_mean: Matrix
    numbers: Mapping[str, int]
    rows: int
    axes: Matrix | None = None
    """The directions in which the tools differ most; None where there are few tools."""
    sketch: Matrix | None = None
    """The vectors along those alone, one a column: a sixth of the numbers, and enough to find candidates by."""
    source: object = None
    """Whose rows these are: the vocabulary of the index that they were made for."""


class Meaning:
    """Makes vectors by one embedder, each text once. Any number of threads may ask; one at a time adds."""

    def __init__(self, embedder: Embedder, cache: ItemCache | None = None) -> None:
        self._embedder = embedder
        self._cache = cache
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Matrix] = OrderedDict()
        self._keeping = threading.Lock()

    def grown(
        self, known: Known | None, tools: Sequence[Tool], numbers: Mapping[str, int], surfaces: Mapping[int, str]
    ) -> Known:
        """With the vectors of all tools; those that `known` has are not made again.

        The means that are subtracted stay as they are until there are twice as many tools.
        """
        with self._lock:
            if known is not None and len(tools) >= 2 * max(known.rows, _FIRM):
                known = None
            done = 0 if known is None else known.rows
            raw = cached_vectors(self._embedder, [vector_text(tool) for tool in tools[done:]], self._cache, "tools")
            words, word_mean = self._embed_words(known, numbers, surfaces)
            if known is not None:
                fresh = normalise_rows(raw - known.tool_mean)
                if len(raw):
                    known.dense.add(fresh)
                grown = msgspec.structs.replace(known, words=words, numbers=numbers, rows=len(tools))
                return _add_sketch(grown, fresh)
            mean = _compute_mean(raw)
            dense = GrowingMatrix(normalise_rows(raw - mean))
            return _add_sketch(Known(dense, words, mean, word_mean, numbers, len(tools)), dense.rows)

    def _embed_words(
        self, known: Known | None, numbers: Mapping[str, int], surfaces: Mapping[int, str]
    ) -> tuple[WordVectors, Matrix]:
        row = np.full(len(numbers), -1, np.int32)
        stop = np.zeros(len(numbers), np.bool_)
        old = 0 if known is None else len(known.words.row)
        if known is not None:
            row[:old], stop[:old] = known.words.row, known.words.stop
        fresh = [term for term in surfaces if term < len(row) and row[term] < 0]
        matrix = cached_vectors(self._embedder, [surfaces[term] for term in fresh], self._cache, "words")
        row[fresh] = np.arange(len(fresh)) + (0 if known is None else len(known.words.matrix))
        for stemmed, number in numbers.items():
            if number >= old and is_stop(stemmed):
                stop[number] = True
        mean = _compute_mean(matrix) if known is None else known.word_mean
        matrix = normalise_rows(matrix - mean)
        return WordVectors(matrix if known is None else np.concatenate([known.words.matrix, matrix]), row, stop), mean

    def of_query(self, query: Query, known: Known) -> QueryVectors:
        """The vectors of a query, centred as those of the catalog are."""
        rows: list[Matrix] = []
        places: list[int] = []
        fresh: list[tuple[int, str]] = []
        for place, (stemmed, word) in enumerate(zip(query.stems, query.surfaces, strict=True)):
            if query.stop[place] or word.isdigit():
                continue
            number = known.numbers.get(stemmed, -1)
            row = known.words.row[number] if 0 <= number < len(known.words.row) else -1
            if row >= 0:
                rows.append(known.words.matrix[row])
                places.append(place)
            elif len(fresh) < _MOST_NEW:
                fresh.append((place, word))
        made = self._encode_texts([*query.segments, *(word for _, word in fresh)])
        count = len(query.segments)
        rows += list(normalise_rows(made[count:] - known.word_mean))
        places += [place for place, _ in fresh]
        words = np.array(rows, np.float32).reshape(len(rows), made.shape[1])
        return QueryVectors(normalise_rows(made[:count] - known.tool_mean), words, tuple(places))

    def understands(self, query: Query) -> bool:
        """Whether the model was made for the script of the query: what it makes of another says nothing."""
        return not getattr(self._embedder, "latin", False) or _is_latin(query.text)

    def _encode_texts(self, texts: Sequence[str]) -> Matrix:
        with self._keeping:
            there = {text: self._kept[text] for text in texts if text in self._kept}
        fresh = [text for text in dict.fromkeys(texts) if text not in there]
        if fresh:
            made = self._embedder.encode(fresh)
            there.update(zip(fresh, made, strict=True))
            with self._keeping:
                self._kept.update(zip(fresh, made, strict=True))
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return np.stack([there[text] for text in texts])


def _is_latin(text: str) -> bool:
    """Whether at least half of the letters are."""
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters) >= len(letters)


def _add_sketch(known: Known, fresh: Matrix) -> Known:
    """With a sketch, if that is worth it; `fresh` are the vectors that it lacks."""
    if len(known.dense) < _SKETCH_FROM or known.dense.rows.shape[1] < 2 * _SKETCH:
        return msgspec.structs.replace(known, axes=None, sketch=None)
    if known.axes is None or known.sketch is None:
        rows = known.dense.rows
        axes = np.ascontiguousarray(np.linalg.eigh(rows.T @ rows)[1][:, -_SKETCH:], np.float32)
        return msgspec.structs.replace(known, axes=axes, sketch=np.ascontiguousarray((rows @ axes).T))
    return msgspec.structs.replace(known, sketch=np.concatenate([known.sketch, (fresh @ known.axes).T], axis=1))


def _compute_mean(rows: Matrix) -> Matrix:
    """The mean, drawn to nothing where there are too few to know it."""
    if not len(rows):
        return np.zeros(rows.shape[1], np.float32)
    return np.asarray(rows.mean(axis=0) * (len(rows) / (len(rows) + _FIRM)), np.float32)


_OF_WHOLE, _OF_PART = 24, 8
_MOST_POSTINGS = 12_000
"""Places that are looked at for a query: those of its rarest words."""

_MANY, _SOME = 4096, 8
"""From how many on, one of how many is looked at first."""
_NO_LIKENESS = -1.5
"""Below every cosine, and above the mark of what is not to be found."""

Mask = NDArray[np.bool_]


def by_words(weights: Weighed, postings: Postings, where: Mask | None, k: int) -> NDArray[np.intp]:
    """The rows that have the most of the rarest words; as many as `k`, if there are."""
    if not len(weights.terms):
        return np.empty(0, np.intp)
    order = np.argsort(postings.counts[weights.terms], kind="stable")
    rows: list[NDArray[np.int32]] = []
    inner: list[NDArray[np.float32]] = []
    used: list[int] = []
    total = 0
    for place in order:
        term = int(weights.terms[place])
        for block in postings.blocks:
            found, values = block.of_term(term)
            rows.append(found)
            inner.append(values)
            used += [int(place)]
        total += postings.count(term)
        if total > _MOST_POSTINGS:
            break
    lengths = [len(part) for part in rows]
    joined, values = np.concatenate(rows), np.concatenate(inner)
    if where is not None:
        values = values * where[joined]
    chosen = []
    for part, row in enumerate(weights.weights):
        scores = np.bincount(joined, values * np.repeat(row[used], lengths), minlength=postings.rows)
        chosen.append(_find_highest(scores, _OF_PART if part else max(k, _OF_WHOLE)))
    return np.concatenate(chosen)


def by_meaning(known: Known, vectors: Matrix, rows: int, where: Mask | None, k: int) -> NDArray[np.intp]:
    """Those of the first `rows` whose vectors are nearest to the query's; as many as `k`, if there are."""
    dense = known.dense
    if not len(dense):
        return np.empty(0, np.intp)
    counts = [_OF_PART if part else max(k, _OF_WHOLE) for part in range(len(vectors))]
    if known.axes is not None and known.sketch is not None:
        likeness = np.asarray((vectors @ known.axes) @ known.sketch, np.float32)
    else:
        likeness = np.asarray(vectors @ dense.rows.T, np.float32)
    # Tools may have been added meanwhile that the snapshot of this search does not have.
    likeness = likeness[:, :rows]
    if where is not None:
        likeness[:, ~where] = -2
    pick = _find_nearest if where is None else partial(_find_highest, above=_NO_LIKENESS)
    return np.concatenate([pick(like, count) for like, count in zip(likeness, counts, strict=True)])


def _find_highest(scores: NDArray[Any], k: int, above: float = 0.0) -> NDArray[np.intp]:
    """The places of the `k` highest that are above a bound."""
    there = np.flatnonzero(scores > above)
    if len(there) <= k:
        return there
    # Among those above alone: to part a great many equal zeros takes longer than all the rest.
    inside = scores[there]
    return there[np.argpartition(inside, len(inside) - k)[len(inside) - k :]]


def _find_nearest(likeness: NDArray[Any], k: int) -> NDArray[np.intp]:
    """The places of the `k` highest of all, where few are equal."""
    if len(likeness) >= max(_MANY, _SOME * _SOME * k):
        # The last of the highest among some of them is no higher than the last among all: most are out at once.
        some = likeness[::_SOME]
        near = np.flatnonzero(likeness >= np.partition(some, len(some) - k)[len(some) - k])
        if len(near) >= k:  # else one is no number
            return near[np.argpartition(likeness[near], len(near) - k)[len(near) - k :]]
    return _find_highest(likeness, k, _NO_LIKENESS)
