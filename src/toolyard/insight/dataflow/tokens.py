"""Vectors of texts by their words, for where no embedding model is installed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.words import words_in

DIMENSIONS = 384
_COMMON = frozenset(
    """the a an of to for and or in on is are be this that with by from as at it its which you your will can if
    e g i optional required string value""".split()  # noqa: SIM905
)


@lru_cache(maxsize=65536)
def _place(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little") % DIMENSIONS


def token_vectors(texts: Sequence[str]) -> npt.NDArray[Any]:
    """One row a text, of length one: texts that share words are alike. Words of the name count twice."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        name, _, rest = text.partition(":")
        counts: dict[str, float] = {}
        for part, weight in ((name, 2.0), (rest, 1.0)):
            for word in words_in(part[:200]):
                if word not in _COMMON:
                    counts[word] = counts.get(word, 0.0) + weight
        for word, count in counts.items():
            rows[row, _place(word)] += math.sqrt(count)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
