"""The manifest of a script directory: which files may be loaded, and, if it says so, with which bytes.

    {"allow": ["foo.py", "bar.py"]}            by name
    {"allow": {"foo.py": "sha256:9f86..."}}    by name and content

It is the gate: without it, or when it cannot be understood, nothing is loaded.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import msgspec

from toolyard.model.errors import MalformedSource, ManifestError, SourceError
from toolyard.model.json_words import json_type
from toolyard.model.names import show
from toolyard.parsing import parse_json
from toolyard.sources.script_files import ScriptDirectory

MANIFEST = "_manifest.json"
ALLOW = "allow"
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_MAX_NAME_BYTES = 255
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_TAKEN = sys.stdlib_module_names | {"tools", "toolyard", "sitecustomize", "usercustomize"}

_log = logging.getLogger(__name__)


class NoManifestError(ManifestError, FileNotFoundError):
    """There is no manifest in the directory."""


class Manifest(msgspec.Struct, frozen=True):
    """What a manifest says, in its order."""

    allow: dict[str, str | None] = {}
    """File names and their hashes; None where none is known."""
    hashed: bool = False
    """Every file needs a hash; one without is not loaded."""
    document: dict[str, Any] = {}
    """The whole document; keys that mean nothing here are somebody's, and are kept."""

    def to_json(self) -> bytes:
        """The document with the allow-list as it is now."""
        allow: Any = dict(self.allow) if self.hashed else list(self.allow)
        return msgspec.json.format(msgspec.json.encode({**self.document, ALLOW: allow}), indent=2) + b"\n"

    def refusals(self) -> dict[str, str]:
        """Entries that can never be loaded, and why: names that are none, and names that differ only in case."""
        found: dict[str, str] = {}
        folded: dict[str, list[str]] = {}
        for name in self.allow:
            problem = name_problem(name)
            if problem:
                found[name] = problem
            folded.setdefault(fold(name), []).append(name)
        for twins in folded.values():
            if len(twins) > 1:
                for name in twins:
                    others = ", ".join(show(other) for other in twins if other != name)
                    found.setdefault(name, f"differs from {others} only in case, and some disks hold them for one file")
        return found


def sha256_of(data: bytes) -> str:
    """The hash as a manifest writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def fold(name: str) -> str:
    """What a disk that ignores case, and how letters are composed, takes a name for."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", name).casefold())


def name_problem(name: str) -> str | None:
    """Why a name is not that of a script; None if it is."""
    if not name or not all(char.isprintable() for char in name):
        return "holds characters that cannot be shown, or none at all"
    if "/" in name or "\\" in name or name in (".", ".."):
        return "is a path; write the name of a file in the directory itself"
    if not name.endswith(".py") or name.startswith("."):
        return "is not the name of a script; write one like `foo.py`"
    if name == "__init__.py":
        return "marks a package, and is no script"
    if len(os.fsencode(name)) > _MAX_NAME_BYTES:
        return f"is longer than {_MAX_NAME_BYTES} bytes"
    if fold(name).removesuffix(".py") in _TAKEN:
        return "has the name of a module of Python or of this program; rename the file"
    return None


def check_name(name: object) -> str:
    """The name, if it may stand in a manifest; `ManifestError` if not."""
    if not isinstance(name, str):
        raise ManifestError(f"the name of a script is text, not {json_type(name)}")
    problem = name_problem(name)
    if problem:
        raise ManifestError(f"{show(name)} {problem}")
    return name


def read_manifest(directory: ScriptDirectory) -> Manifest:
    """The manifest of an open directory; `NoManifestError` if there is none, `ManifestError` if it cannot be used."""
    where = str(directory.path / MANIFEST)
    try:
        data = directory.read(MANIFEST, limit=MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise NoManifestError(f"{where}: there is no manifest; `toolyard manifest init` makes one") from None
    try:
        return _parsed(parse_json(data, what=where), where)
    except MalformedSource as error:
        raise ManifestError(f"{error}; mend it, or remove it and begin anew with `toolyard manifest init`") from None


def _parsed(document: Any, where: str) -> Manifest:
    if not isinstance(document, dict):
        raise MalformedSource(f'a manifest is {{"allow": [...]}}, not {json_type(document)}', where=where)
    allow = document.get(ALLOW, [])
    if isinstance(allow, list):
        wrong = [item for item in allow if not isinstance(item, str)]
        if wrong:
            raise MalformedSource(f"'allow' is a list of file names; {json_type(wrong[0])} is none", where=where)
        return Manifest(dict.fromkeys(allow), hashed=False, document=document)
    if isinstance(allow, dict):
        for name, value in allow.items():
            if value is not None and not (isinstance(value, str) and _HASH.fullmatch(value)):
                raise MalformedSource(f"the hash of {show(name)} is not 'sha256:' and 64 hex digits", where=where)
        return Manifest(dict(allow), hashed=True, document=document)
    raise MalformedSource(f"'allow' is a list or a mapping, not {json_type(allow)}", where=where)


def load_allowlist(path: str | os.PathLike[str]) -> set[str]:
    """The names that may be loaded; none, and a line in the log, if the manifest is missing or cannot be used."""
    try:
        with ScriptDirectory(path) as directory:
            manifest = read_manifest(directory)
    except SourceError as error:
        _log.warning("no script is allowed: %s", error)
        return set()
    refused = manifest.refusals()
    for name, reason in refused.items():
        _log.warning("%s: entry %s %s", Path(path) / MANIFEST, show(name), reason)
    return set(manifest.allow) - refused.keys()
