"""Rank candidates: their order, whether the request is about any tool here, and the probability of each.

Each of the three is a linear model; its weights are in `weights.json`, by column name, as fitted by
`benchmarks.search_fit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.arrays import Floats, Matrix
from toolyard.insight.search.candidates import (
    CatalogVectors,
    IndexView,
    Mask,
    Postings,
    WeightedQuery,
    soft_signals,
    weigh_words,
    word_signals,
)
from toolyard.insight.search.query import KINDS, Query, QueryVectors
from toolyard.model.tool import Fit, SearchMode


class RankWeights(msgspec.Struct, frozen=True):
    """The weights of one search mode."""

    rank: dict[str, float]
    about: dict[str, float]
    right: dict[str, float]
    foreign: float
    """Probability below which a request counts as unrelated to all tools."""


@cache
def load_weights() -> dict[SearchMode, RankWeights]:
    """Load the bundled weights by search mode."""
    text = Path(__file__).with_name("weights.json").read_bytes()
    return msgspec.json.decode(text, type=dict[SearchMode, RankWeights])


Doubles = NDArray[np.float64]

MOST_HITS = 100
_NAMESPACE_BEST = 3
"""Number of a namespace's best candidates whose mean measures how near it is."""
_PRESELECTED = 28
"""Number of candidates compared word by word."""


WHOLE_CANDIDATES, _PART_CANDIDATES = 24, 8
_MOST_POSTINGS = 12_000
"""Maximum number of postings read for a query, rarest words first."""

_NO_LIKENESS = -1.5
"""Below every cosine, and above the score of filtered rows."""


def find_by_words(weights: WeightedQuery, postings: Postings, where: Mask | None, k: int) -> NDArray[np.intp]:
    """The rows with the most rare words of the query; at least `k`, if there are as many."""
    if not len(weights.terms):
        return np.empty(0, np.intp)
    counts = postings.counts[weights.terms]
    order = np.argsort(counts, kind="stable")
    used = order[: np.searchsorted(np.cumsum(counts[order]), _MOST_POSTINGS, side="right") + 1]
    found = [postings.of_term(term) for term in weights.terms[used].tolist()]
    joined, values = np.concatenate([rows for rows, _ in found]), np.concatenate([inner for _, inner in found])
    if where is not None:
        values = values * where[joined]
    chosen = []
    for part, row in enumerate(weights.weights):
        scores = np.bincount(joined, values * np.repeat(row[used], counts[used]), minlength=postings.rows)
        chosen.append(_find_highest(scores, _PART_CANDIDATES if part else max(k, WHOLE_CANDIDATES)))
    return np.concatenate(chosen)


def find_by_vectors(likeness: Matrix, where: Mask | None, k: int) -> NDArray[np.intp]:
    """The rows whose vectors are nearest to the query's; at least `k`, if there are as many."""
    if where is not None:
        likeness = np.where(where, likeness, np.float32(-2))
    counts = [_PART_CANDIDATES if part else max(k, WHOLE_CANDIDATES) for part in range(len(likeness))]
    found = [_find_highest(like, count, _NO_LIKENESS) for like, count in zip(likeness, counts, strict=True)]
    return np.concatenate(found)


def _find_highest(scores: NDArray[Any], k: int, above: float = 0.0) -> NDArray[np.intp]:
    """Indexes of the `k` highest scores above a bound."""
    there = np.flatnonzero(scores > above)
    if len(there) <= k:
        return there
    # Partition only the scores above the bound: partitioning very many equal zeros is slow.
    inside = scores[there]
    return there[np.argpartition(inside, len(inside) - k)[len(inside) - k :]]


def _list_columns(signals: tuple[str, ...]) -> tuple[str, ...]:
    graded = (*signals, *(f"{name}_part" for name in signals))
    by_length = (f"{name}_{how}" for how in ("long", "large") for name in graded)
    kinds = (f"{how}_{kind}" for how in ("asked", "told") for kind in KINDS)
    return (*graded, *by_length, "lacking", "home", "kin", *kinds)


LEXICAL = _list_columns(("match", "words", "name"))
HYBRID = _list_columns(("match", "words", "name", "meaning", "soft_name", "soft_words", "least"))
"""The column names.

`_part` is the maximum over the query's segments. Signals are repeated scaled by the length of the query (`_long`) and
by the number of tools (`_large`). What the tool does counts separately for questions (`asked`) and commands (`told`).
"""


class FeatureTable(msgspec.Struct, frozen=True):
    """The features of the candidates."""

    rows: NDArray[np.intp]
    values: Floats
    """One column for each name in `LEXICAL`, or in `HYBRID`."""
    near: float
    """Similarity of the nearest tool, as standard score."""
    wish: float
    """How much the query resembles requests for tools rather than other requests."""
    content_words: int
    """Content words of the query."""
    tools: int
    """Number of tools that pass the filters."""

    @property
    def names(self) -> tuple[str, ...]:
        """The column names."""
        return HYBRID if self.values.shape[1] == len(HYBRID) else LEXICAL

    def column(self, name: str) -> Floats:
        """One feature of all candidates."""
        return self.values[:, self.names.index(name)]


