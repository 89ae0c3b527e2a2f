"""`SentenceEmbedder`: a model of the sentence-transformers library, if that is installed."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from toolyard.insight.embeddings.embedder import Matrix, normalise_rows
from toolyard.model.errors import ConfigError


class SentenceEmbedder:
    """Loads the model with its first text, on a graphics card if there is one. Its library is loaded then, too."""

    batch = 256

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def version(self) -> str:
        """That of the library: the files of a model are not known before they are loaded."""
        return f"sentence-transformers-{importlib.metadata.version('sentence-transformers')}"

    @property
    def known_dimensions(self) -> int | None:
        """The same, if the model is loaded."""
        return None if self._model is None else self.dimensions

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self._load_model().get_sentence_embedding_dimension())

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
