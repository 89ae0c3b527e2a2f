"""The features of a query's candidates, in one table: what the weights are for."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.search.candidates import Mask, by_meaning, by_words
from toolyard.insight.search.index import IndexView
from toolyard.insight.search.meaning import Known
from toolyard.insight.search.query import Query, QueryVectors, Weighed, weigh_words
from toolyard.insight.search.rank import Signals, pick_candidates, soft_signals, word_signals

Floats = NDArray[np.float32]

_CLOSER = 28
"""Candidates that are compared word by word."""
LEXICAL = ("match", "words", "name", "match_part", "words_part", "name_part", "lacking")
HYBRID = (
    *("match", "words", "name", "meaning", "soft_name", "soft_words", "least"),
    *("match_part", "words_part", "name_part", "meaning_part", "soft_name_part", "soft_words_part", "least_part"),
    "lacking",
)
"""The columns; `_part` is the most that any segment of the query gives."""


class Table(msgspec.Struct, frozen=True):
    """Candidates by features."""

    rows: NDArray[np.intp]
    values: Floats
    segments: int
    total: float
    """How much the words of the query weigh."""


def table_of(
    query: Query,
    view: IndexView,
    known: Known | None,
    vectors: QueryVectors | None,
    where: Mask | None,
    k: int = 0,
) -> Table:
    """The features of what is worth a closer look, for `k` hits; without vectors, those of words alone."""
    state = view.state
    weights = weigh_words(query, state.numbers, state.postings)
    rows = by_words(weights, state.postings, where, k)
    if known is not None and vectors is not None:
        rows = np.concatenate([rows, by_meaning(known, vectors.segments, len(state.tools), where, k)])
    rows = np.unique(rows)
    if not len(rows):
        width = len(LEXICAL) if known is None else len(HYBRID)
        return Table(rows, np.zeros((0, width), np.float32), len(query.segments), 0.0)
    signals, gathered = word_signals(weights, state.postings, rows)
    parts = [signals.match, signals.words, signals.name]
    if known is None or vectors is None:
        return _build_table(query, view, rows, parts, weights)
    meaning = vectors.segments @ known.dense.rows[rows].T
    if len(rows) > max(k, _CLOSER):
        near = _first_look(signals, meaning, max(k, _CLOSER))
        rows, meaning = rows[near], meaning[:, near]
        parts = [part[:, near] for part in parts]
        gathered = pick_candidates(gathered, near)
    soft = soft_signals(query, weights.rarity, gathered, known.words, vectors)
    return _build_table(query, view, rows, [*parts, meaning, *soft], weights)


def _first_look(signals: Signals, meaning: Floats, count: int) -> NDArray[np.intp]:
    rough = 3 * signals.match[0] + 5 * signals.words[0] + 8 * meaning.max(axis=0) + signals.name.max(axis=0)
    return np.sort(np.argpartition(rough, len(rough) - count)[len(rough) - count :])


def _build_table(query: Query, view: IndexView, rows: NDArray[np.intp], parts: list[Floats], weights: Weighed) -> Table:
    whole = [part[0] for part in parts]
    most = [part.max(axis=0) for part in parts]
    values = np.stack([*whole, *most, _count_lacking(query, view, rows)], axis=1)
    return Table(rows, values.astype(np.float32), len(query.segments), float(weights.totals[0]))


def _count_lacking(query: Query, view: IndexView, rows: NDArray[np.intp]) -> Floats:
    """Required parameters that the query neither names nor seems to have a value for: 0, 1/2, 2/3, 3/4, ..."""
    said = set(query.stems)
    lacks = view.state.lacks
    count = [sum(said.isdisjoint(words) for words in lacks[row]) for row in rows]
    lacking = np.maximum(np.array(count, np.float32) - query.values, 0)
    return np.asarray(lacking / (1 + lacking), np.float32)
