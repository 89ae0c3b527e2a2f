"""`Toolyard`: builds all objects of a config, and closes them together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.app.blocks import MEMORY, PluginEntry, SessionsBlock
from toolyard.app.config import (
    Config,
    ConfigLike,
    clean_report,
    hide_secrets,
    list_wired_options,
    plugin_options,
    read_anything,
    read_plugin_options,
)
from toolyard.calls.policy import Approver, Policy
from toolyard.calls.tracer import Tracer, read_log_options
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.links.http.auth_entry import is_blank
from toolyard.model.bases import Closing
from toolyard.model.bindings import McpBinding, PythonBinding, RestBinding, ScriptBinding
from toolyard.model.errors import ConfigError, DefinitionError, PluginError
from toolyard.model.names import suggest
from toolyard.model.report import LoadReport
from toolyard.model.tool import Tool
from toolyard.parsing.files import file_of
from toolyard.plugins import (
    ENGINES,
    ENRICHMENTS,
    LOADERS,
    SESSION_STORES,
    Enrichment,
    Loader,
    PluginTable,
    check_options,
    get_tool_engine,
    get_tool_sampler,
)
from toolyard.registry import ToolRegistry
from toolyard.registry.enriching import order_enrichments
from toolyard.registry.snapshot import prepare_loaders
from toolyard.schema.options import check_kinds
from toolyard.sessions.sessions import Sessions
from toolyard.sources.domains import DomainToolLoader
from toolyard.words.redactor import Redactor

if TYPE_CHECKING:
    from toolyard.insight.samplers.base import ToolSampler


_log = logging.getLogger(__name__)

_SIMULATE_WITH = "simulate_with"
_WRAPPED_ENGINE = "engine"
_REPLAY = "replay"
"""The type of engine that wraps another one."""
_DEFAULT_ENGINES: dict[type, str] = {
    PythonBinding: "python",
    RestBinding: "rest",
    McpBinding: "mcp",
    ScriptBinding: "scripts",
    NoneType: "lm",
}
"""The default engine for each type of binding; tools without a binding are simulated by their schemas alone."""


def make_plugin(
    table: PluginTable[Any],
    entry: PluginEntry,
    base: Path,
    *,
    given: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
) -> Any:
    """Create the plugin of a config entry. `given` replaces the entry's options; `made` are objects passed to it."""
    options = dict(entry.options if given is None else given)
    try:
        cls = table.get(entry.type)
        wired = [option for option in entry.options if option in list_wired_options(cls)]
        if wired:
            raise ConfigError(f"{wired[0]!r} cannot be set here; it comes from the rest of the config")
        # Every source has the key `engine`, which its loader does not know, so could not suggest for a misspelt one.
        beside = "engine" if table is LOADERS else ""
        check_options(cls, {**(made or {}), **options}, f"{table.kind} {entry.type!r}", beside=beside)
    except (ConfigError, PluginError) as error:
        raise ConfigError(f"{entry.where}: {error}") from None
    read = read_plugin_options(cls, options, entry.where, base)
    try:
        return cls(**(made or {}), **read)
    except (ConfigError, DefinitionError, PluginError) as error:
        # If a catalog was given instead of a config, its loader has already named the file.
        place = "" if str(error).startswith(f"{entry.where}: ") else f"{entry.where}: "
        raise ConfigError(f"{place}{error}") from None


