"""The inverted index, the vectors of a catalog, and the signals by which candidates are compared with a query.

Field lengths are normalised by fixed usual lengths, so a tool's term weights depend on no other tool.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.arrays import Floats, Matrix, expand_ranges, multiply_rows, normalise_rows
from toolyard.insight.cache import ItemCache
from toolyard.insight.embeddings.embedder import Embedder
from toolyard.insight.embeddings.vectors import cached_vectors
from toolyard.insight.search.query import (
    Query,
    QueryVectors,
    find_kind,
    is_latin,
    is_stop_word,
    list_views,
    load_examples,
    split_words,
    stem_fields,
    stem_required,
    stem_words,
)
from toolyard.model.tool import Tool

Ints = NDArray[np.int32]
Zones = NDArray[np.int8]
Mask = NDArray[np.bool_]

IN_TEXT, IN_NAME = 1, 2

_K1, _B = 1.2, 0.45
_USUAL = ((3.0, 3.0), (2.0, 12.0), (1.0, 5.0), (0.5, 35.0), (0.5, 1.5))
"""Weight and usual length of names, descriptions, parameter names, parameter descriptions, enum values."""
_MOST_TERMS = 400
"""Maximum number of distinct terms kept per tool, by weight."""


class ToolTerms(msgspec.Struct, frozen=True):
    """The terms of one tool."""

    terms: Ints
    weights: Floats
    """BM25F without the IDF factor: between 0 and 1."""
    zones: Zones
    """Where the term is: `IN_NAME`, else `IN_TEXT` (the description), else 0."""


class Postings(msgspec.Struct, frozen=True):
    """The terms of a set of tools, by row and by term."""

    offsets: NDArray[np.int64]
    terms: Ints
    weights: Floats
    zones: Zones
    term_offsets: NDArray[np.int64]
    term_rows: Ints
    term_weights: Floats
    counts: NDArray[np.int64]
    """The number of rows of each term."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def count(self, term: int) -> int:
        """The number of rows with the term."""
        return int(self.counts[term]) if term < len(self.counts) else 0

    def of_term(self, term: int) -> tuple[Ints, Floats]:
        """The rows with the term, and its weights there."""
        start, end = self.term_offsets[term], self.term_offsets[term + 1]
        return self.term_rows[start:end], self.term_weights[start:end]

    def of_rows(self, rows: NDArray[np.intp]) -> CandidateTerms:
        """The concatenated terms of some rows."""
        owners, positions = expand_ranges(self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows])
        terms = self.terms[positions]
        rarity = compute_rarity(self.counts[terms].astype(np.float32), self.rows)
        return CandidateTerms(owners, terms, self.weights[positions], self.zones[positions], rarity)


class CandidateTerms(msgspec.Struct, frozen=True):
    """The terms of some rows, concatenated."""

    owners: Ints
    """The index, among these rows, of each term's row."""
    terms: Ints
    weights: Floats
    zones: Zones
    rarity: Floats


