"""How alike two tools are."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from toolyard.insight.search.query import is_stop, stems
from toolyard.model.tool import Tool

Floats = npt.NDArray[np.float32]

LEVELS = 4000
"""Vectors are held as whole numbers of this length. Sums of their products stay below 2**24, where float32 is exact:
so the likeness of two tools is the same number on every machine and in every order of addition."""

_WORD_DIMENSIONS = 512
_NAME_WEIGHT = 3
_UNKNOWN = 0.5
"""What a word of a query that no tool has counts, of what it would if one tool had it."""
_SAME = 0.97


class ToolLikeness:
    """Cosines between tools, from 0 (nothing in common) to 1."""

    def __init__(self, vectors: npt.NDArray[Any], kind: str) -> None:
        self.kind = kind
        """What it goes by: "embeddings" or "words"."""
        self._matrix = whole_numbers(vectors)
        self._lengths = lengths_of(self._matrix)

    @property
    def vectors(self) -> Floats:
        """One row a tool, of whole numbers."""
        return self._matrix

    def to(self, place: int) -> Floats:
        """Of every tool to the one at `place`."""
        return compute_cosines(self._matrix, self._lengths, place)

    def to_any(self, places: Sequence[int]) -> Floats:
        """Of every tool to the one of these that is most like it."""
        best = self.to(places[0])
        for place in places[1:]:
            np.maximum(best, self.to(place), out=best)
        return best

    def same(self) -> float:
        """From here on two tools are one to a reader."""
        return _SAME


def from_embeddings(artifact: Any, tools: Sequence[Tool]) -> ToolLikeness:
    """By the vectors of the artifact "embeddings", or of a mapping of the documented form."""
    return ToolLikeness(matrix_of(artifact, tools), "embeddings")


def lengths_of(rows: Floats) -> Floats:
    """The lengths of rows of whole numbers; of a row of zeros 1, so that one can divide by it."""
    lengths: Floats = np.sqrt((rows * rows).sum(axis=1))
    return np.maximum(lengths, np.float32(1))


def compute_cosines(rows: Floats, lengths: Floats, place: int) -> Floats:
    """Of every row to one of them; what is below 0 is 0."""
    found: Floats = np.maximum(rows @ rows[place] / (lengths * lengths[place]), np.float32(0))
    return found


def find_highest(row: npt.NDArray[Any], some: int) -> npt.NDArray[np.intp]:
    """Where the highest values are, in no order; of equal ones the first."""
    if some >= len(row):
        return np.arange(len(row))
    edge = np.partition(row, len(row) - some)[len(row) - some]
    above = np.flatnonzero(row > edge)
    return np.concatenate([above, np.flatnonzero(row == edge)[: some - len(above)]])


def matrix_of(artifact: Any, tools: Sequence[Tool]) -> Floats:
    """The vectors of the artifact "embeddings", one row a tool."""
    matrix = getattr(artifact, "matrix", None)
    if matrix is None or len(matrix) != len(tools):
        matrix = [artifact[tool.qualified_name][tool.fingerprint] for tool in tools]
    return np.asarray(matrix, np.float32).reshape(len(tools), -1 if len(tools) else 1)


def from_words(tools: Sequence[Tool]) -> ToolLikeness:
    """By the words of names, descriptions and parameters, rare words first."""
    names = [Counter(_list_words(tool.name)) for tool in tools]
    texts = [Counter(_list_words(_tool_text(tool))) for tool in tools]
    seen = Counter(word for name, text in zip(names, texts, strict=True) for word in {**name, **text})
    idf = {word: math.log(1 + len(tools) / count) for word, count in seen.items()}
    rows = [_weigh_words(text, name, idf) for name, text in zip(names, texts, strict=True)]
    return ToolLikeness(_hash_words(rows), "words")


class WordLikeness:
    """Which words are in which tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._count = len(tools)
        self._places: dict[str, list[int]] = {}
        self._named: dict[str, list[int]] = {}
        for place, tool in enumerate(tools):
            named = _list_words(tool.name)
            for word in dict.fromkeys((*named, *_list_words(_tool_text(tool)))):
                self._places.setdefault(word, []).append(place)
            for word in dict.fromkeys(named):
                self._named.setdefault(word, []).append(place)

    def share(self, text: str) -> Floats:
        """How much of a text each tool has the words of, from 0 to 1.

        Rare words count more. A word that no tool has is part of the text as well, if only by half: it may be a value,
        as Paris is. A word that every tool has tells nothing ("information"), unless it is in the name of the tool.
        """
        shares = np.zeros(self._count, np.float64)
        total = 0.0
        for word in dict.fromkeys(_list_words(text)):
            places = self._places.get(word)
            if not places:
                total += _UNKNOWN * math.log(1 + self._count)
                continue
            weight = math.log(1 + self._count / len(places))
            told = math.log((self._count + 1) / (len(places) + 0.5))
            shares[places] += told
            shares[self._named.get(word, [])] += weight - told
            total += weight
        return (shares / (total or 1.0)).astype(np.float32)


def whole_numbers(vectors: npt.NDArray[Any]) -> Floats:
    """The rows at one length, in whole numbers."""
    rows = np.asarray(vectors, np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.rint(rows / np.where(lengths > 0, lengths, 1.0) * LEVELS).astype(np.float32)


def _tool_text(tool: Tool) -> str:
    properties = tool.parameters.get("properties")
    names = " ".join(map(str, properties)) if isinstance(properties, Mapping) else ""
    return f"{tool.description} {names}"


def _list_words(text: str) -> list[str]:
    """The words that say something, as search reads them."""
    return [word for word in stems(text) if not is_stop(word)]


def _weigh_words(text: Sequence[str] | Counter[str], name: Counter[str], idf: Mapping[str, float]) -> dict[str, float]:
    counts = Counter(text)
    for word, count in name.items():
        counts[word] += _NAME_WEIGHT * count
    return {word: (1 + math.log(count)) * idf.get(word, 1.0) for word, count in counts.items()}


def _hash_words(rows: Sequence[Mapping[str, float]]) -> npt.NDArray[np.float64]:
    matrix = np.zeros((len(rows), _WORD_DIMENSIONS))
    for row, weights in zip(matrix, rows, strict=True):
        for word, weight in weights.items():
            code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
            row[code % _WORD_DIMENSIONS] += weight if code & 1024 else -weight
    return matrix
