"""Which tools have which words, in arrays that only grow.

A block is made once and never changed: the terms of each of its rows, and the rows of each term. Adding tools makes a
small block; blocks of like size are joined, so a thousand additions are a dozen blocks and not a thousand. Lengths of
fields are compared with fixed usual lengths, so an index that grew is the same as one that was made at once.
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


class Block(msgspec.Struct, frozen=True):
    """Some rows, forwards and backwards."""

    start: int
    """The number of the first row."""
    offsets: NDArray[np.int64]
    terms: Ints
    weights: Floats
    zones: Zones
    term_offsets: NDArray[np.int64]
    term_rows: Ints
    term_weights: Floats

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.offsets) - 1

    def of_term(self, term: int) -> tuple[Ints, Floats]:
        """The rows that have the term, and how much it weighs there."""
        if term + 1 >= len(self.term_offsets):
            return self.term_rows[:0], self.term_weights[:0]
        start, end = self.term_offsets[term], self.term_offsets[term + 1]
        return self.term_rows[start:end], self.term_weights[start:end]


class Postings(msgspec.Struct, frozen=True):
    """All blocks at one moment, and in how many rows each term is."""

    blocks: tuple[Block, ...] = ()
    counts: NDArray[np.int64] = np.zeros(0, np.int64)
    rows: int = 0

    def added(self, rows: Sequence[Row]) -> Postings:
        """With more rows behind the last."""
        blocks = [*self.blocks, _build_block(rows, self.rows)]
        while len(blocks) > 1 and blocks[-2].rows <= 2 * blocks[-1].rows:
            last = blocks.pop()
            blocks[-1] = _join_blocks(blocks[-1], last)
        width = max(len(self.counts), *(len(block.term_offsets) - 1 for block in blocks))
        counts = np.zeros(width, np.int64)
        for block in blocks:
            counts[: len(block.term_offsets) - 1] += np.diff(block.term_offsets)
        return Postings(tuple(blocks), counts, self.rows + len(rows))

    def count(self, term: int) -> int:
        """In how many rows the term is."""
        return int(self.counts[term]) if term < len(self.counts) else 0

    def of_rows(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], Ints, Floats, Zones]:
        """The terms of some rows, one behind the other: offsets, terms, weights, zones."""
        parts = [_pick_rows(block, rows) for block in self.blocks]
        if len(parts) == 1:
            return parts[0]
        lengths = np.sum([np.diff(offsets) for offsets, *_ in parts], axis=0)
        # A row is in one block only: order the pieces by row, block after block.
        owner = np.concatenate([np.repeat(np.arange(len(rows)), np.diff(offsets)) for offsets, *_ in parts])
        order = np.argsort(owner, kind="stable")
        whole = [np.concatenate([part[field] for part in parts])[order] for field in (1, 2, 3)]
        return np.concatenate([[0], np.cumsum(lengths)]), whole[0], whole[1], whole[2]


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


def _build_block(rows: Sequence[Row], start: int) -> Block:
    offsets = np.concatenate([[0], np.cumsum([len(row.terms) for row in rows])]).astype(np.int64)
    terms = np.concatenate([row.terms for row in rows]) if rows else np.zeros(0, np.int32)
    weights = np.concatenate([row.weights for row in rows]) if rows else np.zeros(0, np.float32)
    zones = np.concatenate([row.zones for row in rows]) if rows else np.zeros(0, np.int8)
    return _invert_block(start, offsets, terms, weights, zones)


def _invert_block(start: int, offsets: NDArray[np.int64], terms: Ints, weights: Floats, zones: Zones) -> Block:
    order = np.argsort(terms, kind="stable")
    owners = np.repeat(np.arange(start, start + len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    width = int(terms.max()) + 1 if len(terms) else 0
    counted = np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=width))]).astype(np.int64)
    return Block(start, offsets, terms, weights, zones, counted, owners[order], weights[order])


def _join_blocks(first: Block, second: Block) -> Block:
    offsets = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
    return _invert_block(
        first.start,
        offsets,
        np.concatenate([first.terms, second.terms]),
        np.concatenate([first.weights, second.weights]),
        np.concatenate([first.zones, second.zones]),
    )


def _pick_rows(block: Block, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], Ints, Floats, Zones]:
    """The terms of those of the rows that are in the block; the others have none here."""
    inside = (rows >= block.start) & (rows < block.start + block.rows)
    local = np.where(inside, rows - block.start, 0)
    starts = block.offsets[local]
    lengths = np.where(inside, block.offsets[local + 1] - starts, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return offsets, block.terms[places], block.weights[places], block.zones[places]
