"""The config: the `tools:` block and what stands beside it, with `${VAR}` replaced. Read strictly; nothing is opened.

A catalog is told from a config here, too: a misspelt key must not turn the one into the other and lose the policy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolyard.app.blocks import ServerBlock, SessionsBlock, read_sessions
from toolyard.app.plugins import PluginEntry
from toolyard.app.secrets import find_secrets, hide_secrets
from toolyard.calls.policy import PolicyOptions
from toolyard.calls.tracer import TracingOptions
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type, nearest
from toolyard.parsing import parse_json, parse_yaml, read_bytes
from toolyard.schema.options import Text, Variable, check_keys, option_type, read_options, read_value
from toolyard.words.redactor import looks_secret

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

Found = Callable[[str, str, bool], None]


def expand(
    value: Any,
    *,
    where: str = "config",
    env: Mapping[str, str] | None = None,
    found: Found | None = None,
    whole: Callable[[str], Any] = str,
) -> Any:
    """The value with variables replaced in every text inside; an unset one without default is an error.

    `found` is told each variable, what it stood for, and whether that is its default. `whole` makes something
    of a text that was one variable and nothing else.
    """
    env = os.environ if env is None else env
    if isinstance(value, str):
        if "${" in _VARIABLE.sub("", value):
            raise ConfigError(f"{where}: '${{' without a variable; write ${{NAME}} or ${{NAME:-default}}")
        text = _VARIABLE.sub(lambda match: _replace_variable(match, where, env, found), value)
        return whole(text) if _VARIABLE.fullmatch(value) else text
    options: dict[str, Any] = {"env": env, "found": found, "whole": whole}
    if isinstance(value, dict):
        return {key: expand(item, where=f"{where}.{key}", **options) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, where=f"{where}[{index}]", **options) for index, item in enumerate(value)]
    return value


def find_defaults(value: Any) -> set[str]:
    """Every default that variables have in a config, wherever they stand."""
    if isinstance(value, str):
        return {match[2] for match in _VARIABLE.finditer(value) if match[2]}
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {default for item in items for default in find_defaults(item)}


def _replace_variable(match: re.Match[str], where: str, env: Mapping[str, str], found: Found | None) -> str:
    name, default = match.group(1), match.group(2)
    value = env.get(name, default)
    if value is None:
        raise ConfigError(f"{where}: the variable {name} is not set; export it or write ${{{name}:-default}}")
    if found is not None:
        found(name, value, name not in env)
    return value


TOP_KEYS = ("tools", "sessions", "policy", "tracing", "server")
TOOLS_KEYS = ("registry", "engines", "enrichments")

_BLOCKS = TOP_KEYS[1:]
_CUTOFF = 0.75
_DEFINES = frozenset(
    {
        *("name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema"),
        *("output_parameters", "output_schema", "outputSchema", "responseJsonSchema", "returns"),
        *("function", "effects", "tags", "aliases", "metadata", "annotations", "strict"),
    }
)
"""Keys that a tool definition has and no block of a config."""


def is_config(document: Any) -> bool:
    """True for a config, False for a catalog, judged by keys as meant and by what stands under them."""
    if not isinstance(document, Mapping) or isinstance(document.get("name"), str):
        return False
    return any(_is_tools(key, value) or _is_block(key, value) for key, value in document.items())


def _is_tools(key: Any, value: Any) -> bool:
    """A config's `tools` says where tools come from; a catalog's holds them."""
    exact = key == "tools"
    if not exact and not _resembles_key(key, ("tools",)):
        return False
    if isinstance(value, list):
        return (exact or bool(value)) and all(_is_source(item) for item in value)
    if not isinstance(value, dict):
        return False
    if any(_resembles_key(inner, TOOLS_KEYS) and not _is_definition(item) for inner, item in value.items()):
        return True
    # As a catalog this would map names to definitions.
    return exact and not all(isinstance(item, dict) for item in value.values())


def _is_block(key: Any, value: Any) -> bool:
    """A mapping under a block's name, or nearly its name. Lists there are tools of a namespace of that name."""
    if not isinstance(value, dict) or not _resembles_key(key, _BLOCKS) or _is_definition(value):
        return False
    if not value:
        return key in _BLOCKS
    return not all(_is_definition(item) for item in value.values())