class Vocabulary:
    """Numbers the terms. It only grows, under its owner's lock."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.surfaces: dict[int, str] = {}
        """For each term of a name or description, a word in which it occurs."""

    def read_tool(self, tool: Tool) -> SearchEntry:
        """Compute everything about a tool that search needs; new terms are numbered."""
        required = tuple(map(frozenset, stem_required(tool)))
        home = frozenset(word for word in stem_words(tool.namespace) if not is_stop_word(word))
        return SearchEntry(tool, self.row(tool), required, home, find_kind(tool))

    def row(self, tool: Tool) -> ToolTerms:
        """Compute the terms of a tool; new ones are numbered."""
        numbers = self.numbers
        weights: dict[int, float] = {}
        parts = stem_fields(tool)
        for (weight, usual), found in zip(_USUAL, parts, strict=True):
            share = weight / (1 - _B + _B * len(found) / usual)
            for term in found:
                number = numbers.setdefault(term, len(numbers))
                weights[number] = weights.get(number, 0.0) + share
        weight, usual = _USUAL[1]
        home = stem_words(tool.namespace)
        for term in home:
            # Weighted like a word of the description, without adding to its length.
            share = weight / (1 - _B + _B * len(parts[1]) / usual)
            weights.setdefault(numbers.setdefault(term, len(numbers)), share)
        for text in (tool.name, *tool.aliases, tool.description):
            for stemmed, word in zip(stem_words(text), split_words(text), strict=True):
                self.surfaces.setdefault(numbers[stemmed], word)
        if len(weights) > _MOST_TERMS:
            weights = dict(sorted(weights.items(), key=lambda item: -item[1])[:_MOST_TERMS])
        zones = {**dict.fromkeys((*home, *parts[1]), IN_TEXT), **dict.fromkeys(parts[0], IN_NAME)}
        zone_of = {numbers[term]: zone for term, zone in zones.items()}
        terms = sorted(weights)
        raw = np.array([weights[term] for term in terms], np.float32)
        found_in = np.array([zone_of.get(term, 0) for term in terms], np.int8)
        return ToolTerms(np.array(terms, np.int32), raw / (_K1 + raw), found_in)


def build_postings(rows: Sequence[ToolTerms]) -> Postings:
    """Build the postings of tools, in their order."""
    offsets = np.concatenate([[0], np.cumsum([len(row.terms) for row in rows])]).astype(np.int64)
    terms = np.concatenate([np.zeros(0, np.int32), *(row.terms for row in rows)])
    weights = np.concatenate([np.zeros(0, np.float32), *(row.weights for row in rows)])
    zones = np.concatenate([np.zeros(0, np.int8), *(row.zones for row in rows)])
    order = np.argsort(terms, kind="stable")
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(offsets))
    counts = np.bincount(terms)
    term_offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Postings(offsets, terms, weights, zones, term_offsets, owners[order], weights[order], counts)


class SearchEntry(msgspec.Struct, frozen=True):
    """What is computed once per tool."""

    tool: Tool
    row: ToolTerms
    required_stems: tuple[frozenset[str], ...]
    """The stems of each required parameter."""
    home: frozenset[str]
    """The stems of its namespace."""
    kind: str
    """One of `KINDS`, or ""."""


class IndexView(msgspec.Struct, frozen=True, weakref=True, eq=False):
    """The index of one snapshot; rows are the tools' indexes in it."""

    tools: Sequence[Tool]
    postings: Postings
    numbers: Mapping[str, int]
    """Term numbers, shared with other snapshots."""
    entries: Sequence[SearchEntry]
    """By index of the tool."""
    by_lower_name: Mapping[str, tuple[int, ...]]
    """Indexes by lower-case name: bare and qualified, including aliases."""
    by_namespace: Mapping[str, Sequence[int]]
    """Indexes by namespace."""


_SOFT_FROM = 0.3
"""Cosine below which two words count as unrelated."""
_IMPORTANT = 1.5
"""Minimum rarity of the words of a name that a query must match."""
_STOP_WEIGHT = 0.15
_UNKNOWN_WEIGHT = 0.58
"""Fraction of the weight deducted, in a large catalog, from words that no tool has."""
_OTHERS = 1000
"""Imaginary tools without any of the words, added to every catalog for the IDF."""


class WeightedQuery(msgspec.Struct, frozen=True):
    """A query's words, weighted by their rarity in one catalog."""

    terms: NDArray[np.int32]
    """The terms that the catalog has."""
    weights: NDArray[np.float32]
    """Segments by terms."""
    totals: NDArray[np.float32]
    """Total weight of each segment."""
    rarity: NDArray[np.float32]
    """IDF of each stem of the query."""


class WordVectors(msgspec.Struct, frozen=True):
    """The vectors of a catalog's words."""

    matrix: Matrix
    row: NDArray[np.int32]
    """Row by term; -1 if it has no vector."""
    stop: NDArray[np.bool_]
    """Whether each term is a stop word."""


def word_signals(weights: WeightedQuery, postings: Postings, rows: NDArray[np.intp]) -> list[Floats]:
    """Compute the word signals, each segments by candidates.

    They are BM25F as a share of the segment's maximum; the share of the segment's words that the tool has; and the
    share of the tool's name that the segment has, by rarity.
    """
    found = postings.of_rows(rows)
    place = np.full(max(len(postings.counts), 1), -1, np.int32)
    place[weights.terms] = np.arange(len(weights.terms))
    at = place[found.terms]
    hit = np.flatnonzero(at >= 0)
    owners = found.owners[hit]
    by_segment = weights.weights[:, at[hit]]
    match = _sum_by_candidate(by_segment * found.weights[hit], owners, len(rows)) / weights.totals[:, None]
    words = _sum_by_candidate(by_segment, owners, len(rows)) / weights.totals[:, None]
    in_name = found.rarity * (found.zones == IN_NAME)
    names = _sum_by_candidate((by_segment > 0) * in_name[hit], owners, len(rows))
    total = np.bincount(found.owners, in_name, minlength=len(rows)) + 1e-6
    return [match, words, (names / total).astype(np.float32)]


