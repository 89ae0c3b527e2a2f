"""`OnnxEmbedder`: a model in an ONNX file, on onnxruntime and without torch."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from toolyard.insight.embeddings.embedder import Matrix, normalise_rows, stamp_files
from toolyard.model.errors import ConfigError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

BATCH = 128
"""Texts between two looks at the cache's file."""
RUN_VERSION = 1
"""Changes when the same files give other vectors."""
_POOLING: dict[str, Literal["mean", "cls"]] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_USUAL_LENGTH = 256
_MOST_THREADS = 4
_FEW = 4
"""Texts that are not worth a second thread."""
_LETTERS = 64
"""Of a token, at most; what lies further on is beyond the tokens that are read, and not worth cutting into any."""


class OnnxFiles(msgspec.Struct, frozen=True):
    """What a model consists of."""

    model: Path
    tokenizer: Path
    """A `tokenizer.json`, or the list of words of a BERT that knows no capitals."""
    pooling: Literal["mean", "cls"] = "mean"
    """What becomes of the vectors of tokens, unless the model makes one of them itself."""
    longest: int = _USUAL_LENGTH
    """Tokens of a text; what follows is not read."""


def find_files(folder: Path) -> OnnxFiles | None:
    """The model in a folder that is laid out as hubs do; None if it cannot be run by its ONNX file alone."""
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
    """Texts run one by one, each as long as it is, so that no vector depends on its neighbours; `threads` run at once.

    `remedy` is what to do about files that cannot be used, and `release` the version of the package that they are from;
    without one they are told apart by their size and date. Nothing is loaded before the first text.
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
        """True for a model that has learned no text but in Latin letters."""
        self._files = files
        self._release = release
        self._remedy = remedy
        self._threads = threads or _usual_threads()
        self._lock = threading.Lock()
        self._loaded: tuple[Tokenizer, InferenceSession] | None = None

    @property
    def version(self) -> str:
        """The version of how it is run, and of the files."""
        return f"onnx-{RUN_VERSION}-{self._release or stamp_files(self._files.tokenizer.parent)}"

    @cached_property
    def dimensions(self) -> int:
        """The length of a vector; the model is loaded for it."""
        return int(self.encode(["tool"]).shape[1])

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row a text; of a long text, as much of its beginning as the model takes in."""
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
        # Half a surrogate pair is no text for a tokenizer.
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
        # Threads of our own give more at once, and none of the runtime's outlives a call or is lost in a fork.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        session = InferenceSession(str(self._files.model), options, providers=["CPUExecutionProvider"])
        unknown = {one.name for one in session.get_inputs()} - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ConfigError(f"{self._files.model} asks for {', '.join(sorted(unknown))}, which nothing here has")
        return session


def _usual_threads() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _MOST_THREADS)