def build_table(
    query: Query,
    view: IndexView,
    known: CatalogVectors | None,
    vectors: QueryVectors | None,
    where: Mask | None,
    k: int = 0,
) -> FeatureTable:
    """Select the candidates for `k` hits and compute their features; without vectors, from words alone."""
    # Only two values, so that all pages of a result have the same candidates.
    k = 0 if k <= WHOLE_CANDIDATES else MOST_HITS
    weights = weigh_words(query, view.numbers, view.postings)
    rows, near, wish = find_by_words(weights, view.postings, where, k), 0.0, 0.0
    tools = len(view.tools) if where is None else int(np.count_nonzero(where))
    plain = meaning = np.zeros((0, 0), np.float32)
    if known is not None and vectors is not None:
        plain, meaning = known.compare(vectors.segments)
        rows = np.concatenate([rows, find_by_vectors(meaning, where, k)])
        wish = known.place_request(vectors.segments[0])
    rows = np.unique(rows)
    if not len(rows):
        none = np.zeros((0, len(LEXICAL if known is None else HYBRID)), np.float32)
        return FeatureTable(rows, none, near, wish, query.content_words, tools)
    parts = word_signals(weights, view.postings, rows)
    if known is not None and vectors is not None:
        near, meaning = (float(plain[0, rows].max()) - known.usual[0]) / known.usual[1], meaning[:, rows]
        if len(rows) > max(k, _PRESELECTED):
            closer = _preselect(parts, meaning, max(k, _PRESELECTED))
            rows, meaning = rows[closer], meaning[:, closer]
            parts = [part[:, closer] for part in parts]
        found = view.postings.of_rows(rows)
        parts += [meaning, *soft_signals(query, weights.rarity, found, len(rows), known.words, vectors)]
    graded = np.array([*(part[0] for part in parts), *(part.max(axis=0) for part in parts)], np.float32)
    by_length = [graded * np.float32(np.log1p(query.content_words) / 3), graded * np.float32(np.log(tools) / 8)]
    looked_at = _compute_tool_features(query, view, rows, parts[3 if len(parts) > 3 else 0][0])
    values = np.concatenate([graded, *by_length, looked_at]).T
    return FeatureTable(rows, values, near, wish, query.content_words, tools)


def _preselect(parts: Sequence[Floats], meaning: Floats, count: int) -> NDArray[np.intp]:
    match, words, name = parts
    rough = 3 * match[0] + 5 * words[0] + 8 * meaning.max(axis=0) + name.max(axis=0)
    return np.sort(np.argpartition(rough, len(rough) - count)[len(rough) - count :])


def _compute_tool_features(query: Query, view: IndexView, rows: NDArray[np.intp], near: Floats) -> Floats:
    """Features of each tool: missing required values, whether its namespace is named or near, and its kind."""
    asked = set(query.stems)
    entries = [view.entries[row] for row in rows.tolist()]
    count = [sum(map(asked.isdisjoint, entry.required_stems)) for entry in entries]
    # Required parameters that the query neither names nor seems to have a value for, mapped to 0, 1/2, 2/3, 3/4, ...
    lacking = np.maximum(np.array(count, np.float32) - query.values, 0)
    spaces = [entry.tool.namespace for entry in entries]
    namespace_stems = {name: entry.home for name, entry in zip(spaces, entries, strict=True)}
    named = {name: len(home & asked) / max(len(home), 1) for name, home in namespace_stems.items()}
    kin: dict[str, list[float]] = {name: [] for name in namespace_stems}
    for name, value in zip(spaces, near.tolist(), strict=True):
        kin[name].append(value)
    shared = {name: sum(sorted(values)[-_NAMESPACE_BEST:]) / _NAMESPACE_BEST for name, values in kin.items()}
    kinds = (np.array(KINDS)[:, None] == np.array([entry.kind for entry in entries])).astype(np.float32)
    home, near_by = [named[name] for name in spaces], [shared[name] for name in spaces]
    found = [lacking / (1 + lacking), home, near_by, *(kinds * query.asks), *(kinds * (not query.asks))]
    return np.array(found, np.float32)


_FEWEST, _FEWEST_WORDS = 3, 10
"""Minimum catalog size assumed, in hybrid and in lexical mode (where words are shared by chance)."""
_FITTING_SHARE = 0.6
"""Share of a request's words above which a tool fits it, regardless of the models."""
_FITTING_SCORE = 1 / 3
"""Score of the best hit above which the request is about some tool."""
_MAX_GAP = 5.0
"""Gap assigned to a score without rivals, and the most that a gap counts."""
MAX_RIVALS = 12
"""Number of candidates that a hit is compared with."""
_SAME_TOOL_GAP = 0.5
"""Candidates with scores this close to the best count as the same tool, not as rivals of each other."""


