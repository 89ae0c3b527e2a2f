"""What an embedder is, and the one that asks the sentence-transformers library."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolyard.model.errors import ConfigError
from toolyard.model.tool import digest

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


def stamp_files(folder: Path) -> str:
    """Changes with the files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    stats = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return digest(stats)[:16]


def normalise_rows(rows: Matrix) -> Matrix:
    """The rows, each of length one; a row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


class SentenceEmbedder:
    """Loads the model with its first text, on a graphics card if there is one. Its library is loaded then, too."""

    batch = 256

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def version(self) -> str:
        """That of the library, and of the files of a folder; those of a name are not known before they are loaded."""
        library = f"sentence-transformers-{importlib.metadata.version('sentence-transformers')}"
        return f"{library}-{stamp_files(Path(self.name))}" if Path(self.name).is_dir() else library

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self.encode(["tool"]).shape[1])

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row a text."""
        plain = [text.encode("utf-8", "replace").decode() for text in texts]
        model = self._load_model()
        with self._lock:
            rows = model.encode(plain, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        return normalise_rows(np.asarray(rows, np.float32).reshape(len(texts), -1))

    def _load_model(self) -> Any:
        with self._lock:
            if self._model is None:
                from sentence_transformers import SentenceTransformer

                try:
                    self._model = SentenceTransformer(self.name)
                except (OSError, ValueError) as error:
                    raise ConfigError(
                        f"the embedding model {self.name!r} cannot be loaded: {error}; name a folder or a model that"
                        " the library can fetch"
                    ) from error
            return self._model
