"""Config or catalog -> registry and engine, with a report that leaves nothing out."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from toolyard.app.config import MAX_CONFIG_BYTES, Config, PluginEntry, located_files, read_config, read_config_file
from toolyard.app.engines import make_engines, stand_ins
from toolyard.app.hiding import cleaned, hiding
from toolyard.app.kind import is_config
from toolyard.app.options import WIRED, typed_options, wired_options
from toolyard.calls.policy import Approver, Policy
from toolyard.calls.redact import Redactor
from toolyard.calls.tracing import Tracer
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.bindings import McpBinding, PythonBinding, RestBinding, ScriptBinding
from toolyard.model.errors import ConfigError, PluginError
from toolyard.model.report import LoadReport
from toolyard.plugins import ENGINES, ENRICHMENTS, LOADERS, Enrichment, Loader, PluginTable, get_tool_engine
from toolyard.plugins.table import parameters_of
from toolyard.registry import ToolRegistry
from toolyard.registry.enriching import in_order
from toolyard.registry.parts import prepare_all

_log = logging.getLogger(__name__)

_CATALOG_ONLY = (".jsonl", ".ndjson")
_BY_BINDING: dict[type, str] = {
    PythonBinding: "python",
    RestBinding: "rest",
    McpBinding: "mcp",
    ScriptBinding: "scripts",
    NoneType: "lm",
}
"""Who answers a tool whose source names no engine; one that nothing is behind is simulated, by its schemas alone."""
_ENRICHMENT_FILES = ("cache", "results")
"""Options of enrichments that name a file or folder."""

ConfigLike = str | Path | Mapping[str, Any]


def read_anything(config: ConfigLike, *, env: Mapping[str, str] | None = None) -> Config:
    """A config, from a file or given as a mapping; a catalog file is a config with one source."""
    if isinstance(config, Mapping):
        return read_config(config, base=Path(), env=env)
    path = Path(config)
    document = read_config_file(path) if _may_be_config(path) else None
    if not is_config(document):
        source = PluginEntry("file", {"path": str(path)}, str(path))
        return Config(where=str(path), base=path.parent, loaders=[source])
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
    loaders = [_made(LOADERS, entry, {**policies, **entry.options}) for entry in config.loaders]
    inline = [loader for loader, entry in zip(loaders, config.loaders, strict=True) if entry.type == "inline"]
    for number, loader in enumerate(inline[1:], 2):
        loader.label = f"inline {number}"
    return loaders


def _made(table: PluginTable[Any], entry: PluginEntry, options: dict[str, Any]) -> Any:
    try:
        cls = table.get(entry.type)
        if table is LOADERS:
            _check_engine_is_spelt(cls, entry)
        return table.create(entry.type, **typed_options(cls, options))
    except (ConfigError, PluginError) as error:
        raise ConfigError(f"{entry.where}: {error}") from None


def _check_engine_is_spelt(cls: type, entry: PluginEntry) -> None:
    """`engine` is a key of every source and no option of its loader, which could not hint at it."""
    known = parameters_of(cls)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for option in entry.options:
        if option not in known and difflib.get_close_matches(option, [*known, "engine"], n=1) == ["engine"]:
            raise ConfigError(f"tool loader {entry.type!r} has no option {option!r}; did you mean 'engine'?")


def build_registry(config: ConfigLike) -> ToolRegistry:
    """A registry of everything the config names; any fault raises."""
    read = read_anything(config)
    with hiding(read.secrets):
        return _everything(read)[0]


def _everything(config: Config) -> tuple[ToolRegistry, list[Loader], LoadReport]:
    loaders, enrichments = make_loaders(config), _enrichments(config)
    registry = ToolRegistry.from_loaders(loaders, enrichments)
    return registry, loaders, registry.report


def survey(config: ConfigLike) -> tuple[ToolRegistry, LoadReport]:
    """Load what can be loaded and report on all of it: one broken source does not hide the others.

    The rest of the config is checked too, and raises; nothing is connected or written, and no enrichment is run.
    """
    read = read_anything(config)
    with hiding(read.secrets):
        in_order(_enrichments(read))
        registry, loaders, report = _what_loads(read)
        Policy.from_config(read.policy, f"{read.where}: policy")
        Tracer.check_config(read.tracing, f"{read.where}: tracing")
        engine_of(read, registry, loaders).close()
    return registry, report


def _what_loads(config: Config) -> tuple[ToolRegistry, list[Loader], LoadReport]:
    registry = ToolRegistry()
    loaders = make_loaders(config, lenient=True)
    prepare_all(loaders)
    for loader in loaders:
        registry.attach(loader, keep_failed=True)
    return registry, loaders, cleaned(registry.report, config.secrets)


def _what_loads_enriched(config: Config) -> tuple[ToolRegistry, list[Loader], LoadReport]:
    enrichments = _enrichments(config)
    in_order(enrichments)  # before anything is loaded, which may take long
    registry, loaders, report = _what_loads(config)
    if enrichments:
        # Once for all sources. A fault in it is no fault of the source that was loaded last.
        with ExitStack() as undo:
            undo.callback(registry.close)
            registry.enrich(*enrichments)
            undo.pop_all()
    return registry, loaders, report


def _enrichments(config: Config) -> list[Enrichment]:
    return [_made(ENRICHMENTS, entry, _located(entry, config.base)) for entry in config.enrichments]


def _located(entry: PluginEntry, base: Path) -> dict[str, Any]:
    """The options of an enrichment with relative paths taken from the config's folder."""
    options = located_files(entry.type, dict(entry.options), base)
    for key in _ENRICHMENT_FILES:
        value = options.get(key)
        if isinstance(value, str) and value and not value.startswith("~"):
            options[key] = str(base / value)
    return options


