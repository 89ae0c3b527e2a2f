"""From features of candidates to an order and a probability, by fitted weights."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.search.candidates import (
    IndexView,
    Known,
    Mask,
    Signals,
    Weighed,
    by_meaning,
    by_words,
    pick_candidates,
    soft_signals,
    weigh_words,
    word_signals,
)
from toolyard.insight.search.query import Query, QueryVectors


class RankWeights(msgspec.Struct, frozen=True):
    """The numbers of one mode."""

    rank: tuple[float, ...]
    offer: tuple[float, ...]
    """One for each column of the evidence, and the constant."""
    threshold: float
    """For those who would rather have nothing than something wrong: if the best hit must reach it, one query in ten
    that nothing fits is still offered something."""
    others: float
    """The probability that the other hits must reach then."""
    fit: float = float("inf")
    """The score from which on a tool fits, however many others do as well and make each of them the less likely."""


FEW, MANY = (200, 0.1), (2_000, 0.03)
"""Tools of a catalog, and the probability under which nothing is offered unless another one is asked for.

It is where two or three right answers in a hundred are lost. The more tools there are, the more of them are nearly
right, and the less sure is the best of them."""
FEW_WORDS, SHORT = 3, 0.3
"""So few words of a task are found by chance in some tool of many: the probability that is asked for among those."""


def floor_of(tools: int, words: int, *, wordless: bool = False) -> float:
    """The probability that a hit must reach in a catalog of that size, for a query of so many words that say something.

    If no tool has a word of the query (`wordless`), it may be in another language, or no word at all: among thousands
    of tools something is always a little like it, so as much is asked as among few.
    """
    most = SHORT if words <= FEW_WORDS else FEW[1] if wordless else MANY[1]
    part = math.log(max(tools, 1) / FEW[0]) / math.log(MANY[0] / FEW[0])
    return FEW[1] + (most - FEW[1]) * min(max(part, 0.0), 1.0)


HYBRID_WEIGHTS = RankWeights(
    rank=(
        -6.783,
        7.399,
        0.2643,
        0.6931,
        0.4805,
        6.736,
        0.1501,
        -1.243,
        2.459,
        0.2643,
        6.511,
        0.4805,
        -0.7225,
        0.1501,
        -4.96,
    ),
    offer=(
        0.5906,
        2.088,
        -0.8068,
        -1.585,
        0.5211,
        -4.612,
        0.1859,
        0.3934,
        -2.182,
        -0.8068,
        6.712,
        0.5211,
        2.017,
        0.1859,
        -0.3715,
        0.1007,
        0.009591,
        0.2255,
        -0.1964,
        0.3094,
        0.766,
        -0.5604,
        1.477,
        3.88,
        -0.1295,
        -4.159,
        7.348,
        -1.193,
        0.3159,
        -3.475,
        -4.837,
        0.2903,
        -6.407,
    ),
    threshold=0.598,
    others=0.1,
    fit=7.5,
)
LEXICAL_WEIGHTS = RankWeights(
    rank=(
        11.74,
        5.498,
        1.124,
        2.464,
        1.218,
        1.124,
        -4.852,
    ),
    offer=(
        -2.109,
        2.468,
        0.4563,
        -2.324,
        0.9447,
        0.4563,
        -1.024,
        0.01605,
        -0.05328,
        0.3669,
        -0.1286,
        0.9563,
        0.7987,
        0.5223,
        0.9547,
        6.734,
        -0.1786,
        -6.55,
        5.194,
        -1.447,
        -7.968,
    ),
    threshold=0.567,
    others=0.1,
    fit=10.0,
)


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
    """One column for each name of `LEXICAL`, or of `HYBRID`."""
    segments: int
    total: float
    """How much the words of the query weigh."""

    def column(self, name: str) -> Floats:
        """One feature of all candidates."""
        names = HYBRID if self.values.shape[1] == len(HYBRID) else LEXICAL
        return self.values[:, names.index(name)]


def table_of(
    query: Query,
    view: IndexView,
    known: Known | None,
    vectors: QueryVectors | None,
    where: Mask | None,
    k: int = 0,
) -> Table:
    """The features of what is worth a closer look, for `k` hits; without vectors, those of words alone."""
    weights = weigh_words(query, view.numbers, view.postings)
    rows = by_words(weights, view.postings, where, k)
    if known is not None and vectors is not None:
        rows = np.concatenate([rows, by_meaning(known, vectors.segments, where, k)])
    rows = np.unique(rows)
    if not len(rows):
        width = len(LEXICAL) if known is None else len(HYBRID)
        return Table(rows, np.zeros((0, width), np.float32), len(query.segments), 0.0)
    signals, gathered = word_signals(weights, view.postings, rows)
    parts = [signals.match, signals.words, signals.name]
    if known is None or vectors is None:
        return _build_table(query, view, rows, parts, weights)
    meaning = vectors.segments @ known.tools[rows].T
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
    count = [sum(said.isdisjoint(words) for words in view.lacks[row]) for row in rows]
    lacking = np.maximum(np.array(count, np.float32) - query.values, 0)
    return np.asarray(lacking / (1 + lacking), np.float32)


Doubles = NDArray[np.float64]

RIVALS = 12
"""Candidates that a hit is compared with."""
_ALIKE = 0.5
"""Scores this near to the best are the same tool again, as far as a query can tell: no rivals of each other."""
_MANY = 10
"""Candidates from which on the last of them shows how tools score that do not fit."""


def order_rows(table: Table, weights: RankWeights) -> tuple[NDArray[np.intp], Doubles]:
    """Places in the table, best first and of equals the first registered, and the scores in that order."""
    scores = table.values @ np.asarray(weights.rank)
    order = np.lexsort((table.rows, -scores))
    return order, scores[order]


def collect_evidence(table: Table, order: NDArray[np.intp], scores: Doubles, k: int) -> Doubles:
    """What the probability of each of the first `k` is made of: its features, and how it stands among its rivals."""
    alike = int(np.count_nonzero(scores >= scores[0] - _ALIKE))
    rivals = scores[alike:]
    # Those that are alike count as one.
    scores_apart = np.concatenate([scores[:1], rivals])
    count = min(k, len(order))
    own = table.values[order[:count]].astype(np.float64)
    score = scores[:count]
    rival = np.full(count, scores[0])
    rival[:alike] = rivals[0] if len(rivals) else scores[0] - 5
    chance = np.log(np.exp(score - scores[0]) / np.exp(scores_apart[:RIVALS] - scores[0]).sum() + 1e-4)
    half = (own.shape[1] - 1) // 2
    whole, part = own[:, :half], own[:, half : 2 * half]
    # Products: the words of the query and of the name must both be answered for.
    both = [whole[:, 1] * part[:, 2], part[:, 1] * part[:, 2], np.minimum(part[:, 1], part[:, 2])]
    if half > 3:
        both += [part[:, 3] * part[:, 4], part[:, 4] * part[:, 5], part[:, 3] ** 2, np.minimum(part[:, 4], part[:, 5])]
    fixed = np.ones(count)
    # Where there are not ten, the last says nothing, and what speaks for the hit itself must do.
    few = 0.0 if len(scores_apart) >= _MANY else 1.0
    drop = fixed * 0 if few else score - scores_apart[_MANY - 1]
    rest = [
        score,
        score - rival,
        chance,
        fixed * np.log(table.segments),
        fixed * np.log1p(table.total),
        drop,
        fixed * few,
        few * score,
        few * part[:, 1] * part[:, 2],
        (np.arange(count) == 0) * 1.0,
    ]
    # As `column_stack` would have it, which takes thrice as long.
    return np.concatenate([own, np.array([*rest, *both]).T], axis=1)


def compute_probabilities(found: Doubles, weights: RankWeights) -> Doubles:
    """How likely each is what was asked for."""
    offer = np.asarray(weights.offer)
    logits = found @ offer[:-1] + offer[-1]
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))))
