"""A query, read: its parts, their words, and the vectors of both."""

from __future__ import annotations

import re

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.embeddings.embedder import Matrix
from toolyard.insight.search.postings import Postings
from toolyard.insight.search.text import MOST_QUERY, is_stop, segments, stem, words

_MOST_TERMS = 96
"""Different words of a query that count."""
_STOP_WEIGHT = 0.15
_UNKNOWN_WEIGHT = 0.58
"""What a word loses that is in no tool of a large catalog."""
_OTHERS = 1000
"""Tools that there might be, and that would have none of the words."""
_VALUE = re.compile("[0-9]+|[\"'`\u2018\u201c]|@|https?:")
_PROPER = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")


class Query(msgspec.Struct, frozen=True):
    """What was asked, by segments: the whole first, then its parts."""

    text: str
    segments: tuple[str, ...]
    stems: tuple[str, ...]
    """Different stems in order, of the whole."""
    surfaces: tuple[str, ...]
    """A word that each stem was made of."""
    has: NDArray[np.bool_]
    """Which segment has which stem."""
    stop: NDArray[np.bool_]
    said: int
    """How many of the stems say something: neither stop words nor numbers."""
    values: float
    """About how many values for parameters it holds: numbers, quotations, names."""


class Weighed(msgspec.Struct, frozen=True):
    """A query's words, as rare as they are in one catalog."""

    terms: NDArray[np.int32]
    """Those that the catalog has."""
    weights: NDArray[np.float32]
    """Segments by terms."""
    totals: NDArray[np.float32]
    """Of each segment."""
    rarity: NDArray[np.float32]
    """Of each of the query's stems."""


def read_query(text: str) -> Query:
    """Cut a query into segments and words; of a very long one, the beginning."""
    # Half a surrogate pair is no text for a model.
    text = text[:MOST_QUERY].encode("utf-8", "replace").decode()
    parts = tuple(segments(text))
    found: dict[str, str] = {}
    each: list[set[str]] = []
    for part in parts:
        mine = set()
        for word in words(part):
            stemmed = stem(word)
            if stemmed in found or len(found) < _MOST_TERMS:
                found.setdefault(stemmed, word)
                mine.add(stemmed)
        each.append(mine)
    has = np.array([[stemmed in mine for stemmed in found] for mine in each], np.bool_).reshape(len(parts), len(found))
    stop = np.array([is_stop(stemmed) for stemmed in found], np.bool_)
    values = min(len(_VALUE.findall(text)) / 2, 4.0) + len(_PROPER.findall(text))
    said = sum(not (word.isdigit() or idle) for word, idle in zip(found.values(), stop, strict=True))
    return Query(text, parts, tuple(found), tuple(found.values()), has, stop, said, values)


def weigh_words(query: Query, numbers: dict[str, int], postings: Postings) -> Weighed:
    """The words by their rarity in a catalog. One that no tool has counts less: it may be a value."""
    known = [numbers.get(stemmed) for stemmed in query.stems]
    counts = np.array([0 if number is None else postings.count(number) for number in known], np.float32)
    rarity = rarity_of(counts, postings.rows)
    there = np.flatnonzero(counts > 0)
    terms = np.array([known[place] for place in there], np.int32)
    single = (rarity * np.where(query.stop, _STOP_WEIGHT, 1.0))[there].astype(np.float32)
    weights = query.has[:, there] * single
    spelt = np.array([not word.isdigit() for word in query.surfaces], np.bool_)
    # What thousands of tools do not have is a value, most likely; what three do not have may be any word.
    share = 1 - _UNKNOWN_WEIGHT * postings.rows / (postings.rows + _OTHERS)
    unknown = query.has @ np.where((counts == 0) & spelt & ~query.stop, share * rarity, 0.0)
    totals = (weights.sum(axis=1) + unknown + 1e-6).astype(np.float32)
    return Weighed(terms, weights.astype(np.float32), totals, rarity)


def rarity_of(counts: NDArray[np.float32], rows: int) -> NDArray[np.float32]:
    """Inverse document frequency, as BM25 has it, among the tools that are there and many that might be.

    In a catalog of ten tools for orders, `order` would else say nothing of what is asked.
    """
    return np.log1p((rows + _OTHERS - counts + 0.5) / (counts + 0.5)).astype(np.float32)


class QueryVectors(msgspec.Struct, frozen=True):
    """The vectors of a query: one for each segment, and one for each content word."""

    segments: Matrix
    words: Matrix
    word_places: tuple[int, ...]
    """Which of the query's stems each row of `words` stands for."""
