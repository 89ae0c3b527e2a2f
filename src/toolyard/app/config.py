"""The config: the `tools:` block, and what stands beside it. Read strictly; nothing is opened here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolyard.app.env import Variable, defaults_in, expand
from toolyard.app.hiding import hiding, secrets_in
from toolyard.app.kind import TOOLS_KEYS, TOP_KEYS
from toolyard.app.options import typed
from toolyard.app.server_block import SERVER_SCHEMA, ServerBlock, read_server
from toolyard.app.sessions_block import SESSIONS_SCHEMA, SessionsBlock, read_sessions
from toolyard.calls.blocks import read_list, read_mapping, read_text
from toolyard.calls.policy import POLICY_SCHEMA
from toolyard.calls.redact import looks_secret
from toolyard.calls.tracing import TRACING_SCHEMA
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type
from toolyard.parsing import parse_json, parse_yaml, read_bytes

MAX_CONFIG_BYTES = 4 * 1024 * 1024
_FILES = ("ca", "cert")
_CONNECTS: dict[str, tuple[str, ...]] = {
    "mcp": ("cwd", "roots", "approved"),
    "mcp_config": ("approved",),
    "replay": ("cassette",),
}
"""What else is a file or folder, by the type of a plugin."""
_PAIR = 2
_GGUF = ".gguf"
"""How the name of a file ends that is a language model."""


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin by its registered name, its options, and where the config asks for it."""

    type: str
    options: dict[str, Any]
    where: str
    engine: str | None = None
    """Of a loader: the engine that answers its tools."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A config that was read, with variables replaced; every plugin still to be made."""

    where: str
    base: Path
    loaders: list[PluginEntry]
    engines: dict[str, PluginEntry] = {}
    enrichments: list[PluginEntry] = []
    sessions: SessionsBlock = SessionsBlock()
    policy: dict[str, Any] = {}
    tracing: dict[str, Any] = {}
    server: ServerBlock = ServerBlock()
    secrets: tuple[str, ...] = ()
    """Values that must not show up in an error, a log or a trace."""

    def __repr__(self) -> str:
        return f"Config({self.where!r}, {len(self.loaders)} sources, {len(self.engines)} engines)"


def located_files(kind: str, options: dict[str, Any], base: Path) -> dict[str, Any]:
    """The options with files and folders that belong to a connection taken from the config's folder."""
    for key in (*_FILES, *_CONNECTS.get(kind, ())):
        value = options.get(key)
        if isinstance(value, str):
            options[key] = str(base / value)
        elif isinstance(value, list) and all(isinstance(part, str) for part in value):
            # Certificate and key are files; a third text is the key's password.
            count = _PAIR if key == "cert" else len(value)
            options[key] = [str(base / part) for part in value[:count]] + value[count:]
    auth = options.get("auth")
    if kind in _CONNECTS and isinstance(auth, dict) and isinstance(auth.get("store"), str):
        options["auth"] = {**auth, "store": str(base / auth["store"])}
    model = options.get("lm_config")
    if isinstance(model, dict):
        files = (
            "ca",
            "journal",
            *(("model_id_or_path",) if str(model.get("model_id_or_path")).endswith(_GGUF) else ()),
        )
        located = {key: str(base / model[key]) for key in files if isinstance(model.get(key), str)}
        options["lm_config"] = {**model, **located}
    return options


def read_config_file(path: Path) -> Any:
    """The parsed document, variables not yet expanded."""
    data = read_bytes(path, max_bytes=MAX_CONFIG_BYTES)
    parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
    return parse(data, what=str(path))


