"""Which tools have which words: the terms of each tool, and the tools of each term.

Lengths of fields are compared with fixed usual lengths, so what a tool has of a term depends on no other tool.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.search.query import fields, stems, words
from toolyard.model.tool import Tool

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Zones = NDArray[np.int8]

IN_TEXT, IN_NAME = 1, 2

_K1, _B = 1.2, 0.45
_USUAL = ((3.0, 3.0), (2.0, 12.0), (1.0, 5.0), (0.5, 35.0), (0.5, 1.5))
"""Weight and usual length of names, descriptions, parameter names, their descriptions, their values."""
_MOST_TERMS = 400
"""Different terms of one tool that are kept: the weightiest."""


class Row(msgspec.Struct, frozen=True):
    """The terms of one tool."""

    terms: Ints
    weights: Floats
    """BM25F without the rarity: between 0 and 1."""
    zones: Zones
    """Where the term is: `IN_NAME`, else `IN_TEXT` (the description), else 0."""


class Postings(msgspec.Struct, frozen=True):
    """The rows of a set of tools, forwards and backwards."""

    offsets: NDArray[np.int64]
    terms: Ints
    weights: Floats
    zones: Zones
    term_offsets: NDArray[np.int64]
    term_rows: Ints
    term_weights: Floats
    counts: NDArray[np.int64]
    """In how many rows each term is."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.offsets) - 1

    def count(self, term: int) -> int:
        """In how many rows the term is."""
        return int(self.counts[term]) if term < len(self.counts) else 0

    def of_term(self, term: int) -> tuple[Ints, Floats]:
        """The rows that have the term, and how much it weighs there."""
        start, end = self.term_offsets[term], self.term_offsets[term + 1]
        return self.term_rows[start:end], self.term_weights[start:end]

    def of_rows(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], Ints, Floats, Zones]:
        """The terms of some rows, one behind the other: offsets, terms, weights, zones."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return offsets, self.terms[places], self.weights[places], self.zones[places]


class Vocabulary:
    """The number of each term; numbers are never given twice. Grows under its owner's lock."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.surfaces: dict[int, str] = {}
        """A word, as it is written in some name or description, for the terms that occur there."""

    def row(self, tool: Tool) -> Row:
        """The terms of a tool, new ones numbered."""
        numbers = self.numbers
        weights: dict[int, float] = {}
        parts = fields(tool)
        for (weight, usual), found in zip(_USUAL, parts, strict=True):
            share = weight / (1 - _B + _B * len(found) / usual)
            for term in found:
                number = numbers.setdefault(term, len(numbers))
                weights[number] = weights.get(number, 0.0) + share
        weight, usual = _USUAL[1]
        home = stems(tool.namespace)
        for term in home:
            # As if the description had it; but it makes no description longer, and all tools of a namespace have it.
            share = weight / (1 - _B + _B * len(parts[1]) / usual)
            weights.setdefault(numbers.setdefault(term, len(numbers)), share)
        for text in (tool.name, *tool.aliases, tool.description):
            for stemmed, word in zip(stems(text), words(text), strict=True):
                self.surfaces.setdefault(numbers[stemmed], word)
        if len(weights) > _MOST_TERMS:
            weights = dict(sorted(weights.items(), key=lambda item: -item[1])[:_MOST_TERMS])
        zones = {**dict.fromkeys((*home, *parts[1]), IN_TEXT), **dict.fromkeys(parts[0], IN_NAME)}
        zone_of = {numbers[term]: zone for term, zone in zones.items()}
        terms = sorted(weights)
        raw = np.array([weights[term] for term in terms], np.float32)
        found_in = np.array([zone_of.get(term, 0) for term in terms], np.int8)
        return Row(np.array(terms, np.int32), raw / (_K1 + raw), found_in)


def build_postings(rows: Sequence[Row]) -> Postings:
    """The postings of tools, in their order."""
    offsets = np.concatenate([[0], np.cumsum([len(row.terms) for row in rows])]).astype(np.int64)
    terms = np.concatenate([np.zeros(0, np.int32), *(row.terms for row in rows)])
    weights = np.concatenate([np.zeros(0, np.float32), *(row.weights for row in rows)])
    zones = np.concatenate([np.zeros(0, np.int8), *(row.zones for row in rows)])
    order = np.argsort(terms, kind="stable")
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(offsets))
    counts = np.bincount(terms)
    term_offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Postings(offsets, terms, weights, zones, term_offsets, owners[order], weights[order], counts)
