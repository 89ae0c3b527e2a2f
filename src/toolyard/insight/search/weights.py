"""The fitted numbers of the search. `python -m benchmarks.eval_search --fit` prints this file's tables anew.

`rank` orders candidates: one number for each column of `table.LEXICAL` or `table.HYBRID`, found by a softmax over the
candidates of each query (the right ones against the others). `offer` turns the evidence of `judge.evidence` into the
probability that a hit is what was asked for: a logistic regression over the first five hits of every query, over those
of the same query with its right tools taken away, and over both again in a small part of the catalog. Both on the
labelled queries of the retrieval corpus, with a little shrinkage; figures for queries and catalogs that the fit has not
seen are in the output of `make eval-search`.
"""

from __future__ import annotations

import math

import msgspec


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