def read_config(document: Any, *, base: Path, where: str = "config", env: Mapping[str, str] | None = None) -> Config:
    """A parsed document as a config; relative paths are taken from the config's folder."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: a config is a mapping with a 'tools' key, not {json_type(document)}")
    reader = _Reader(where, base, env, defaults_in(document))
    # The list is read when an error passes: what was collected until then stays out of its text.
    with hiding(reader.secrets):
        return _read(dict(document), reader)


def _read(document: dict[str, Any], reader: _Reader) -> Config:
    where = reader.where
    block = read_mapping(document, TOP_KEYS, where)
    tools = block.get("tools")
    tools = {"registry": tools} if isinstance(tools, list) else tools
    if not isinstance(tools, dict):
        raise ConfigError(f"{where}: 'tools' must be a list or a mapping, not {json_type(tools)}")
    read_mapping(tools, TOOLS_KEYS, f"{where}: tools")
    engines = reader.engines(tools.get("engines"))
    enrichments = tools.get("enrichments")
    return Config(
        where=where,
        base=reader.base,
        loaders=reader.loaders(tools.get("registry"), engines),
        engines=engines,
        enrichments=reader.plugins([] if enrichments is None else enrichments, "tools.enrichments"),
        sessions=read_sessions(reader.block(block, "sessions", SESSIONS_SCHEMA), f"{where}: sessions", reader.base),
        policy=reader.block(block, "policy", POLICY_SCHEMA),
        tracing=reader.block(block, "tracing", TRACING_SCHEMA),
        server=read_server(reader.block(block, "server", SERVER_SCHEMA), f"{where}: server"),
        secrets=tuple(dict.fromkeys(reader.secrets)),
    )


class _Reader:
    def __init__(self, where: str, base: Path, env: Mapping[str, str] | None, defaults: set[str]) -> None:
        self.where = where
        self.base = base
        self.env = env
        self.defaults = defaults
        self.secrets: list[str] = []

    def block(self, document: Mapping[str, Any], key: str, schema: dict[str, Any]) -> dict[str, Any]:
        value = document.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where}: {key} must be a mapping, not {json_type(value)}")
        block: dict[str, Any] = typed(self.expanded(value, f"{self.where}: {key}"), schema)
        return block

    def loaders(self, items: Any, engines: Mapping[str, Any]) -> list[PluginEntry]:
        if not isinstance(items, list):
            raise ConfigError(f"{self.where}: tools.registry must be a list of sources, not {json_type(items)}")
        found = []
        for entry, item in zip(self.plugins(items, "tools.registry", but="engine"), items, strict=True):
            engine = item.get("engine")
            if engine is not None and (not isinstance(engine, str) or engine not in engines):
                known = ", ".join(engines) or "none"
                raise ConfigError(f"{entry.where}: engine {engine!r} is not among tools.engines ({known})")
            found.append(msgspec.structs.replace(entry, engine=engine, options=self.located(entry)))
        return found

    def engines(self, block: Any) -> dict[str, PluginEntry]:
        if block is not None and not isinstance(block, dict):
            raise ConfigError(f"{self.where}: tools.engines must be a mapping, not {json_type(block)}")
        found: dict[str, PluginEntry] = {}
        for name, options in (block or {}).items():
            place = f"{self.where}: tools.engines.{name}"
            found[read_text(name, place)] = self.plugin(options, place)
        return found

    def plugins(self, items: Any, key: str, but: str | None = None) -> list[PluginEntry]:
        where = f"{self.where}: {key}"
        return [self.plugin(item, f"{where}[{index}]", but) for index, item in enumerate(read_list(items, where))]

    def plugin(self, item: Any, place: str, but: str | None = None) -> PluginEntry:
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            raise ConfigError(f"{place}: needs a 'type', the name of what is to be made")
        options = {key: value for key, value in item.items() if key not in ("type", but)}
        return PluginEntry(item["type"], self.expanded(options, place), place)

    def expanded(self, value: dict[str, Any], place: str) -> dict[str, Any]:
        made: dict[str, Any] = expand(value, where=place, env=self.env, found=self._saw, whole=Variable)
        self._collect(made, secret=False)
        return made

    def located(self, entry: PluginEntry) -> dict[str, Any]:
        """The options with relative paths taken from the config's folder."""
        options = dict(entry.options)
        for option in ("path", "target", "spec", "ref_root"):
            value = options.get(option)
            if option == "path" and value is not None and not isinstance(value, str):
                raise ConfigError(f"{entry.where}: path must be text, not {json_type(value)}")
            if isinstance(value, str) and (
                option == "path" or (value.endswith(".py") if option == "target" else "://" not in value)
            ):
                options[option] = str(self.base / value)
        return located_files(entry.type, options, self.base) if entry.type in _CONNECTS else options

    def _saw(self, name: str, value: str, default: bool) -> None:
        if not default:
            self.secrets += secrets_in(name, value, defaults=self.defaults, base=self.base)
        elif looks_secret(name):
            self.secrets.append(value)

    def _collect(self, value: Any, *, secret: bool) -> None:
        """Every text under a key that says it is a secret."""
        if isinstance(value, dict):
            for key, item in value.items():
                self._collect(item, secret=secret or looks_secret(str(key)))
        elif isinstance(value, list):
            for item in value:
                self._collect(item, secret=secret)
        elif secret and isinstance(value, str):
            self.secrets.append(value)
