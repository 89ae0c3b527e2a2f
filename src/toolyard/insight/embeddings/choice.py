"""Which embedder a `model` option means."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolyard.insight.embeddings.embedder import Embedder
from toolyard.insight.embeddings.weights import (
    FILES,
    INSTALL,
    MODEL,
    PACKAGE,
    lacking_modules,
    packaged_folder,
    packaged_version,
)
from toolyard.model.errors import ConfigError

Model = str | Mapping[str, Any] | Embedder | None
"""What the option `model` takes."""

_OWN_NAMES = frozenset({MODEL.lower(), f"sentence-transformers/{MODEL}".lower()})


def default_embedder() -> Embedder | None:
    """The model that runs in this process without torch; None if its weights or the extra are not installed.

    It is one object for the whole process. Nothing is loaded before its first text.
    """
    return None if missing_parts() else _find_packaged()


def missing_parts() -> list[str]:
    """The packages that the default model lacks."""
    from toolyard.insight.embeddings.onnx_graph import can_read

    folder = packaged_folder()
    weights = [] if folder is not None and can_read(folder) else [PACKAGE]
    return [*lacking_modules(), *weights]


def embedder_of(model: Model = None) -> Embedder:
    """The embedder that the option means; `ConfigError` says what to install, or which key is wrong."""
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
    if _is_bert(Path(name)):
        from toolyard.insight.embeddings.bert import BertEmbedder

        return BertEmbedder(Path(name), name=name)
    if importlib.util.find_spec("sentence_transformers") is None:
        own = f"`{INSTALL}` has it without torch" if name.lower() in _OWN_NAMES else f"leave model out for {MODEL}"
        raise ConfigError(
            f"the embedding model {name!r} needs a package that is not installed: pip install sentence-transformers;"
            f" or {own}"
        )
    from toolyard.insight.embeddings.sentence import SentenceEmbedder

    return SentenceEmbedder(name)


@functools.cache
def _find_packaged() -> Embedder:
    from toolyard.insight.embeddings.bert import BertEmbedder

    folder = packaged_folder()
    assert folder is not None
    return BertEmbedder(folder, name=MODEL, release=packaged_version(), latin=True)


def _is_bert(folder: Path) -> bool:
    if lacking_modules() or not all((folder / name).is_file() for name in FILES):
        return False
    from toolyard.insight.embeddings.onnx_graph import can_read

    return can_read(folder)
