"""Config or catalog -> registry and engine, with a report that leaves nothing out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from toolyard.app.config import MAX_CONFIG_BYTES, Config, read_config, read_config_file
from toolyard.app.config_or_catalog import is_config
from toolyard.app.engines import make_engine
from toolyard.app.entry import PluginEntry
from toolyard.app.plugin_options import make_plugin
from toolyard.app.secrets import clean_report, hide_secrets
from toolyard.calls.policy import Approver, Policy
from toolyard.calls.tracer import Tracer
from toolyard.engines.base import ToolEngine
from toolyard.model.report import LoadReport
from toolyard.plugins import ENRICHMENTS, LOADERS, Enrichment, Loader
from toolyard.registry import ToolRegistry
from toolyard.registry.enriching import in_order
from toolyard.registry.parts import prepare_all
from toolyard.words.redactor import Redactor

_CATALOG_ONLY = (".jsonl", ".ndjson")
ConfigLike = str | Path | Mapping[str, Any]


def read_anything(config: ConfigLike, *, env: Mapping[str, str] | None = None) -> Config:
    """A config, from a file or given as a mapping; a catalog file is a config with one source."""
    if isinstance(config, Mapping):
        return read_config(config, base=Path(), env=env)
    path = Path(config)
    document = read_config_file(path) if _may_be_config(path) else None
    if not is_config(document):
        source = PluginEntry("file", {"path": str(path)}, str(path))
        # Not from the folder of the catalog: the path that leads there is written from here.
        return Config(where=str(path), base=Path(), loaders=[source])
    return read_config(document, base=path.parent, where=str(path), env=env)


def _may_be_config(path: Path) -> bool:
    # Catalogs run to hundreds of megabytes and are parsed once, by their loader; no config is that large.
    if path.suffix.lower() in _CATALOG_ONLY:
        return False
    try:
        return path.stat().st_size <= MAX_CONFIG_BYTES
    except OSError:
        return True


def make_loaders(config: Config, *, lenient: bool = False) -> list[Loader]:
    """The loaders a config names.

    `lenient` sets every loader that allows it to list bad entries and duplicates instead of raising.
    """
    policies = {"on_error": "skip", "on_duplicate": "skip"} if lenient else {}
    loaders = [
        make_plugin(LOADERS, entry, config.base, given={**policies, **entry.options}) for entry in config.loaders
    ]
    inline = [loader for loader, entry in zip(loaders, config.loaders, strict=True) if entry.type == "inline"]
    for number, loader in enumerate(inline[1:], 2):
        loader.label = f"inline {number}"
    return loaders


def make_enrichments(config: Config) -> list[Enrichment]:
    """The enrichments a config names."""
    return [make_plugin(ENRICHMENTS, entry, config.base) for entry in config.enrichments]


def build_registry(config: ConfigLike) -> ToolRegistry:
    """A registry of everything the config names; any fault raises."""
    read = read_anything(config)
    with hide_secrets(read.secrets):
        return load_sources(read)[0]


def load_sources(config: Config, *, lenient: bool = False, enrich: bool = True) -> tuple[ToolRegistry, list[Loader]]:
    """The registry of a config's sources, and their loaders; `lenient` leaves out what cannot be loaded."""
    enrichments = make_enrichments(config)
    loaders = make_loaders(config, lenient=lenient)
    if not lenient:
        return ToolRegistry.from_loaders(loaders, enrichments), loaders
    in_order(enrichments)  # before anything is loaded, which may take long
    registry = ToolRegistry()
    prepare_all(loaders)
    for loader in loaders:
        registry.attach(loader, keep_failed=True)
    if enrichments and enrich:
        # Once for all sources. A fault in it is no fault of the source that was loaded last.
        with ExitStack() as undo:
            undo.callback(registry.close)
            registry.enrich(*enrichments)
            undo.pop_all()
    return registry, loaders


def survey(config: ConfigLike) -> tuple[ToolRegistry, LoadReport]:
    """Load what can be loaded and report on all of it: one broken source does not hide the others.

    The rest of the config is checked too, and raises; nothing is connected or written, and no enrichment is run.
    """
    read = read_anything(config)
    with hide_secrets(read.secrets):
        registry, loaders = load_sources(read, lenient=True, enrich=False)
        make_engine(read, registry, loaders).close()
        return registry, clean_report(registry.report, read.secrets)


def build_parts(
    config: Config, approver: Approver | None = None, *, lenient: bool = False
) -> tuple[ToolRegistry, ToolEngine, LoadReport]:
    """Registry and engine of a config, wired to its sessions, policy and tracing. All or nothing is opened.

    `lenient` leaves out what cannot be loaded; the report says what.
    """
    with hide_secrets(config.secrets), ExitStack() as undo:
        redactor = Redactor(config.secrets)
        registry, loaders = load_sources(config, lenient=lenient)
        undo.callback(registry.close)
        tracer = Tracer.from_options(config.tracing, f"{config.where}: tracing", redactor, base=config.base)
        undo.callback(tracer.close)
        sessions = config.sessions.open()
        undo.callback(sessions.close)
        policy = Policy.from_options(config.policy, approver)
        engine = make_engine(
            config, registry, loaders, sessions=sessions, policy=policy, tracer=tracer, redactor=redactor
        )
        undo.pop_all()
        return registry, engine, clean_report(registry.report, config.secrets) if lenient else registry.report
