"""From features of candidates to three answers: their order, whether anything here is meant, and how likely each is.

Each is a linear model of its own; `weights.json` holds them, by the names of their columns, as `benchmarks.search_fit`
finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.embeddings.embedder import Matrix
from toolyard.insight.search.candidates import (
    IndexView,
    Known,
    Mask,
    Postings,
    Weighed,
    pick_candidates,
    soft_signals,
    weigh_words,
    word_signals,
)
from toolyard.insight.search.query import KINDS, Query, QueryVectors
from toolyard.model.hits import Fit, SearchMode


class RankWeights(msgspec.Struct, frozen=True):
    """The numbers of one mode."""

    rank: dict[str, float]
    about: dict[str, float]
    right: dict[str, float]
    foreign: float
    """The chance of being about something here below which a request is foreign."""
    likely: float
    """The score from which on a hit is called likely."""
    sure: float

    def name_fit(self, score: float) -> Fit:
        """The word for a score."""
        return "sure" if score >= self.sure else "likely" if score >= self.likely else "nearest"


@cache
def load_weights() -> dict[SearchMode, RankWeights]:
    """Those that are shipped."""
    text = Path(__file__).with_name("weights.json").read_bytes()
    return msgspec.json.decode(text, type=dict[SearchMode, RankWeights])


Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

MOST_HITS = 100
_KIN = 3
"""Tools of a namespace by which it is near."""
_CLOSER = 28
"""Candidates that are compared word by word."""


OF_WHOLE, _OF_PART = 24, 8
_MOST_POSTINGS = 12_000
"""Places that are looked at for a query: those of its rarest words."""

_NO_LIKENESS = -1.5
"""Below every cosine, and above the mark of what is not to be found."""


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
        chosen.append(_find_highest(scores, _OF_PART if part else max(k, OF_WHOLE)))
    return np.concatenate(chosen)


def by_meaning(likeness: Matrix, where: Mask | None, k: int) -> NDArray[np.intp]:
    """The rows whose vectors are nearest to the query's; as many as `k`, if there are."""
    if where is not None:
        likeness = np.where(where, likeness, np.float32(-2))
    counts = [_OF_PART if part else max(k, OF_WHOLE) for part in range(len(likeness))]
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


def _list_columns(signals: tuple[str, ...]) -> tuple[str, ...]:
    graded = (*signals, *(f"{name}_part" for name in signals))
    by_length = (f"{name}_{how}" for how in ("long", "large") for name in graded)
    kinds = (f"{how}_{kind}" for how in ("asked", "told") for kind in KINDS)
    return (*graded, *by_length, "lacking", "home", "kin", *kinds)


LEXICAL = _list_columns(("match", "words", "name"))
HYBRID = _list_columns(("match", "words", "name", "meaning", "soft_name", "soft_words", "least"))
"""The columns; `_part` is the most that any segment of the query gives. What a signal is worth depends on how much is
said (`_long`) and on how many tools there are (`_large`), and what the tool does to things, on whether something is
`asked` or `told`."""