def _is_source(item: Any) -> bool:
    return isinstance(item, dict) and "type" in item and "name" not in item and "function" not in item


def _is_definition(value: Any) -> bool:
    return isinstance(value, dict) and not _DEFINES.isdisjoint(value)


def _resembles_key(key: Any, names: Sequence[str]) -> bool:
    return bool(nearest(str(key).lower(), names, cutoff=_CUTOFF))


T = TypeVar("T")
MAX_CONFIG_BYTES = 4 * 1024 * 1024
_CATALOG_ONLY = (".jsonl", ".ndjson")
ConfigLike = str | Path | Mapping[str, Any]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A config that was read, with variables replaced; every plugin still to be made."""

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
    """Values that must not show up in an error, a log or a trace."""

    def __repr__(self) -> str:
        return f"Config({self.where!r}, {len(self.loaders)} sources, {len(self.engines)} engines)"


def read_config_file(path: Path) -> Any:
    """The parsed document, variables not yet expanded."""
    data = read_bytes(path, max_bytes=MAX_CONFIG_BYTES)
    parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
    return parse(data, what=str(path))


def read_config(document: Any, *, base: Path, where: str = "config", env: Mapping[str, str] | None = None) -> Config:
    """A parsed document as a config; relative paths are taken from the config's folder."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: a config is a mapping with a 'tools' key, not {json_type(document)}")
    reader = _ConfigReader(where, base, env, find_defaults(document))
    # The list is read when an error passes: what was collected until then stays out of its text.
    with hide_secrets(reader.secrets):
        return reader.read(dict(document))


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


class _ConfigReader:
    """Reads one document, and collects the secrets in it."""

    def __init__(self, where: str, base: Path, env: Mapping[str, str] | None, defaults: set[str]) -> None:
        self.where = where
        self.base = base
        self.env = env
        self.defaults = defaults
        self.secrets: list[str] = []

    def read(self, document: dict[str, Any]) -> Config:
        check_keys(document, TOP_KEYS, self.where)
        tools = document.get("tools")
        tools = {"registry": tools} if isinstance(tools, list) else tools
        if not isinstance(tools, dict):
            raise ConfigError(f"{self.where}: 'tools' must be a list or a mapping, not {json_type(tools)}")
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
        """The block of that key, which may be left out or empty."""
        return read_options(struct, self.expand_block(document, key), f"{self.where}: {key}")

    def expand_block(self, document: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = document.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where}: {key} must be a mapping, not {json_type(value)}")
        return self.expand_variables(value, f"{self.where}: {key}")

    def read_sources(self, items: Any, engines: Mapping[str, Any]) -> list[PluginEntry]:
        if not isinstance(items, list):
            raise ConfigError(f"{self.where}: tools.registry must be a list of sources, not {json_type(items)}")
        found = []
        for entry, item in zip(self.read_plugins(items, "tools.registry", but="engine"), items, strict=True):
            engine = item.get("engine")
            if engine is not None and (not isinstance(engine, str) or engine not in engines):
                known = ", ".join(engines) or "none"
                raise ConfigError(f"{entry.where}: engine {engine!r} is not among tools.engines ({known})")
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
            raise ConfigError(f"{place}: needs a 'type', the name of what is to be made")
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
        """Every text under a key that says it is a secret."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.collect_secrets(item, secret=secret or looks_secret(str(key)))
        elif isinstance(value, list):
            for item in value:
                self.collect_secrets(item, secret=secret)
        elif secret and isinstance(value, str):
            self.secrets.append(value)