def order_rows(table: FeatureTable, weights: Mapping[str, float]) -> tuple[NDArray[np.intp], Doubles]:
    """Table rows in order of score, ties by registration, and the scores in that order."""
    scores = table.values @ np.array([weights[name] for name in table.names])
    order = np.lexsort((table.rows, -scores))
    return order, scores[order]


def weigh_request(table: FeatureTable) -> dict[str, float]:
    """Features for whether the request is about any tool: the maxima over the candidates, and the catalog size."""
    hybrid = table.names is HYBRID
    most = ("soft_words", "home") if hybrid else ("match", "words", "name", "home")
    found = {name: float(table.column(name).max(initial=0)) for name in most}
    by_model = {"near": table.near, "wish": table.wish} if hybrid else {}
    return {**found, **by_model, "size": float(np.log(max(table.tools, _FEWEST if hybrid else _FEWEST_WORDS))) / 8}


def collect_evidence(
    table: FeatureTable, order: NDArray[np.intp], scores: Doubles, k: int, about: float
) -> dict[str, Doubles]:
    """Features of each of the first `k` hits: its own, and how it compares with its rivals."""
    alike = int(np.count_nonzero(scores >= scores[0] - _SAME_TOOL_GAP))
    rivals = scores[alike:]
    # Candidates that are alike count as one.
    apart = np.concatenate([scores[:1], rivals])[:MAX_RIVALS]
    count = min(k, len(order))
    half = table.names[: table.names.index("match_part")]
    own = {name: table.column(name)[order[:count]].astype(np.float64) for name in (*half, "lacking", "home")}
    score, fixed = scores[:count], np.ones(count)
    rival = np.full(count, scores[0])
    rival[:alike] = rivals[0] if len(rivals) else scores[0] - _MAX_GAP
    return own | {
        "score": score,
        "gap": np.minimum(score - rival, _MAX_GAP),
        "share": np.log(np.exp(score - scores[0]) / np.exp(apart - scores[0]).sum() + 1e-4),
        "first": (score >= scores[0]) * 1.0,
        "about": about * fixed,
        "said": np.log1p(table.content_words) * fixed,
        "size": np.log(max(table.tools, 1)) / 8 * fixed,
    }


def compute_logit(found: Mapping[str, Any], weights: Mapping[str, float]) -> Any:
    """The logit of a logistic model: weighted features plus the constant."""
    return sum(weights[name] * value for name, value in found.items()) + weights["constant"]


def to_probability(logit: Any) -> Any:
    """The probability of a logit."""
    return 1 / (1 + np.exp(-np.clip(logit, -30, 30)))


_LIKELY, _SURE = 0.5, 0.8
"""Minimum scores; the scores are probabilities, so these hold for every catalog and mode."""


def name_fit(score: float) -> Fit:
    """The fit for a score."""
    return "sure" if score >= _SURE else "likely" if score >= _LIKELY else "nearest"


class JudgedRow(NamedTuple):
    """One ranked candidate."""

    row: int
    """Its index in the snapshot."""
    score: float
    """The probability that it is what was asked for."""
    fit: Fit
    reasons: Mapping[str, float]


class Judgement(NamedTuple):
    """The result of ranking."""

    foreign: bool
    """True if the request is about none of the tools."""
    hits: Sequence[JudgedRow]
    """The nearest tools, even if `foreign`; best first."""


def judge_request(table: FeatureTable, weights: RankWeights, k: int) -> Judgement:
    """Rank the candidates; return the first `k`, and whether the request is about any of them."""
    if not len(table.rows):
        return Judgement(True, ())
    about = compute_logit(weigh_request(table), weights.about)
    order, scores = order_rows(table, weights.rank)
    chances = to_probability(compute_logit(collect_evidence(table, order, scores, k, about), weights.right))
    # Make scores monotonic in rank. Round first, so that shown scores and thresholds agree.
    chances = np.round(np.maximum.accumulate(chances[::-1])[::-1], 4)
    shown = {"words": "words_part", "name": "name_part", "meaning": "meaning_part"}
    first = order[: len(chances)]
    reasons = {
        key: np.round(table.column(name)[first].astype(np.float64), 3).tolist()
        for key, name in shown.items()
        if name in table.names
    }
    hits = [
        JudgedRow(row, chance, name_fit(chance), dict(zip(reasons, values, strict=True)))
        for row, chance, *values in zip(table.rows[first].tolist(), chances.tolist(), *reasons.values(), strict=True)
    ]
    # A good match overrides the model of typical requests: a yard may well have a tool that tells jokes.
    served = hits[0].score >= _FITTING_SCORE or table.column("words").max() >= _FITTING_SHARE
    return Judgement(bool(to_probability(about) < weights.foreign and not served), hits)