def make_loaders(config: Config, *, lenient: bool = False) -> list[Loader]:
    """The loaders of a config.

    `lenient` makes loaders list bad entries and duplicates instead of raising, unless the config says otherwise.
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
    """The enrichments of a config."""
    return [make_plugin(ENRICHMENTS, entry, config.base) for entry in config.enrichments]


def build_registry(config: ConfigLike) -> ToolRegistry:
    """A registry of everything in the config; any error raises."""
    read = read_anything(config)
    with hide_secrets(read.secrets):
        return load_sources(read)[0]


def load_sources(config: Config, *, lenient: bool = False, enrich: bool = True) -> tuple[ToolRegistry, list[Loader]]:
    """The registry of a config's sources, and their loaders; `lenient` skips what cannot be loaded."""
    enrichments = make_enrichments(config)
    loaders = make_loaders(config, lenient=lenient)
    clean = partial(clean_report, secrets=config.secrets)
    if not lenient:
        return ToolRegistry.from_loaders(loaders, enrichments, clean_report=clean), loaders
    if enrichments:
        order_enrichments(enrichments)  # raise early, since loading may take long
    registry = ToolRegistry()
    registry.clean_report = clean
    prepare_loaders(loaders)
    for loader in loaders:
        registry.attach(loader, keep_failed=True)
    if enrichments and enrich:
        # Once for all sources, so that a failure is not attributed to the last one loaded.
        with ExitStack() as undo:
            undo.callback(registry.close)
            registry.enrich(*enrichments)
            undo.pop_all()
    return registry, loaders


def survey(config: ConfigLike, *, enrich: bool = False) -> tuple[ToolRegistry, LoadReport]:
    """Load as much as possible and report on all of it: a broken source does not hide the others.

    Errors in the rest of the config raise. Nothing is connected or written, and enrichments run only with `enrich`.
    """
    read = read_anything(config)
    with hide_secrets(read.secrets):
        registry, loaders = load_sources(read, lenient=True, enrich=enrich)
        with make_engine(read, registry, loaders, policy=Policy.from_options(read.policy)) as engine:
            idle = (*engine.idle, *_find_blank_credentials(read))
        return registry, msgspec.structs.replace(registry.report, idle=idle)


def check_config(config: Config) -> None:
    """Create everything in a config without loading tools; wrong types and options and missing files raise."""
    with hide_secrets(config.secrets), ToolRegistry() as registry:
        make_enrichments(config)
        loaders = make_loaders(config)
        try:
            for entry in config.loaders:
                _check_files(entry, config.base)
            make_engine(config, registry, loaders).close()
        finally:
            for loader in loaders:
                loader.close()


def _check_files(entry: PluginEntry, base: Path) -> None:
    """Check that files and folders of a source exist; module names and URLs are not paths."""
    cls = LOADERS.get(entry.type)
    read = read_plugin_options(cls, entry.options, entry.where, base.resolve())
    located = [
        name for name, option in plugin_options(cls).items() if option.required and option.type.extra_value("locate")
    ]
    for name in located:
        place = file_of(Path(str(read.get(name, ""))))
        if place.is_absolute() and not place.exists():
            raise ConfigError(f"{entry.where}.{name}: there is no {place}")


def build_parts(
    config: Config, approver: Approver | None = None, *, lenient: bool = False
) -> tuple[ToolRegistry, ToolEngine, LoadReport]:
    """The registry and the engine of a config, with its sessions, policy and tracing. On an error, all are closed.

    `lenient` skips what cannot be loaded; the report lists it.
    """
    with hide_secrets(config.secrets), ExitStack() as undo:
        redactor = Redactor(config.secrets)
        registry, loaders = load_sources(config, lenient=lenient)
        undo.callback(registry.close)
        _find_blank_credentials(config)
        tracer = Tracer.from_options(config.tracing, f"{config.where}: tracing", redactor, base=config.base)
        undo.callback(tracer.close)
        sessions = make_sessions(config.sessions)
        undo.callback(sessions.close)
        policy = Policy.from_options(config.policy, approver)
        engine = make_engine(
            config, registry, loaders, sessions=sessions, policy=policy, tracer=tracer, redactor=redactor
        )
        if options := read_log_options(config.tracing.log, serving=False):
            engine.keep_journal(options)
        undo.pop_all()
        return registry, engine, registry.report


def make_sessions(block: SessionsBlock) -> Sessions:
    """Open the store of a `sessions` block."""
    if block.store == MEMORY:
        return Sessions(ttl=block.ttl, max_open=block.max_open, **block.options)
    store = SESSION_STORES.create(block.store, **block.options)
    sessions = Sessions(store, ttl=block.ttl, max_open=block.max_open)
    sessions.yard = block.yard
    return sessions


