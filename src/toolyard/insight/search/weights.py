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


class Weights(msgspec.Struct, frozen=True):
    """The numbers of one mode."""

    rank: tuple[float, ...]
    offer: tuple[float, ...]
    """One for each column of the evidence, and the constant."""
    threshold: float
    """For those who would rather have nothing than something wrong: if the best hit must reach it, one query in ten
    that nothing fits is still offered something."""
    others: float
    """The probability that the other hits must reach then."""


FEW, MANY = (200, 0.1), (2_000, 0.03)
"""Tools of a catalog, and the probability under which nothing is offered unless another one is asked for.

It is where two or three right answers in a hundred are lost. The more tools there are, the more of them are nearly
right, and the less sure is the best of them."""


def floor_of(tools: int, *, wordless: bool = False) -> float:
    """The probability that a hit must reach in a catalog of that size.

    If no tool has a word of the query (`wordless`), it may be in another language, or no word at all: among thousands
    of tools something is always a little like it, so as much is asked as among few.
    """
    if wordless:
        return FEW[1]
    part = math.log(max(tools, 1) / FEW[0]) / math.log(MANY[0] / FEW[0])
    return FEW[1] + (MANY[1] - FEW[1]) * min(max(part, 0.0), 1.0)


HYBRID_WEIGHTS = Weights(
    rank=(
        -6.782,
        7.398,
        0.2641,
        0.6934,
        0.4806,
        6.736,
        0.1501,
        -1.241,
        2.459,
        0.2641,
        6.51,
        0.4806,
        -0.723,
        0.1501,
        -4.96,
    ),
    offer=(
        0.5086,
        1.989,
        -0.789,
        -1.598,
        0.5184,
        -4.502,
        0.1909,
        0.3517,
        -2.113,
        -0.789,
        6.537,
        0.5184,
        1.978,
        0.1909,
        -0.3486,
        0.0979,
        0.02548,
        0.2707,
        -0.1838,
        0.2857,
        0.7537,
        -0.567,
        1.438,
        4.209,
        -0.2804,
        -4.134,
        7.319,
        -1.193,
        0.1981,
        -3.408,
        -4.55,
        0.2904,
        -5.993,
    ),
    threshold=0.600,
    others=0.1,
)
LEXICAL_WEIGHTS = Weights(
    rank=(
        11.74,
        5.497,
        1.124,
        2.464,
        1.218,
        1.124,
        -4.852,
    ),
    offer=(
        -2,
        2.345,
        0.4548,
        -2.39,
        0.9433,
        0.4548,
        -1.027,
        0.01525,
        -0.01283,
        0.4015,
        -0.1124,
        0.9037,
        0.7916,
        0.6771,
        0.8958,
        6.736,
        -0.3943,
        -6.836,
        5.353,
        -1.478,
        -7.437,
    ),
    threshold=0.573,
    others=0.1,
)