def soft_signals(
    query: Query, rarity: Floats, found: CandidateTerms, count: int, words: WordVectors, vectors: QueryVectors
) -> tuple[Floats, Floats, Floats]:
    """Compute the word-vector signals, each segments by candidates.

    They are how well the segment covers the name, how well the tool covers the segment, and how well the segment covers
    the least covered word of the name.
    """
    segments = len(query.segments)
    zero = np.zeros((segments, count), np.float32)
    there = np.flatnonzero((found.zones >= IN_TEXT) & (words.row[found.terms] >= 0))
    places = np.array(vectors.word_places, np.intp)
    if not len(there) or not len(places):
        return zero, zero, zero
    terms, inverse = np.unique(found.terms[there], return_inverse=True)
    like = multiply_rows(vectors.words, words.matrix[words.row[terms]])
    like = np.clip((like - _SOFT_FROM) / (1 - _SOFT_FROM), 0, 1)
    like *= np.sqrt(like)  # to the power of 1.5, ten times faster
    owner, zones = found.owners[there], found.zones[there]
    weight = found.rarity[there] * np.where(words.stop[found.terms[there]], _STOP_WEIGHT, 1.0)
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


def _sum_by_candidate(values: NDArray[np.floating], owner: Ints, count: int) -> Floats:
    segments = len(values)
    keys = (np.arange(segments)[:, None] * count + owner).ravel()
    sums = np.bincount(keys, values.ravel(), minlength=segments * count)
    return sums.reshape(segments, count).astype(np.float32)


def weigh_words(query: Query, numbers: Mapping[str, int], postings: Postings) -> WeightedQuery:
    """Weight a query's words by their rarity. Words that no tool has count less, since they may be values."""
    known = [numbers.get(stemmed) for stemmed in query.stems]
    counts = np.array([0 if number is None else postings.count(number) for number in known], np.float32)
    rarity = compute_rarity(counts, postings.rows)
    there = np.flatnonzero(counts > 0)
    terms = np.array([known[place] for place in there], np.int32)
    single = (rarity * np.where(query.stop, _STOP_WEIGHT, 1.0))[there].astype(np.float32)
    weights = query.has[:, there] * single
    spelt = np.array([not word.isdigit() for word in query.surfaces], np.bool_)
    # A word missing from thousands of tools is probably a value; one missing from three may be any word.
    share = 1 - _UNKNOWN_WEIGHT * postings.rows / (postings.rows + _OTHERS)
    unknown = query.has @ np.where((counts == 0) & spelt & ~query.stop, share * rarity, 0.0)
    totals = (weights.sum(axis=1) + unknown + 1e-6).astype(np.float32)
    return WeightedQuery(terms, weights.astype(np.float32), totals, rarity)


def compute_rarity(counts: NDArray[np.float32], rows: int) -> NDArray[np.float32]:
    """Inverse document frequency as in BM25, with `_OTHERS` imaginary tools added.

    Otherwise `order` would have no weight in a catalog of ten tools for orders.
    """
    return np.log1p((rows + _OTHERS - counts + 0.5) / (counts + 0.5)).astype(np.float32)


_MOST_KEPT = 4096
"""Vectors of queries and words kept in memory."""
_MOST_NEW = 24
"""Maximum number of words of one query that no tool has and that are embedded anyway."""
_TINY = np.float32(1e-6)
_FEW, _USUALLY = 10, (0.05, 0.065)
"""Catalog size at which its own statistics and the default model's usual mean and deviation count equally."""
_SOME = 400
"""Tools and words sampled for these statistics."""
_FIRM = 200
"""Catalog size at which the mean vector is shrunk by half."""


class CatalogVectors(msgspec.Struct, frozen=True):
    """The vectors of a catalog: of its tools (each the mean of its texts) and of its words, centred."""

    tools: Matrix
    words: WordVectors
    tool_mean: Matrix
    word_mean: Matrix
    numbers: Mapping[str, int]
    shift: Matrix
    """Product of each tool's vector with the mean."""
    scale: Matrix
    """Reciprocal of each tool's distance from the mean."""
    usual: tuple[float, float]
    """Mean and standard deviation of the cosine of a tool and any word, which differ between models."""
    wish: tuple[Matrix, Matrix]
    """Midpoint of other requests and requests for tools; the vector between them by its squared length."""

    def place_request(self, request: Matrix) -> float:
        """Position of a request along `wish`: 0 at the midpoint, 1/2 at the mean of requests for tools."""
        return float((request - self.wish[0]) @ self.wish[1])

    def compare(self, segments: Matrix) -> tuple[Matrix, Matrix]:
        """Cosine of every tool with each segment: of the raw vectors, and of the vectors centred on the tools' mean."""
        # Both come from one product, which takes a millisecond for 10,000 vectors.
        plain = multiply_rows(segments, self.tools)
        mean = self.tool_mean
        lengths = np.maximum(np.linalg.norm(segments - mean, axis=1, keepdims=True), _TINY)
        centred = (plain - self.shift - (segments @ mean - mean @ mean)[:, None]) * self.scale / lengths
        return plain, np.asarray(centred, np.float32)


