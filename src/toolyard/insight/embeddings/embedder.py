"""What an embedder is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors. Any number of threads may share one."""

    @property
    def name(self) -> str:
        """The model, as the `model` option names it."""

    @property
    def version(self) -> str:
        """Changes whenever the same text would get another vector; part of every cache key."""

    @property
    def dimensions(self) -> int:
        """The length of a vector. A model that has to be asked for it is asked here."""

    @property
    def batch(self) -> int:
        """How many texts to give at once; what `encode` gave is kept before more is asked for."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row a text, float32, each of length one. A text's vector does not depend on its neighbours."""


def known_dimensions(embedder: Embedder) -> int | None:
    """The length of its vectors; None where a server would have to be asked for it, or a model be loaded."""
    # Part of no protocol: an embedder that has no such attribute tells its dimensions at once.
    found: int | None = embedder.known_dimensions if hasattr(embedder, "known_dimensions") else embedder.dimensions
    return found


def normalise_rows(rows: Matrix) -> Matrix:
    """The rows, each of length one; a row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