class Table(msgspec.Struct, frozen=True):
    """Candidates by features."""

    rows: NDArray[np.intp]
    values: Floats
    """One column for each name of `LEXICAL`, or of `HYBRID`."""
    near: float
    """How much more alike than usual the nearest is."""
    wish: float
    """How much it is like what is asked of services, and not like what is asked besides."""
    said: int
    """Words of the query that say something."""
    tools: int
    """How many there are to choose from."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return HYBRID if self.values.shape[1] == len(HYBRID) else LEXICAL

    def column(self, name: str) -> Floats:
        """One feature of all candidates."""
        return self.values[:, self.names.index(name)]


def table_of(
    query: Query,
    view: IndexView,
    known: Known | None,
    vectors: QueryVectors | None,
    where: Mask | None,
    k: int = 0,
) -> Table:
    """The features of what is worth a closer look, for `k` hits; without vectors, those of words alone."""
    # Whoever turns pages gets the same candidates on each.
    k = 0 if k <= OF_WHOLE else MOST_HITS
    weights = weigh_words(query, view.numbers, view.postings)
    rows, near, wish = by_words(weights, view.postings, where, k), 0.0, 0.0
    tools = len(view.tools) if where is None else int(np.count_nonzero(where))
    plain = meaning = np.zeros((0, 0), np.float32)
    if known is not None and vectors is not None:
        plain, meaning = known.compare(vectors.segments)
        rows, wish = np.concatenate([rows, by_meaning(meaning, where, k)]), known.liken_wish(vectors.segments[0])
    rows = np.unique(rows)
    if not len(rows):
        none = np.zeros((0, len(LEXICAL if known is None else HYBRID)), np.float32)
        return Table(rows, none, near, wish, query.said, tools)
    parts, gathered = word_signals(weights, view.postings, rows)
    if known is not None and vectors is not None:
        near, meaning = (float(plain[0, rows].max()) - known.usual[0]) / known.usual[1], meaning[:, rows]
        if len(rows) > max(k, _CLOSER):
            closer = _first_look(parts, meaning, max(k, _CLOSER))
            rows, meaning = rows[closer], meaning[:, closer]
            parts = [part[:, closer] for part in parts]
            gathered = pick_candidates(gathered, closer)
        parts += [meaning, *soft_signals(query, weights.rarity, gathered, known.words, vectors)]
    graded = np.array([*(part[0] for part in parts), *(part.max(axis=0) for part in parts)], np.float32)
    by_length = [graded * np.float32(np.log1p(query.said) / 3), graded * np.float32(np.log(tools) / 8)]
    looked_at = _look_at_tools(query, view, rows, parts[3 if len(parts) > 3 else 0][0])
    values = np.concatenate([graded, *by_length, looked_at]).T
    return Table(rows, values, near, wish, query.said, tools)


def _first_look(parts: Sequence[Floats], meaning: Floats, count: int) -> NDArray[np.intp]:
    match, words, name = parts
    rough = 3 * match[0] + 5 * words[0] + 8 * meaning.max(axis=0) + name.max(axis=0)
    return np.sort(np.argpartition(rough, len(rough) - count)[len(rough) - count :])


def _look_at_tools(query: Query, view: IndexView, rows: NDArray[np.intp], near: Floats) -> Floats:
    """What each lacks, whether its namespace is named or near, and what it does, where that is asked or told."""
    said = set(query.stems)
    entries = [view.entries[row] for row in rows.tolist()]
    count = [sum(map(said.isdisjoint, entry.lacks)) for entry in entries]
    # Required parameters that the query neither names nor seems to have a value for: 0, 1/2, 2/3, 3/4, ...
    lacking = np.maximum(np.array(count, np.float32) - query.values, 0)
    spaces = [entry.tool.namespace for entry in entries]
    homes = {name: entry.home for name, entry in zip(spaces, entries, strict=True)}
    named = {name: len(home & said) / max(len(home), 1) for name, home in homes.items()}
    kin: dict[str, list[float]] = {name: [] for name in homes}
    for name, value in zip(spaces, near.tolist(), strict=True):
        kin[name].append(value)
    shared = {name: sum(sorted(values)[-_KIN:]) / _KIN for name, values in kin.items()}
    kinds = (np.array(KINDS)[:, None] == np.array([entry.kind for entry in entries])).astype(np.float32)
    home, near_by = [named[name] for name in spaces], [shared[name] for name in spaces]
    found = [lacking / (1 + lacking), home, near_by, *(kinds * query.asks), *(kinds * (not query.asks))]
    return np.array(found, np.float32)


_FEWEST, _FEWEST_WORDS = 3, 10
"""Tools below which a catalog counts as no smaller, by meaning and by words alone, which are shared by chance."""
_ALL_OF_IT = 0.6
"""The share of a request's words with which a tool is about it, whatever a model makes of them."""
_GOOD_ENOUGH = 1 / 3
"""The chance of the best hit from which on a request is about it."""
_FAR = 5.0
"""How much better a score is, at most, that has no rival."""
RIVALS = 12
"""Candidates that a hit is compared with."""
_ALIKE = 0.5
"""Scores this near to the best are the same tool again, as far as a query can tell: no rivals of each other."""


def order_rows(table: Table, weights: Mapping[str, float]) -> tuple[NDArray[np.intp], Doubles]:
    """Places in the table, best first and of equals the first registered, and the scores in that order."""
    scores = table.values @ np.array([weights[name] for name in table.names])
    order = np.lexsort((table.rows, -scores))
    return order, scores[order]


