"""What speaks for each candidate: how rare the words of a query are, and the shares of words, names and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.embeddings.embedder import Matrix
from toolyard.insight.search.postings import IN_NAME, IN_TEXT, Postings
from toolyard.insight.search.query import Query, QueryVectors

Floats = NDArray[np.float32]

_SOFT_FROM = 0.3
"""Cosine of two words below which they have nothing to do with each other."""
_IMPORTANT = 1.5
"""Rarity from which on a word of a name must be answered for."""
_STOP_WEIGHT = 0.15


_UNKNOWN_WEIGHT = 0.58
"""What a word loses that is in no tool of a large catalog."""
_OTHERS = 1000
"""Tools that there might be, and that would have none of the words."""


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


class WordVectors(msgspec.Struct, frozen=True):
    """Vectors of a catalog's words, and which of them have one."""

    matrix: Matrix
    row: NDArray[np.int32]
    """By term; -1 if it has none."""
    stop: NDArray[np.bool_]
    """By term, whether it is a stop word."""


class Signals(msgspec.Struct, frozen=True):
    """Features of candidates: segments by candidates."""

    match: Floats
    """BM25F, as a share of what the segment could reach."""
    words: Floats
    """Share of the segment's words that the tool has, by rarity."""
    name: Floats
    """Share of the tool's name that the segment has, by rarity."""


def word_signals(weights: Weighed, postings: Postings, rows: NDArray[np.intp]) -> tuple[Signals, Gathered]:
    """The signals that words alone give."""
    offsets, terms, inner, zones = postings.of_rows(rows)
    gathered = Gathered(offsets, terms, zones, rarity_of(_count_rows(postings, terms), postings.rows))
    width = max(len(postings.counts), 1)
    place = np.full(width, -1, np.int32)
    place[weights.terms] = np.arange(len(weights.terms))
    at = place[terms]
    hit = np.flatnonzero(at >= 0)
    owner = gathered.owner[hit]
    by_segment = weights.weights[:, at[hit]]
    match = _sum_by_candidate(by_segment * inner[hit], owner, len(rows)) / weights.totals[:, None]
    words = _sum_by_candidate(by_segment, owner, len(rows)) / weights.totals[:, None]
    in_name = zones[hit] == IN_NAME
    rarity = gathered.rarity[hit] * in_name
    names = _sum_by_candidate((by_segment > 0) * rarity, owner, len(rows))
    total = np.bincount(gathered.owner, gathered.rarity * (zones == IN_NAME), minlength=len(rows)) + 1e-6
    return Signals(match, words, (names / total).astype(np.float32)), gathered


class Gathered(msgspec.Struct, frozen=True, dict=True):
    """The terms of the candidates, one candidate behind the other."""

    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]
    zones: NDArray[np.int8]
    rarity: Floats

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The candidate of each."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def pick_candidates(gathered: Gathered, chosen: NDArray[np.intp]) -> Gathered:
    """Those of some of the candidates."""
    starts, lengths = gathered.offsets[chosen], np.diff(gathered.offsets)[chosen]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return Gathered(offsets, gathered.terms[places], gathered.zones[places], gathered.rarity[places])


def soft_signals(
    query: Query, rarity: Floats, gathered: Gathered, words: WordVectors, vectors: QueryVectors
) -> tuple[Floats, Floats, Floats]:
    """Likeness word by word: of the name to the segment, of the segment to the tool, and of the name's least word.

    Each is segments by candidates.
    """
    count, segments = len(gathered.offsets) - 1, len(query.segments)
    zero = np.zeros((segments, count), np.float32)
    there = np.flatnonzero((gathered.zones >= IN_TEXT) & (words.row[gathered.terms] >= 0))
    places = np.array(vectors.word_places, np.intp)
    if not len(there) or not len(places):
        return zero, zero, zero
    terms, inverse = np.unique(gathered.terms[there], return_inverse=True)
    like = np.clip((vectors.words @ words.matrix[words.row[terms]].T - _SOFT_FROM) / (1 - _SOFT_FROM), 0, 1)
    like *= np.sqrt(like)  # to the power of 1.5, in a tenth of the time
    owner, zones = gathered.owner[there], gathered.zones[there]
    weight = gathered.rarity[there] * np.where(words.stop[gathered.terms[there]], _STOP_WEIGHT, 1.0)
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    owners = owner[starts]
    best = np.zeros((len(places), count), np.float32)
    best[:, owners] = np.maximum.reduceat(like[:, inverse], starts, axis=1)
    own = query.has[:, places]
    value = own * rarity[places]
    answered = (value @ best) / (value.sum(axis=1, keepdims=True) + 1e-6)
    named = np.flatnonzero(zones == IN_NAME)
    if not len(named):
        return zero, answered.astype(np.float32), zero
    masked = np.where(own[:, :, None], like[None], 0.0).max(axis=1)
    close = masked[:, inverse[named]]
    name_owner, name_weight = owner[named], weight[named]
    total = np.bincount(name_owner, name_weight, minlength=count) + 1e-6
    covered = _sum_by_candidate(close * name_weight, name_owner, count) / total
    first = np.flatnonzero(np.r_[True, name_owner[1:] != name_owner[:-1]])
    least = np.zeros((segments, count), np.float32)
    least[:, name_owner[first]] = np.minimum.reduceat(np.where(name_weight > _IMPORTANT, close, 1.0), first, axis=1)
    return covered.astype(np.float32), answered.astype(np.float32), least


def _count_rows(postings: Postings, terms: NDArray[np.int32]) -> Floats:
    return postings.counts[terms].astype(np.float32)


def _sum_by_candidate(values: NDArray[np.floating], owner: NDArray[np.intp], count: int) -> Floats:
    """Sums by candidate, of each segment."""
    segments = len(values)
    keys = (np.arange(segments)[:, None] * count + owner).ravel()
    sums = np.bincount(keys, values.ravel(), minlength=segments * count)
    return sums.reshape(segments, count).astype(np.float32)


def weigh_words(query: Query, numbers: Mapping[str, int], postings: Postings) -> Weighed:
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
