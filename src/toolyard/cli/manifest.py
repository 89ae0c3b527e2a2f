"""`toolyard manifest`: which scripts of a directory may be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from toolyard.cli.options import OUTPUT, VerbOptions
from toolyard.cli.output import counted, print_json, print_table, print_text
from toolyard.model.errors import ManifestError
from toolyard.sources.scripts.manifest import (
    MANIFEST,
    Manifest,
    ReviewedFile,
    ScriptDirectory,
    allow_scripts,
    create_manifest,
    disallow_scripts,
    read_manifest,
    review_directory,
)

Directory = Annotated[Path, Parameter(help="Directory of the scripts.")]


def init_(
    directory: Directory,
    /,
    *,
    hashed: Annotated[bool, Parameter(help="Store a hash of each file; changed files are refused.")] = False,
    empty: Annotated[bool, Parameter(help="Create a manifest that allows nothing.")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Create a manifest that allows the existing scripts. Exits 1 if some cannot be allowed."""
    manifest, refused = create_manifest(directory, hashed=hashed, empty=empty)
    if options.json:
        print_json({**_describe_file(directory, manifest), "refused": refused})
    else:
        _show_files(manifest)
        if refused:
            print_table("Refused", ["file", "why"], [(name, why) for name, why in refused.items()])
        print_text(f"{directory / MANIFEST}: {counted(len(manifest.allow), 'file')} allowed, {len(refused)} refused")
    return 1 if refused else 0


def list_(directory: Directory, /, *, options: VerbOptions = OUTPUT) -> int:
    """List the files that the manifest allows."""
    with ScriptDirectory(directory) as opened:
        manifest = read_manifest(opened)
    return _show_manifest(directory, manifest, "", options.json)


def add_(
    directory: Directory,
    /,
    *files: Annotated[str, Parameter(help="File names in the directory, such as foo.py.")],
    absent: Annotated[bool, Parameter(help="Allow files that do not exist yet.")] = False,
    hashed: Annotated[bool, Parameter(help="Store a hash of each file from now on.")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Allow files, or accept their current content."""
    if not files and not hashed:
        raise ManifestError("name the files to be allowed")
    manifest = allow_scripts(directory, files, hashed=True if hashed else None, absent=absent)
    return _show_manifest(directory, manifest, f"{counted(len(files), 'file')} added, ", options.json)


def remove_(
    directory: Directory,
    /,
    *files: Annotated[str, Parameter(help="File names in the manifest.")],
    options: VerbOptions = OUTPUT,
) -> int:
    """Remove files from the manifest; the files themselves are kept."""
    if not files:
        raise ManifestError("name the files to remove")
    manifest = disallow_scripts(directory, files)
    return _show_manifest(directory, manifest, f"{counted(len(set(files)), 'file')} removed, ", options.json)


def verify_(directory: Directory, /, *, options: VerbOptions = OUTPUT) -> int:
    """Check that every file in the manifest exists, may be loaded, and matches its hash. Exits 1 if one does not."""
    listed = [item for item in _review_files(directory) if item.state != "stray"]
    bad = [item for item in listed if item.state != "ok"]
    total = f"{counted(len(listed), 'file')} allowed, {len(bad)} cannot be loaded"
    return _show_review("Manifest", listed, total, options.json)


def diff_(directory: Directory, /, *, options: VerbOptions = OUTPUT) -> int:
    """Show how directory and manifest differ: scripts not allowed, missing, changed, or refused. Exits 1 if they do."""
    different = [item for item in _review_files(directory) if item.state != "ok"]
    return _show_review("Differences", different, counted(len(different), "difference"), options.json)


def _review_files(directory: Path) -> list[ReviewedFile]:
    with ScriptDirectory(directory) as opened:
        return review_directory(opened, read_manifest(opened))


def _show_manifest(directory: Path, manifest: Manifest, what: str, as_json: bool) -> int:
    if as_json:
        print_json(_describe_file(directory, manifest))
    else:
        _show_files(manifest)
        print_text(f"{directory / MANIFEST}: {what}{counted(len(manifest.allow), 'file')} allowed")
    return 0


def _describe_file(directory: Path, manifest: Manifest) -> dict[str, Any]:
    return {"manifest": str(directory / MANIFEST), "hashed": manifest.hashed, "allow": manifest.allow}


def _show_files(manifest: Manifest) -> None:
    rows = [(name, pin or ("not there yet" if manifest.hashed else "")) for name, pin in manifest.allow.items()]
    print_table("Allowed", ["file", "hash"], rows)


def _show_review(title: str, items: Sequence[ReviewedFile], total: str, as_json: bool) -> int:
    """Show the files and their problems; returns 1 if there are any."""
    if as_json:
        keys = ("file", "state", "reason", "sha256", "pinned")
        print_json([{key: getattr(item, key) for key in keys} for item in items])
    else:
        print_table(title, ["file", "state", "why"], [(item.file, item.state, item.reason) for item in items])
        print_text(total)
    return 1 if any(item.state != "ok" for item in items) else 0