def make_engine(config: Config, registry: ToolRegistry, loaders: list[Loader], **shared: Any) -> ToolEngine:
    """The engine that answers all tools; `shared` are its sessions, policy and tracing."""
    with ExitStack() as undo:
        engines = make_named_engines(config, registry, undo)
        sources = engines_by_source(config, loaders, engines)
        replacing = _find_replacements(engines)
        _warn_of_unused(config, engines, [*sources.values(), *replacing.values()])
        _warn_of_chosen_conditions(config)
        makers: dict[type, Callable[[], ToolEngine]] = {
            binding: partial(replacing.__getitem__, binding)
            if binding in replacing
            else partial(_make_built_in, kind, registry, engines)
            for binding, kind in _DEFAULT_ENGINES.items()
        }
        engine: PythonToolEngine | MultiToolEngine
        if sources:
            engine = MultiToolEngine(registry, sources=sources, bindings=replacing, **shared)
            makers = {binding: make for binding, make in makers.items() if binding not in replacing}
        else:
            # Nothing to route, so use the plain engine, which is faster.
            engine = PythonToolEngine(registry, **shared)
            del makers[PythonBinding]
        for binding, make in makers.items():
            engine.let_answer(binding, make)
        engine.idle += [text for part in engines.values() for text in part.idle]
        undo.pop_all()
        return engine


def make_named_engines(config: Config, registry: ToolRegistry, undo: ExitStack) -> dict[str, ToolEngine]:
    """Every engine by its name, in the order of the config; engines that others refer to are created first."""
    made: dict[str, ToolEngine] = {}

    def make(name: str, referrers: tuple[str, ...]) -> ToolEngine:
        if name in made:
            return made[name]
        entry = config.engines[name]
        options = dict(entry.options)
        parts: dict[str, Any] = {"registry": registry, "name": name}
        path = (*referrers, name)
        for option, reference in _list_references(entry):
            del options[option]
            parts[option] = make(_find_referred(reference, option, entry, config, path), path)
        made[name] = make_plugin(ENGINES, entry, config.base, given=options, made=parts)
        undo.callback(made[name].close)
        return made[name]

    return {name: make(name, ()) for name in config.engines}


def _list_references(entry: PluginEntry) -> list[tuple[str, Any]]:
    """The options of an engine that name another one, and what they say."""
    named = (_SIMULATE_WITH, _WRAPPED_ENGINE) if entry.type == _REPLAY else (_SIMULATE_WITH,)
    return [(option, entry.options[option]) for option in named if entry.options.get(option) is not None]


def engines_by_source(
    config: Config, loaders: list[Loader], engines: Mapping[str, ToolEngine]
) -> dict[str, ToolEngine]:
    """The engines of the sources that name one."""
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


def _make_built_in(kind: str, registry: ToolRegistry, engines: Mapping[str, ToolEngine]) -> ToolEngine:
    """The engine for tools with one type of binding, with default options."""
    # Its state is kept under this name, so it must differ from those in the config.
    name = kind if kind not in engines else f"{kind} (built in)"
    engine: ToolEngine = get_tool_engine(kind, registry=registry, name=name)
    if kind == _DEFAULT_ENGINES[NoneType]:
        from toolyard.engines.lm import LMToolEngine

        if isinstance(engine, LMToolEngine):
            engine.is_last_resort = True
    return engine


def _find_replacements(engines: Mapping[str, ToolEngine]) -> dict[type, ToolEngine]:
    """The configured engines that replace built-in ones, by their bindings: those with the same type and name."""
    return {
        binding: engines[kind]
        for binding, kind in _DEFAULT_ENGINES.items()
        if kind != "python" and kind in engines and type(engines[kind]) is ENGINES.get(kind)
    }


def _warn_of_unused(config: Config, engines: Mapping[str, ToolEngine], used: list[ToolEngine]) -> None:
    referenced = {name for entry in config.engines.values() for _, name in _list_references(entry)}
    referenced |= {entry.engine for entry in config.engines.values()}
    for name, engine in engines.items():
        if name not in referenced and engine not in used:
            _log.warning("%s: tools.engines.%s is defined, but no source has it as its engine", config.where, name)


