"""The config: the `tools:` block, and what stands beside it. Read strictly; nothing is opened here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolyard.app.config_or_catalog import TOOLS_KEYS, TOP_KEYS
from toolyard.app.entry import PluginEntry
from toolyard.app.env import expand, find_defaults
from toolyard.app.secrets import find_secrets, hide_secrets
from toolyard.app.server_block import ServerBlock
from toolyard.app.sessions_block import SessionsBlock, read_sessions
from toolyard.calls.policy import PolicyOptions
from toolyard.calls.tracer import TracingOptions
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type
from toolyard.parsing import parse_json, parse_yaml, read_bytes
from toolyard.schema.options import Text, Variable, check_keys, option_type, read_options, read_value
from toolyard.words.redactor import looks_secret

T = TypeVar("T")
MAX_CONFIG_BYTES = 4 * 1024 * 1024


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