class SearchEmbedder:
    """Computes vectors with one embedder, each text once. Thread safe, but only one thread may embed a catalog."""

    def __init__(self, embedder: Embedder, cache: ItemCache | None = None) -> None:
        self._embedder = embedder
        self._cache = cache
        self._catalog: dict[str, Matrix] = {}
        """Raw vectors of the texts and words of the most recently embedded catalog."""
        self._kept: OrderedDict[str, Matrix] = OrderedDict()
        self._keeping = threading.Lock()

    def embed_catalog(
        self, tools: Sequence[Tool], numbers: Mapping[str, int], surfaces: Mapping[int, str]
    ) -> CatalogVectors:
        """Compute the vectors of all tools and words; those of the previous catalog are reused."""
        views, words = list(zip(*map(list_views, tools), strict=True)), list(surfaces.values())
        texts = [text for view in views for text in view]
        examples = load_examples()
        words_too = [*words, *examples.served, *examples.foreign]
        self._catalog = {
            **self._embed_texts(texts, "embedding tools"),
            **self._embed_texts(words_too, "embedding words"),
        }
        # The product with a mean equals the mean of the products, so one vector per tool suffices.
        raw = np.mean([self._stack_rows(view) for view in views or [()]], axis=0)
        word_rows = self._stack_rows(words)
        mean, word_mean = _compute_mean(raw), _compute_mean(word_rows)
        row = np.full(len(numbers), -1, np.int32)
        row[list(surfaces)] = np.arange(len(surfaces))
        stop = np.array([is_stop_word(stemmed) for stemmed in numbers], np.bool_)
        vectors = WordVectors(normalise_rows(word_rows - word_mean), row, stop)
        scale = (1 / np.maximum(np.linalg.norm(raw - mean, axis=1), _TINY)).astype(np.float32)
        some = word_rows[:: max(len(word_rows) // _SOME, 1)] @ raw[:: max(len(raw) // _SOME, 1)].T
        # In a small catalog, too many words are the tools' own, so its statistics are blended with the usual ones.
        own = len(raw) / (len(raw) + _FEW)
        seen = np.array((some.mean(), some.std()) if some.size else _USUALLY)
        usual, spread = (own * seen + (1 - own) * np.array(_USUALLY)).tolist()
        served, foreign = (self._stack_rows(some).mean(axis=0) for some in (examples.served, examples.foreign))
        way = (served - foreign) / max(float((served - foreign) @ (served - foreign)), _TINY)
        wish = (served + foreign) / 2, way
        return CatalogVectors(raw, vectors, mean, word_mean, numbers, raw @ mean, scale, (usual, spread), wish)

    def _embed_texts(self, texts: Sequence[str], label: str) -> dict[str, Matrix]:
        known = self._catalog
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        rows = cached_vectors(self._embedder, fresh, self._cache, label, verify=True)
        return {**{text: known[text] for text in texts if text in known}, **dict(zip(fresh, rows, strict=True))}

    def _stack_rows(self, texts: Sequence[str]) -> Matrix:
        rows = [self._catalog[text] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._embedder.dimensions), np.float32)

    def embed_query(self, query: Query, known: CatalogVectors) -> QueryVectors:
        """Compute the vectors of a query; its words are centred like those of the catalog."""
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
        return QueryVectors(made[:count], words, tuple(places))

    def supports_script(self, query: Query) -> bool:
        """Whether the model supports the script of the query."""
        return not getattr(self._embedder, "latin", False) or is_latin(query.text)

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


def _compute_mean(rows: Matrix) -> Matrix:
    """The mean, shrunk towards zero when there are few rows."""
    if not len(rows):
        return np.zeros(rows.shape[1], np.float32)
    return np.asarray(rows.mean(axis=0) * (len(rows) / (len(rows) + _FIRM)), np.float32)
