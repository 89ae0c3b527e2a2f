"""Which tools are worth a closer look: the best by words, and by the vectors that stand for meaning."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.cache.items import ItemCache
from toolyard.insight.embeddings.embedder import Embedder, Matrix, normalise_rows
from toolyard.insight.embeddings.vectors import cached_vectors
from toolyard.insight.search.postings import Postings
from toolyard.insight.search.query import Query, QueryVectors, is_stop, vector_text
from toolyard.insight.search.signals import Weighed, WordVectors
from toolyard.model.tool import Tool

_MOST_KEPT = 4096
"""Vectors of queries and their words that are kept in memory."""
_MOST_NEW = 24
"""Words of one query that no tool has, and that are embedded all the same."""
_FIRM = 200
"""Tools from which on a catalog's own mean counts for more than the usual one."""


class Known(msgspec.Struct, frozen=True):
    """The vectors of a catalog, centred: of its tools, and of the words of their texts."""

    tools: Matrix
    words: WordVectors
    tool_mean: Matrix
    word_mean: Matrix
    numbers: Mapping[str, int]


class Meaning:
    """Makes vectors by one embedder, each text once. Any number of threads may ask; one at a time embeds a catalog."""

    def __init__(self, embedder: Embedder, cache: ItemCache | None = None) -> None:
        self._embedder = embedder
        self._cache = cache
        self._catalog: dict[str, Matrix] = {}
        """The vectors of the texts and words of the catalog that was last embedded, as the model made them."""
        self._kept: OrderedDict[str, Matrix] = OrderedDict()
        self._keeping = threading.Lock()

    def embed_catalog(self, tools: Sequence[Tool], numbers: Mapping[str, int], surfaces: Mapping[int, str]) -> Known:
        """The vectors of all tools and words; those that the catalog before had are not made again."""
        texts, words = [vector_text(tool) for tool in tools], list(surfaces.values())
        made = {**self._embed_texts(texts, "tools"), **self._embed_texts(words, "words")}
        self._catalog = made
        raw, word_rows = self._stack_rows(texts), self._stack_rows(words)
        mean, word_mean = _compute_mean(raw), _compute_mean(word_rows)
        row = np.full(len(numbers), -1, np.int32)
        row[list(surfaces)] = np.arange(len(surfaces))
        stop = np.array([is_stop(stemmed) for stemmed in numbers], np.bool_)
        vectors = WordVectors(normalise_rows(word_rows - word_mean), row, stop)
        return Known(normalise_rows(raw - mean), vectors, mean, word_mean, numbers)

    def _embed_texts(self, texts: Sequence[str], label: str) -> dict[str, Matrix]:
        known = self._catalog
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        rows = cached_vectors(self._embedder, fresh, self._cache, label)
        return {**{text: known[text] for text in texts if text in known}, **dict(zip(fresh, rows, strict=True))}

    def _stack_rows(self, texts: Sequence[str]) -> Matrix:
        rows = [self._catalog[text] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._embedder.dimensions), np.float32)

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


def _compute_mean(rows: Matrix) -> Matrix:
    """The mean, drawn to nothing where there are too few to know it."""
    if not len(rows):
        return np.zeros(rows.shape[1], np.float32)
    return np.asarray(rows.mean(axis=0) * (len(rows) / (len(rows) + _FIRM)), np.float32)


_OF_WHOLE, _OF_PART = 24, 8
_MOST_POSTINGS = 12_000
"""Places that are looked at for a query: those of its rarest words."""

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
        found, values = postings.of_term(term)
        rows.append(found)
        inner.append(values)
        used.append(int(place))
        total += len(found)
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


def by_meaning(known: Known, vectors: Matrix, where: Mask | None, k: int) -> NDArray[np.intp]:
    """The rows whose vectors are nearest to the query's; as many as `k`, if there are."""
    # All of them in one product: exact, and 200,000 vectors take milliseconds.
    likeness = np.asarray(vectors @ known.tools.T, np.float32)
    if where is not None:
        likeness[:, ~where] = -2
    counts = [_OF_PART if part else max(k, _OF_WHOLE) for part in range(len(vectors))]
    found = [_find_highest(like, count, _NO_LIKENESS) for like, count in zip(likeness, counts, strict=True)]
    return np.concatenate(found)


def _find_highest(scores: NDArray[Any], k: int, above: float = 0.0) -> NDArray[np.intp]:
    """The places of the `k` highest that are above a bound."""
    there = np.flatnonzero(scores > above)
    if len(there) <= k:
        return there
    # Among those above alone: to part a great many equal zeros takes longer than all the rest.
    inside = scores[there]
    return there[np.argpartition(inside, len(inside) - k)[len(inside) - k :]]