def weigh_request(table: Table) -> dict[str, float]:
    """What tells whether the request is about anything here: the most that any tool has, in a catalog of that size."""
    hybrid = table.names is HYBRID
    most = ("soft_words", "home") if hybrid else ("match", "words", "name", "home")
    found = {name: float(table.column(name).max(initial=0)) for name in most}
    by_model = {"near": table.near, "wish": table.wish} if hybrid else {}
    return {**found, **by_model, "size": float(np.log(max(table.tools, _FEWEST if hybrid else _FEWEST_WORDS))) / 8}


def collect_evidence(
    table: Table, order: NDArray[np.intp], scores: Doubles, k: int, about: float
) -> dict[str, Doubles]:
    """What the score of each of the first `k` is made of: its features, and how it stands among its rivals."""
    alike = int(np.count_nonzero(scores >= scores[0] - _ALIKE))
    rivals = scores[alike:]
    # Those that are alike count as one.
    apart = np.concatenate([scores[:1], rivals])[:RIVALS]
    count = min(k, len(order))
    half = table.names[: table.names.index("match_part")]
    own = {name: table.column(name)[order[:count]].astype(np.float64) for name in (*half, "lacking", "home")}
    score, fixed = scores[:count], np.ones(count)
    rival = np.full(count, scores[0])
    rival[:alike] = rivals[0] if len(rivals) else scores[0] - _FAR
    return own | {
        # The words of the query and of the name must both be answered for.
        "words*name": own["words"] * own["name"],
        **({"soft_words*soft_name": own["soft_words"] * own["soft_name"]} if "soft_words" in own else {}),
        "score": score,
        "gap": np.minimum(score - rival, _FAR),
        "share": np.log(np.exp(score - scores[0]) / np.exp(apart - scores[0]).sum() + 1e-4),
        "first": (score >= scores[0]) * 1.0,
        "about": about * fixed,
        "said": np.log1p(table.said) * fixed,
        "size": np.log(max(table.tools, 1)) / 8 * fixed,
    }


def sum_up(found: Mapping[str, Any], weights: Mapping[str, float]) -> Any:
    """The logit of a logistic model: what was found by what it is worth, and the constant."""
    return sum(weights[name] * value for name, value in found.items()) + weights["constant"]


def to_chance(logit: Any) -> Any:
    """The probability of a logit."""
    return 1 / (1 + np.exp(-np.clip(logit, -30, 30)))


class JudgedRow(NamedTuple):
    """One candidate."""

    row: int
    """Its place in the snapshot."""
    score: float
    """How likely it is what was asked for."""
    fit: Fit
    reasons: Mapping[str, float]


class Judgement(NamedTuple):
    """What was made of a request."""

    foreign: bool
    """True if it is about nothing here."""
    hits: Sequence[JudgedRow]
    """The nearest all the same, best first."""


def judge_request(table: Table, weights: RankWeights, k: int) -> Judgement:
    """The first `k` of the candidates, and whether the request is about any of them."""
    if not len(table.rows):
        return Judgement(True, ())
    about = sum_up(weigh_request(table), weights.about)
    order, scores = order_rows(table, weights.rank)
    chances = to_chance(sum_up(collect_evidence(table, order, scores, k, about), weights.right))
    # A hit is at least as likely as those that it is put before. As it is shown, so it is judged.
    chances = np.round(np.maximum.accumulate(chances[::-1])[::-1], 4)
    shown = {"words": "words_part", "name": "name_part", "meaning": "meaning_part"}
    first = order[: len(chances)]
    reasons = {
        key: np.round(table.column(name)[first].astype(np.float64), 3).tolist()
        for key, name in shown.items()
        if name in table.names
    }
    hits = [
        JudgedRow(row, chance, weights.name_fit(chance), dict(zip(reasons, values, strict=True)))
        for row, chance, *values in zip(table.rows[first].tolist(), chances.tolist(), *reasons.values(), strict=True)
    ]
    # Whatever people usually ask of services: a yard may tell jokes.
    served = hits[0].score >= _GOOD_ENOUGH or table.column("words").max() >= _ALL_OF_IT
    return Judgement(bool(to_chance(about) < weights.foreign and not served), hits)