def _warn_of_chosen_conditions(config: Config) -> None:
    for number, options in enumerate(config.policy.rules):
        chosen = options.rule.chosen_by_callers
        if chosen is not None:
            _log.warning("%s: policy.rules[%d] (%s): %s", config.where, number, options.rule, chosen)


def _find_blank_credentials(config: Config) -> list[str]:
    found: dict[str, None] = {}
    for entry in (*config.loaders, *config.engines.values()):
        given = entry.options.get("auth") if entry.type == "rest" else None
        if given and any(map(is_blank, given if isinstance(given, list) else [given])):
            found[f"auth of {entry.where} is empty: calls go without it"] = None
    for text in found:
        _log.warning("%s", text)
    return list(found)


def _find_referred(reference: Any, option: str, entry: PluginEntry, config: Config, referrers: tuple[str, ...]) -> str:
    """The name of the engine that an option refers to; not itself, nor a `simulate_with` engine that has one itself."""
    where = f"{entry.where}.{option}"
    if not isinstance(reference, str) or reference not in config.engines:
        raise ConfigError(
            f"{where}: no engine is called {reference!r}; {suggest(reference, config.engines, 'there are ')}"
        )
    if option == _SIMULATE_WITH and config.engines[reference].options.get(_SIMULATE_WITH) is not None:
        raise ConfigError(f"{where}: {reference!r} has effects itself, so it cannot simulate for another engine")
    if reference in referrers:
        raise ConfigError(f"{where}: {reference!r} refers back to itself, so no engine would answer")
    return reference


class Toolyard(Closing):
    """A registry and the engine that executes its tools, built from a config.

    with Toolyard.from_config("yard.yaml") as yard:
        yard.tool_engine.setup("s1")
        yard.tool_engine.execute("s1", [ToolCall("desk::split_bill", {"total": 90, "people": 2})])
    """

    def __init__(
        self, registry: ToolRegistry, engine: ToolEngine | None = None, *, config: Config | None = None
    ) -> None:
        if engine is None:
            raise ConfigError("Toolyard(registry, engine) takes both; Toolyard.from_config(path) reads a config")
        check_kinds({"registry": ToolRegistry, "engine": ToolEngine}, registry=registry, engine=engine)
        self.tool_registry = registry
        self.tool_engine = engine
        self.config = config
        """The config it was built from; None if it was assembled in code."""

    @classmethod
    def from_config(
        cls, config: ConfigLike, *, env: Mapping[str, str] | None = None, approver: Approver | None = None
    ) -> Toolyard:
        """Build everything in a config: a file, or a mapping of the same form. Any error in it raises.

        Relative paths are resolved against the config's folder. `approver` decides on calls that an `ask` rule holds.
        """
        read = read_anything(config, env=env)
        registry, engine, _ = build_parts(read, approver)
        return cls(registry, engine, config=read)

    @property
    def domains(self) -> frozenset[str]:
        """The namespaces of enabled domains, whose tools have bare names in the HTTP API."""
        loaders = [loader for loader in self.tool_registry.loaders if isinstance(loader, DomainToolLoader)]
        return frozenset[str]().union(*(loader.namespaces for loader in loaders))

    def offered_tools(self) -> list[Tool]:
        """The tools to offer to a model: all except those that the policy always denies."""
        policy, tools = self.tool_engine.policy, self.tool_registry.all_tools()
        return tools if policy is None else policy.list_offered(tools)

    def sampler(self, type: str, **options: Any) -> ToolSampler[Any]:  # noqa: A002 (as a config spells it)
        """A sampler of that registered type over this registry."""
        made: ToolSampler[Any] = get_tool_sampler(type, registry=self.tool_registry, **options)
        return made

    def close(self) -> None:
        """Close engines, sessions, tracing and sources, even if one raises."""
        with ExitStack() as closing:
            closing.callback(self.tool_registry.close)
            closing.callback(self.tool_engine.close)

    async def aclose(self) -> None:
        """`close` for async code."""
        try:
            await self.tool_engine.aclose()
        finally:
            self.tool_registry.close()

    def __repr__(self) -> str:
        return f"Toolyard({self.tool_registry!r}, {self.tool_engine!r})"
