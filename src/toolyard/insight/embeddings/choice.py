"""Which embedder a `model` option means, and how the built-in one gets installed."""

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

from toolyard.insight.embeddings.embedder import Embedder
from toolyard.insight.embeddings.model_files import (
    FILES,
    INSTALL,
    MODEL,
    MODULES,
    PACKAGE,
    UNKNOWN,
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
    from toolyard.insight.embeddings.bert import can_read

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
    from toolyard.insight.embeddings.embedder import SentenceEmbedder

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
    from toolyard.insight.embeddings.bert import can_read

    return can_read(folder)


EXTRA = "search"
_ALONE = ("tokenizers",)
"""Asks for the client of a model hub and all that this needs, none of which is imported to read a file."""
_USER = re.compile(r"//[^/\s@]+@")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_commands() -> list[list[str]]:
    """What has to be run, as arguments of Python; nothing if all is there."""
    lacking = lacking_modules()
    with_others = [_find_requirement(name) for name in lacking if name not in _ALONE]
    alone = [_find_requirement(name) for name in lacking if name in _ALONE]
    commands = [[*_PIP, *with_others]] if with_others else []
    if alone:
        commands.append([*_PIP, "--no-deps", *alone])
    if PACKAGE in missing_parts():
        # What the package asks for is torch, and not needed to read its files. If pip has it already, some are gone.
        again = ["--force-reinstall"] if packaged_version() != UNKNOWN else []
        commands.append([*_PIP, *again, "--no-deps", PACKAGE])
    return commands


def install_missing() -> list[list[str]]:
    """Run these commands and return them; `ConfigError` with what was said if one fails."""
    commands = install_commands()
    for command in commands:
        done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # noqa: S603
        if done.returncode:
            raise ConfigError(
                f"`python {' '.join(command)}` failed: {_clean_output(done.stdout)}; where pip reaches no index,"
                f" put the wheels of {', '.join((*MODULES, PACKAGE))} where it can, and run this again"
            )
    importlib.invalidate_caches()
    return commands


_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def _clean_output(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()[-3:]
    # The address of a package index may hold a password.
    return _USER.sub("//***@", " ".join(line.strip() for line in lines))


def _find_requirement(module: str) -> str:
    """The module with the versions that the extra asks for."""
    try:
        declared = importlib.metadata.requires("toolyard") or []
    except importlib.metadata.PackageNotFoundError:
        return module
    for line in declared:
        requirement, _, marker = line.partition(";")
        name = _NAME.match(requirement.strip())
        if name is not None and name[0].lower() == module and f'"{EXTRA}"' in marker.replace("'", '"'):
            return requirement.strip()
    return module