def engine_of(config: Config, registry: ToolRegistry, loaders: list[Loader], **shared: Any) -> ToolEngine:
    """The engine of a config: each source's own, or the one that its tools' bindings ask for."""
    with ExitStack() as undo:
        engines = make_engines(config, partial(_engine, registry), undo)
        sources = _by_source(config, loaders, engines)
        kept = {binding: _own(kind, engines) for binding, kind in _BY_BINDING.items()}
        used = {*(id(engine) for engine in sources.values()), *map(id, kept.values()), *map(id, stand_ins(engines))}
        for name, engine in engines.items():
            if id(engine) not in used:
                _log.warning("%s: tools.engines.%s is defined, but no source has it as its engine", config.where, name)
        makers = {
            binding: partial(_built_in, kind, registry, engines, kept[binding]) for binding, kind in _BY_BINDING.items()
        }
        if not sources:
            # Nothing to route: the plain engine, which knows a shorter way.
            plain: ToolEngine = get_tool_engine("python", registry=registry, **shared)
            for binding, make in makers.items():
                if binding is not PythonBinding and isinstance(plain, PythonToolEngine):
                    plain.let_answer(binding, make)
            undo.pop_all()
            return plain
        bindings: dict[type, ToolEngine] = {}
        for binding, make in makers.items():
            bindings[binding] = make()
            undo.callback(bindings[binding].close)
        multi = MultiToolEngine(registry, sources=sources, bindings=bindings, **shared)
        undo.pop_all()
        return multi


def _built_in(
    kind: str, registry: ToolRegistry, engines: Mapping[str, ToolEngine], kept: ToolEngine | None
) -> ToolEngine:
    """Who answers tools by their binding: the one engine of the config that can, or one without options."""
    if kept is not None:
        return kept
    engine: ToolEngine = get_tool_engine(kind, registry=registry, name=_free_name(kind, engines))
    return engine


def _own(kind: str, engines: Mapping[str, ToolEngine]) -> ToolEngine | None:
    """The engine of the config that takes the place of a built-in one: of its type, and of its name."""
    engine = engines.get(kind)
    return engine if kind != "python" and engine is not None and type(engine) is ENGINES.get(kind) else None


def _engine(registry: ToolRegistry, entry: PluginEntry, name: str, options: dict[str, Any]) -> ToolEngine:
    for option in entry.options:
        if option in WIRED or option in _wired(entry):
            raise ConfigError(f"{entry.where}: {option!r} cannot be set here; it comes from the rest of the config")
    engine: ToolEngine = _made(ENGINES, entry, {"registry": registry, "name": name, **options})
    return engine


def _wired(entry: PluginEntry) -> tuple[str, ...]:
    try:
        return wired_options(ENGINES.get(entry.type))
    except PluginError as error:
        raise ConfigError(f"{entry.where}: {error}") from None


def _by_source(config: Config, loaders: list[Loader], engines: Mapping[str, ToolEngine]) -> dict[str, ToolEngine]:
    found: dict[str, ToolEngine] = {}
    asked: dict[str, str | None] = {}
    for entry, loader in zip(config.loaders, loaders, strict=True):
        source = loader.source
        if source in asked and asked[source] != entry.engine:
            raise ConfigError(
                f"{entry.where}: {source} is listed twice, once with engine {asked[source]!r} and once with "
                f"{entry.engine!r}; its tools cannot be told apart. Give both the same engine"
            )
        asked[source] = entry.engine
        if entry.engine is not None:
            found[source] = engines[entry.engine]
    return found


def _free_name(kind: str, taken: Mapping[str, ToolEngine]) -> str:
    """The name under which a built-in engine keeps its state, if the config did not take it."""
    return kind if kind not in taken else f"{kind} (built in)"


def build_parts(
    config: Config, approver: Approver | None = None, *, lenient: bool = False
) -> tuple[ToolRegistry, ToolEngine, LoadReport]:
    """Registry and engine of a config, wired to its sessions, policy and tracing. All or nothing is opened.

    `lenient` leaves out what cannot be loaded; the report says what.
    """
    with hiding(config.secrets):
        return _parts(config, approver, _what_loads_enriched if lenient else _everything)


def _parts(
    config: Config, approver: Approver | None, load: Callable[[Config], tuple[ToolRegistry, list[Loader], LoadReport]]
) -> tuple[ToolRegistry, ToolEngine, LoadReport]:
    redactor = Redactor(config.secrets)
    policy = Policy.from_config(config.policy, f"{config.where}: policy", approver=approver)
    with ExitStack() as undo:
        registry, loaders, report = load(config)
        undo.callback(registry.close)
        tracer = Tracer.from_config(config.tracing, f"{config.where}: tracing", redactor, base=config.base)
        undo.callback(tracer.close)
        sessions = config.sessions.open()
        undo.callback(sessions.close)
        engine = engine_of(
            config, registry, loaders, sessions=sessions, policy=policy, tracer=tracer, redactor=redactor
        )
        undo.pop_all()
    return registry, engine, report
