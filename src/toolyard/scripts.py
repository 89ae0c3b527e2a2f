"""Tools from a directory of Python files, gated by the allow-list in its `_manifest.json`.

from toolyard import ToolRegistry
from toolyard.scripts import append_tool_manifest, load_tools

registry = ToolRegistry()
append_tool_manifest("foo.py", "tools")
load_tools("tools", registry)
"""

from __future__ import annotations

import os
import threading
from typing import Literal
from weakref import WeakKeyDictionary

from toolyard.model.errors import ConfigError
from toolyard.model.report import SourceReport
from toolyard.registry import ToolRegistry
from toolyard.schema.options import expand_place
from toolyard.sources.scripts.loader import ScriptToolLoader
from toolyard.sources.scripts.manifest import append_script, load_allowlist
from toolyard.sources.wrappers import WrappedToolLoader

__all__ = ["ScriptToolLoader", "append_tool_manifest", "load_tool_manifest_allowlist", "load_tools"]


Directory = str | os.PathLike[str]

_locks: WeakKeyDictionary[ToolRegistry, threading.Lock] = WeakKeyDictionary()
_creating_lock = threading.Lock()


def load_tools(
    directory: Directory, registry: ToolRegistry, *, isolation: Literal["process", "inprocess"] | None = None
) -> SourceReport:
    """Register the tools of every allowed script in a directory, and report the outcome of each file.

    Tools loaded from the same directory before are replaced in one swap, and those of deleted files removed. Tools of
    other sources stay. A rejected or broken file is logged and listed; the others load. A missing directory, or one
    without a manifest, yields no tools.

    Handlers run in worker processes; with `isolation="inprocess"` they run in this process with all its rights: they
    can use its globals and the network, write files, and allow and load further tools.
    """
    if not isinstance(registry, ToolRegistry):
        raise TypeError(f"load_tools needs a ToolRegistry, not {type(registry).__name__}")
    directory = expand_place(os.fspath(directory), "directory")
    with _get_lock(registry):
        loaders = ((one, _script_loader_of(one)) for one in registry.loaders)
        known, scripts = next(((one, own) for one, own in loaders if own and own.is_at(directory)), (None, None))
        if known is None or scripts is None:
            known = ScriptToolLoader(directory, isolation=isolation or "process")
            registry.attach(known)
        elif isolation not in (None, scripts.isolation):
            raise ConfigError(f"{directory} is loaded with isolation {scripts.isolation!r}, which cannot be changed")
        else:
            registry.refresh(only=known)
        # The registry's report, since it includes names that another source has taken already.
        return next(report for report in reversed(registry.report.sources) if report.source == known.source)


def load_tool_manifest_allowlist(tools_path: Directory) -> set[str]:
    """The names of the files that may be loaded; empty, with a log line, if there is no usable manifest."""
    return load_allowlist(expand_place(os.fspath(tools_path), "tools_path"))


def append_tool_manifest(tool_basename: str, tools_dir: Directory = "tools") -> None:
    """Allow one more file, which need not exist yet.

    Safe for concurrent use by several processes. Raises FileNotFoundError if there is no manifest, and `ManifestError`
    if the name is not that of a script or the manifest is corrupt, which is then left unchanged.
    """
    append_script(tool_basename, expand_place(os.fspath(tools_dir), "tools_dir"))


def _get_lock(registry: ToolRegistry) -> threading.Lock:
    """A lock for each registry, so that concurrent loads of a new directory do not both attach it."""
    with _creating_lock:
        return _locks.setdefault(registry, threading.Lock())


def _script_loader_of(loader: object) -> ScriptToolLoader | None:
    while isinstance(loader, WrappedToolLoader):
        loader = loader.inner
    return loader if isinstance(loader, ScriptToolLoader) else None
