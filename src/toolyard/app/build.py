"""Config or catalog -> a registry, with a report that leaves nothing out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolyard.app.config import MAX_CONFIG_BYTES, LoaderEntry, is_config, read_config_file, registry_entries
from toolyard.model.errors import ConfigError, DefinitionError, PluginError, SourceError
from toolyard.model.report import LoadReport, SourceReport
from toolyard.plugins import Loader, get_tool_loader
from toolyard.registry import ToolRegistry

_CATALOG_ONLY = (".jsonl", ".ndjson")


def loaders_for(path: Path, *, lenient: bool = False) -> list[Loader]:
    """The loaders of a config, or the one loader of a catalog file.

    `lenient` sets every loader that allows it to list bad entries and duplicates instead of raising.
    """
    policies = {"on_error": "skip", "on_duplicate": "skip"} if lenient else {}
    if path.suffix.lower() in _CATALOG_ONLY:
        return [get_tool_loader("file", path=path, **policies)]
    document = read_config_file(path) if _may_be_config(path) else None
    if not is_config(document):
        return [get_tool_loader("file", path=path, **policies)]
    return [_loader(entry, policies) for entry in registry_entries(document, base=path.parent, where=str(path))]


def _may_be_config(path: Path) -> bool:
    # Catalogs run to hundreds of megabytes and are parsed once, by their loader; no config is that large.
    try:
        return path.stat().st_size <= MAX_CONFIG_BYTES
    except OSError:
        return True


def _loader(entry: LoaderEntry, policies: dict[str, Any]) -> Loader:
    try:
        return get_tool_loader(entry.type, **{**policies, **entry.options})
    except (ConfigError, PluginError) as error:
        raise ConfigError(f"{entry.where}: {error}") from None


def build_registry(path: str | Path) -> ToolRegistry:
    """A registry of everything the file names; any fault raises."""
    return ToolRegistry.from_loaders(loaders_for(Path(path)))


def survey(path: str | Path) -> tuple[ToolRegistry, LoadReport]:
    """Load what can be loaded and report on all of it: one broken source does not hide the others."""
    registry = ToolRegistry()
    reports: list[SourceReport] = []
    for loader in loaders_for(Path(path), lenient=True):
        try:
            registry.attach(loader)
            reports.append(registry.report.sources[-1])
        except (SourceError, DefinitionError) as error:
            loader.close()
            reports.append(SourceReport(loader.source, state="failed", error=str(error)))
    return registry, LoadReport(tuple(reports))
