"""The config: the `tools:` block and those beside it, with `${VAR}` expanded, and the options of plugins.

Reading is strict and opens nothing. Secret values of variables are collected on the way, and removed from errors.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolyard.app.blocks import (
    MEMORY,
    TOOLS_KEYS,
    TOP_KEYS,
    MemoryOptions,
    PluginEntry,
    ServerBlock,
    SessionsBlock,
    is_config,
)
from toolyard.app.secrets import find_secrets, find_variable_defaults, hide_secrets
from toolyard.calls.policy import PolicyOptions
from toolyard.calls.settings import Settings
from toolyard.calls.tracer import TracingOptions
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.links.http.auth_entry import is_blank
from toolyard.model.errors import ConfigError, MalformedSource
from toolyard.model.json_schema import json_type
from toolyard.model.names import find_similar, suggest
from toolyard.parsing import parse_json, parse_yaml, read_bytes
from toolyard.parsing.variables import expand, expand_place
from toolyard.plugins import SESSION_STORES, parameters_of
from toolyard.schema.options import (
    ConfigOption,
    Text,
    Variable,
    check_keys,
    option_type,
    options_of,
    read_given,
    read_option,
    read_options,
    read_value,
)
from toolyard.sources.base import ToolLoader, recognise_document
from toolyard.words.redactor import looks_secret

_WIRED = ("registry", "name", "sessions", "policy", "tracer", "redactor")
"""Options of engines that are set from other parts of the config."""
_ROUTES = ("engines", "sources", "bindings", "default")


def list_wired_options(cls: type) -> tuple[str, ...]:
    """Options of the plugin that a config cannot set, because they come from its other parts."""
    if not issubclass(cls, ToolEngine):
        return ()
    return (*_WIRED, *_ROUTES) if issubclass(cls, MultiToolEngine) else _WIRED


@lru_cache(maxsize=256)
def plugin_options(cls: Any) -> Mapping[str, ConfigOption]:
    """The options that a config may give, by name.

    Description and limits come from the field of the same name in one of the class's `option_structs`, else from the
    annotation: `Annotated[int, Meta(ge=1, description="...")]`.
    """
    hints, hidden = _annotations_of(cls), list_wired_options(cls)
    shared = {key: option for struct in _option_structs_of(cls) for key, option in options_of(struct).items()}
    found: dict[str, ConfigOption] = {}
    for name, parameter in parameters_of(cls).items():
        if name in hidden or parameter.kind is parameter.VAR_KEYWORD:
            continue
        wanted = shared[name].type if name in shared else option_type(hints.get(name, Any))
        if parameter.default is None and all(branch.kind not in ("null", "any") for branch in wanted.all):
            wanted = msgspec.structs.replace(wanted, others=(*wanted.others, option_type(None)))
        needed = parameter.default is parameter.empty
        found[name] = ConfigOption(name, wanted, msgspec.NODEFAULT if needed else parameter.default, needed)
    return found


def read_plugin_options(cls: type, given: Mapping[str, Any], where: str, base: Path | None = None) -> dict[str, Any]:
    """The options converted to the class's types; unknown ones are passed on, for the plugin table to refuse."""
    known = plugin_options(cls)
    return {
        name: read_value(known[name].type if name in known else option_type(Any), value, f"{where}.{name}", base=base)
        for name, value in given.items()
    }


def _option_structs_of(cls: type) -> tuple[type[msgspec.Struct], ...]:
    own: tuple[type[msgspec.Struct], ...] = getattr(cls, "option_structs", ())
    return (Settings, *own) if issubclass(cls, ToolEngine) else own


