"""`Embedder`, and its in-process implementations: ONNX files without torch, and sentence-transformers."""

from __future__ import annotations

import importlib.metadata
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.model.errors import ConfigError
from toolyard.model.tool import digest

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Matrix: TypeAlias = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors. Thread safe."""

    @property
    def name(self) -> str:
        """The model's name, as in the `model` option."""

    @property
    def version(self) -> str:
        """Changes whenever the same text would give another vector; part of every cache key."""

    @property
    def dimensions(self) -> int:
        """The length of a vector. May load the model or send a request."""

    @property
    def batch(self) -> int:
        """How many texts to encode at once; each batch is cached before the next."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return one float32 row per text, each of length one and independent of the other texts."""


def stamp_files(folder: Path) -> str:
    """A hash of the names, sizes and modification times of the files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    stats = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return digest(stats)[:16]


def normalise_rows(rows: Matrix) -> Matrix:
    """Scale each row to length one; rows of zeros are kept."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


_PIECE = 9000
"""Size of a matrix that the BLAS library multiplies in a single thread."""


def multiply_rows(some: Matrix, many: Matrix) -> Matrix:
    """Compute `some @ many.T` in this thread alone.

    For large matrices the library uses all cores and waits for each of them: faster on an idle machine, and twenty
    times slower on a server whose cores are busy.
    """
    size = many.shape[1]
    # A power of two: libraries process rows in groups of four or eight and round the remainder differently.
    step = 1 << (_PIECE // size or 1).bit_length() - 1
    pieces = len(many) // step
    whole = pieces * step
    first = many[:whole].reshape(pieces, step, size) @ some.T
    return np.concatenate([first.reshape(whole, len(some)), many[whole:] @ some.T]).T


class SentenceEmbedder:
    """Runs a sentence-transformers model, on a GPU if there is one; loads library and model with the first text."""

    batch = 256

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def version(self) -> str:
        """The version of the library and, for a folder, its files; those of a hub model are not known in advance."""
        library = f"sentence-transformers-{importlib.metadata.version('sentence-transformers')}"
        return f"{library}-{stamp_files(Path(self.name))}" if Path(self.name).is_dir() else library

    @property
    def dimensions(self) -> int:
        """The length of a vector; loads the model."""
        return int(self.encode(["tool"]).shape[1])

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text."""
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


BATCH = 128
"""Texts encoded between two accesses to the cache file."""
RUN_VERSION = 1
"""Part of the version; increase it when the same files give other vectors."""
_POOLING: dict[str, Literal["mean", "cls"]] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_USUAL_LENGTH = 256
_MOST_THREADS = 4
_FEW = 4
"""Largest number of texts that are not worth a thread pool."""
_LETTERS = 64
"""Maximum number of letters per token; text beyond that is cut off before it is tokenized."""


class OnnxFiles(msgspec.Struct, frozen=True):
    """The files of a model and how to run them."""

    model: Path
    tokenizer: Path
    """A `tokenizer.json`, or the vocabulary of an uncased BERT model."""
    pooling: Literal["mean", "cls"] = "mean"
    """How token vectors are combined, unless the model does that itself."""
    longest: int = _USUAL_LENGTH
    """Maximum number of tokens of a text; the rest is ignored."""


def find_files(folder: Path) -> OnnxFiles | None:
    """Find the model in a folder with the hub layout; None if the ONNX file alone cannot run it."""
    models = [path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()]
    tokenizer = folder / "tokenizer.json"
    chosen = [key for key, value in _read_settings(folder / "1_Pooling" / "config.json").items() if value is True]
    pooling = [_POOLING.get(key) for key in chosen if key.startswith("pooling_mode_")] or ["mean"]
    if not models or not tokenizer.is_file() or len(pooling) > 1 or pooling[0] is None:
        return None
    most = _read_settings(folder / "config.json").get("max_position_embeddings", _USUAL_LENGTH)
    length = _read_settings(folder / "sentence_bert_config.json").get("max_seq_length") or most
    return OnnxFiles(models[0], tokenizer, pooling[0], min(int(length), int(most)))


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes()) if path.is_file() else {}
    except ValueError:
        raise ConfigError(f"{path} is not JSON") from None
    return data if isinstance(data, dict) else {}


class OnnxEmbedder:
    """Runs an ONNX model, text by text without padding, so that no vector depends on the other texts.

    `threads` texts run in parallel. `remedy` tells how to restore unusable files. `release` is the version of the
    package with the files; without it, their sizes and dates identify them. Nothing is loaded before the first text.
    """

    batch = BATCH

    def __init__(
        self,
        name: str,
        files: OnnxFiles,
        *,
        release: str = "",
        latin: bool = False,
        remedy: str = "put the files of the model there again",
        threads: int | None = None,
    ) -> None:
        self.name = name
        self.latin = latin
        """True for a model trained on Latin script only."""
        self._files = files
        self._release = release
        self._remedy = remedy
        self._threads = threads or _usual_threads()
        self._lock = threading.Lock()
        self._loaded: tuple[Tokenizer, InferenceSession] | None = None

    @property
    def version(self) -> str:
        """The version of this code and of the files."""
        return f"onnx-{RUN_VERSION}-{self._release or stamp_files(self._files.tokenizer.parent)}"

    @cached_property
    def dimensions(self) -> int:
        """The length of a vector; loads the model."""
        return int(self.encode(["tool"]).shape[1])

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text; long texts are truncated to what the model accepts."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        self._load_model()
        if len(texts) <= _FEW or self._threads == 1:
            rows = [self._encode_text(text) for text in texts]
        else:
            with ThreadPoolExecutor(self._threads, "toolyard-embed") as pool:
                rows = list(pool.map(self._encode_text, texts))
        return normalise_rows(np.stack(rows))

    def _encode_text(self, text: str) -> Matrix:
        tokenizer, session = self._load_model()
        # Tokenizers reject lone surrogates.
        plain = text[: self._files.longest * _LETTERS].encode("utf-8", "replace").decode()
        ids = np.array([tokenizer.encode(plain).ids], np.int64)
        known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        found = session.run(None, {one.name: known[one.name] for one in session.get_inputs()})[0][0]
        if found.ndim == 1:
            return np.asarray(found, np.float32)
        return np.asarray(found.mean(axis=0) if self._files.pooling == "mean" else found[0], np.float32)

    def _load_model(self) -> tuple[Tokenizer, InferenceSession]:
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    try:
                        self._loaded = self._load_tokenizer(), self._open_session()
                    except Exception as error:  # the libraries raise nothing narrower
                        raise ConfigError(f"{self.name} cannot be loaded: {error}; {self._remedy}") from error
        return self._loaded

    def _load_tokenizer(self) -> Tokenizer:
        from tokenizers import BertWordPieceTokenizer, Tokenizer

        path = str(self._files.tokenizer)
        made: Any = (
            Tokenizer.from_file(path) if path.endswith(".json") else BertWordPieceTokenizer(path, lowercase=True)
        )
        made.no_padding()
        made.enable_truncation(self._files.longest)
        return made  # type: ignore[no-any-return]

    def _open_session(self) -> InferenceSession:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        # Parallelism comes from our own threads; the runtime's would outlive the call and be lost in a fork.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        session = InferenceSession(str(self._files.model), options, providers=["CPUExecutionProvider"])
        unknown = {one.name for one in session.get_inputs()} - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ConfigError(f"{self._files.model} needs unsupported inputs: {', '.join(sorted(unknown))}")
        return session


def _usual_threads() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _MOST_THREADS)
