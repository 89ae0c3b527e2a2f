"""Manifest and directory held against each other: which files may be loaded, and why the others may not."""

from __future__ import annotations

from typing import Literal

import msgspec

from toolyard.model.errors import ManifestError
from toolyard.model.names import show
from toolyard.sources.script_files import ScriptDirectory
from toolyard.sources.script_manifest import MANIFEST, Manifest, sha256_of

State = Literal["ok", "missing", "changed", "unpinned", "refused", "stray"]
_SUFFIX = ".py"


class Reviewed(msgspec.Struct, frozen=True):
    """One file, or one entry of a manifest, and what is to be said about it."""

    file: str
    state: State
    reason: str = ""
    data: bytes = b""
    """What may be loaded: the very bytes that `sha256` is the hash of. Only of files that are ok."""
    sha256: str | None = None
    """Of what is in the file now, where it may be read."""
    pinned: str | None = None
    """What the manifest wants it to be."""

    def __repr__(self) -> str:
        return f"<Reviewed {self.file}: {self.state}>"


def review(directory: ScriptDirectory, manifest: Manifest) -> list[Reviewed]:
    """Every entry of the manifest and every other script of the directory, by name. Each file is read once."""
    there = directory.names()
    present = set(there)
    refused = manifest.refusals()
    found = [_entry(directory, manifest, name, present, refused) for name in manifest.allow]
    strays = [
        Reviewed(name, "stray", f"not in {MANIFEST}; `toolyard manifest add {directory.path} {name}` allows it")
        for name in there
        if is_script(name) and name not in manifest.allow
    ]
    return sorted([*found, *strays], key=lambda item: item.file)


def is_script(name: str) -> bool:
    """True if a file of that name looks like one; editors leave hidden files behind that are none."""
    return name.lower().endswith(_SUFFIX) and not name.startswith(".") and name != "__init__.py"


def _entry(
    directory: ScriptDirectory, manifest: Manifest, name: str, present: set[str], refused: dict[str, str]
) -> Reviewed:
    if name in refused:
        return Reviewed(name, "refused", f"{show(name)} {refused[name]}")
    pinned = manifest.allow[name]
    # Asked of the listing, because a disk that ignores case opens a file under names that it does not have.
    if name not in present:
        return Reviewed(name, "missing", f"in {MANIFEST}, but not in the directory", pinned=pinned)
    try:
        data = directory.read(name, linked=manifest.hashed)
    except FileNotFoundError:
        return Reviewed(name, "missing", f"in {MANIFEST}, but not in the directory", pinned=pinned)
    except ManifestError as error:
        return Reviewed(name, "refused", str(error), pinned=pinned)
    sha256 = sha256_of(data)
    approve = f"`toolyard manifest add {directory.path} {name}` approves what it says now"
    if manifest.hashed and pinned is None:
        return Reviewed(name, "unpinned", f"its hash is not in {MANIFEST}; {approve}", sha256=sha256)
    if pinned is not None and sha256 != pinned:
        reason = f"its bytes are not those of the hash in {MANIFEST}; {approve}"
        return Reviewed(name, "changed", reason, sha256=sha256, pinned=pinned)
    return Reviewed(name, "ok", data=data, sha256=sha256, pinned=pinned)