def _annotations_of(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        try:
            found.update(typing.get_type_hints(init, include_extras=True))
        except (NameError, TypeError):
            continue  # ignore annotations that only type checkers can resolve
    if issubclass(cls, ToolLoader):
        # Their `__init__` accepts any text and checks it; the allowed values are annotated on the attribute.
        declared = typing.get_type_hints(ToolLoader, include_extras=True)
        found |= {name: declared[name] for name in ("on_error", "on_duplicate") if found.get(name) is str}
    return found


T = TypeVar("T")
MAX_CONFIG_BYTES = 4 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml", ".json")
_CATALOG_ONLY = (".jsonl", ".ndjson")
ConfigLike = str | Path | Mapping[str, Any]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A config that was read, with variables expanded; its plugins are not created yet."""

    where: str
    base: Path
    loaders: list[PluginEntry]
    engines: dict[str, PluginEntry] = {}
    enrichments: list[PluginEntry] = []
    sessions: SessionsBlock = SessionsBlock()
    policy: PolicyOptions = PolicyOptions()
    tracing: TracingOptions = TracingOptions()
    server: ServerBlock = ServerBlock()
    secrets: tuple[str, ...] = ()
    """Values that must not appear in errors, logs or traces."""

    def __repr__(self) -> str:
        return f"Config({self.where!r}, {len(self.loaders)} sources, {len(self.engines)} engines)"


def store_names() -> list[str]:
    """The names of session stores."""
    return [MEMORY, *SESSION_STORES.names()]


def options_of_store(store: str) -> Mapping[str, ConfigOption]:
    """Options in a `sessions` block that are specific to that store."""
    if store == MEMORY:
        return options_of(MemoryOptions)
    cls: type = SESSION_STORES.get(store)
    return plugin_options(cls)


def common_options() -> dict[str, ConfigOption]:
    """Options in a `sessions` block for all stores."""
    known = options_of(SessionsBlock)
    return {key: known[key] for key in ("store", "ttl", "max_open")}


def read_sessions(block: Mapping[str, Any], where: str, base: Path) -> SessionsBlock:
    """Check a `sessions` block; relative paths are resolved against `base`."""
    store = str(read_option(SessionsBlock, "store", block.get("store", MEMORY), f"{where}.store"))
    if store != MEMORY and store not in SESSION_STORES:
        raise ConfigError(
            f"{where}.store: no such choice {store[:80]!r}; {suggest(store, store_names(), 'write one of ')}"
        )
    own, common = options_of_store(store), common_options()
    for key in block:
        owners = [] if key in own or key in common else [one for one in store_names() if key in options_of_store(one)]
        if owners:
            raise ConfigError(f"{where}.{key}: is for store: {owners[0]}, and the store is {store}")
    given = read_given({**common, **own}, {"store": store, **_located_defaults(own), **block}, where, base=base)
    for key, option in own.items():
        if option.required and key not in given:
            raise ConfigError(f"{where}: store: {store} needs a {key}: {option.description}")
    options = {key: given.pop(key) for key in list(given) if key in own}
    return SessionsBlock(options=options, **given)


def _located_defaults(options: Mapping[str, ConfigOption]) -> dict[str, Any]:
    """Default paths, so that they are resolved against the config's folder as well."""
    return {
        key: option.default
        for key, option in options.items()
        if option.type.extra_value("locate") and not option.required
    }


def read_config_file(path: Path) -> Any:
    """The parsed document, before variables are expanded."""
    data = read_bytes(path, max_bytes=MAX_CONFIG_BYTES)
    parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
    try:
        return parse(data, what=str(path))
    except MalformedSource as error:
        if path.suffix.lower() in _SUFFIXES:
            raise
        raise ConfigError(f"{error}; a config is written in YAML or JSON") from None


def read_config(document: Any, *, base: Path, where: str = "config", env: Mapping[str, str] | None = None) -> Config:
    """Read a parsed document; relative paths are resolved against `base`."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: a config is a mapping with a 'tools' key, not {json_type(document)}")
    reader = _ConfigReader(where, base, env, find_variable_defaults(document))
    # The list is evaluated when an error is raised, and then contains the secrets found so far.
    with hide_secrets(reader.secrets):
        return reader.read(dict(document))


def read_anything(config: ConfigLike, *, env: Mapping[str, str] | None = None) -> Config:
    """Read a config from a file or a mapping; a catalog or a Python file becomes a config with one source."""
    if isinstance(config, Mapping):
        return read_config(config, base=Path(), env=env)
    path = Path(expand_place(config, "config"))
    if path.suffix == ".py":
        return Config(where=str(path), base=Path(), loaders=[PluginEntry("python", {"target": str(path)}, str(path))])
    document = read_config_file(path) if _may_be_config(path) else None
    if not is_config(document) or recognise_document(document) is not None:
        source = PluginEntry("file", {"path": str(path)}, str(path))
        # Not the catalog's folder, since its path is already relative to the working directory.
        return Config(where=str(path), base=Path(), loaders=[source])
    return read_config(document, base=path.parent, where=str(path), env=env)


def _may_be_config(path: Path) -> bool:
    # Catalogs may have hundreds of megabytes and are parsed once, by their loader; configs are never that large.
    if path.suffix.lower() in _CATALOG_ONLY:
        return False
    try:
        return path.stat().st_size <= MAX_CONFIG_BYTES
    except OSError:
        return True


class _ConfigReader:
    """Reads one document, and collects the secrets in it."""

    def __init__(self, where: str, base: Path, env: Mapping[str, str] | None, defaults: set[str]) -> None:
        self.where = where
        self.base = base
        self.env = env
        self.defaults = defaults
        self.secrets: list[str] = []

    def read(self, document: dict[str, Any]) -> Config:
        if inner := next((key for key in TOOLS_KEYS if key in document), None):
            beside = "" if inner == "registry" else ", beside 'registry', the sources"
            raise ConfigError(f"{self.where}: unknown key {inner!r}; it stands under 'tools'{beside}")
        check_keys(document, TOP_KEYS, self.where)
        tools = document.get("tools")
        tools = {"registry": tools} if isinstance(tools, list) else tools
        if not isinstance(tools, dict):
            must = "must be a list or a mapping of sources, such as - {type: python, target: my_tools.py}"
            raise ConfigError(f"{self.where}: 'tools' {must}, not {json_type(tools)}")
        check_keys(tools, TOOLS_KEYS, f"{self.where}: tools")
        engines = self.read_engines(tools.get("engines"))
        enrichments = tools.get("enrichments")
        return Config(
            where=self.where,
            base=self.base,
            loaders=self.read_sources(tools.get("registry"), engines),
            engines=engines,
            enrichments=self.read_plugins([] if enrichments is None else enrichments, "tools.enrichments"),
            sessions=read_sessions(self.expand_block(document, "sessions"), f"{self.where}: sessions", self.base),
            policy=self.read_block(document, "policy", PolicyOptions),
            tracing=self.read_block(document, "tracing", TracingOptions),
            server=self.read_block(document, "server", ServerBlock),
            secrets=tuple(dict.fromkeys(self.secrets)),
        )

    def read_block(self, document: Mapping[str, Any], key: str, struct: type[T]) -> T:
        """The block under that key, which may be missing or empty."""
        return read_options(struct, self.expand_block(document, key), f"{self.where}: {key}")

    def expand_block(self, document: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = document.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where}: {key} must be a mapping, not {json_type(value)}")
        return self.expand_variables(value, f"{self.where}: {key}")

    def read_sources(self, items: Any, engines: dict[str, PluginEntry]) -> list[PluginEntry]:
        if not isinstance(items, list):
            raise ConfigError(f"{self.where}: tools.registry must be a list of sources, not {json_type(items)}")
        found = []
        for entry, item in zip(self.read_plugins(items, "tools.registry", but="engine"), items, strict=True):
            engine = item.get("engine")
            if engine is not None and (not isinstance(engine, str) or engine not in engines):
                known = f"({', '.join(engines) or 'none'}), where each has its name: {{NAME: {{type: lm, ...}}}}"
                raise ConfigError(f"{entry.where}: engine {engine!r} is not among tools.engines {known}")
            if engine is None and entry.type == "rest" and (auth := entry.options.get("auth")) and not is_blank(auth):
                # Use the source's credential for calls as well, in a copy of the configured `rest` engine.
                engine, rest = entry.where.removeprefix(f"{self.where}: "), engines.get("rest")
                options = rest.options if rest is not None and rest.type == "rest" else {}
                engines[engine] = PluginEntry("rest", {**options, "auth": auth}, entry.where)
            found.append(msgspec.structs.replace(entry, engine=engine))
        return found

    def read_engines(self, block: Any) -> dict[str, PluginEntry]:
        if block is not None and not isinstance(block, dict):
            raise ConfigError(f"{self.where}: tools.engines must be a mapping, not {json_type(block)}")
        found: dict[str, PluginEntry] = {}
        for name, options in (block or {}).items():
            place = f"{self.where}: tools.engines.{name}"
            found[read_value(option_type(Text), name, place)] = self.read_plugin(options, place)
        return found

    def read_plugins(self, items: Any, key: str, but: str | None = None) -> list[PluginEntry]:
        where = f"{self.where}: {key}"
        listed = read_value(option_type(list[Any]), items, where)
        return [self.read_plugin(item, f"{where}[{index}]", but) for index, item in enumerate(listed)]

    def read_plugin(self, item: Any, place: str, but: str | None = None) -> PluginEntry:
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            near = (
                [key for key in find_similar("type", map(str, item)) if key != "type"] if isinstance(item, dict) else []
            )
            meant = f"; did you mean that by {near[0]!r}?" if near else ""
            raise ConfigError(f"{place}: needs a 'type', the name of what is to be made: {{type: ..., ...}}{meant}")
        options = {key: value for key, value in item.items() if key not in ("type", but)}
        return PluginEntry(item["type"], self.expand_variables(options, place), place)

    def expand_variables(self, value: dict[str, Any], place: str) -> dict[str, Any]:
        made: dict[str, Any] = expand(value, where=place, env=self.env, found=self.note_variable, whole=Variable)
        self.collect_secrets(made, secret=False)
        return made

    def note_variable(self, name: str, value: str, default: bool) -> None:
        if not default:
            self.secrets += find_secrets(name, value, defaults=self.defaults, base=self.base)
        elif looks_secret(name):
            self.secrets.append(value)

    def collect_secrets(self, value: Any, *, secret: bool) -> None:
        """Collect every text under a key that indicates a secret."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.collect_secrets(item, secret=secret or looks_secret(str(key)))
        elif isinstance(value, list):
            for item in value:
                self.collect_secrets(item, secret=secret)
        elif secret and isinstance(value, str):
            self.secrets.append(value)
