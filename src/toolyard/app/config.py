"""The `tools:` block: which sources make up a registry."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolyard.app.env import expand
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type
from toolyard.parsing import parse_json, parse_yaml, read_bytes

_log = logging.getLogger(__name__)

_TOP_KEYS = ("tools", "sessions", "policy", "tracing", "server")
_TOOLS_KEYS = ("registry", "engines", "enrichments")
_KINDS = {dict: "a mapping", list: "a list"}

MAX_CONFIG_BYTES = 4 * 1024 * 1024


class LoaderEntry(msgspec.Struct, frozen=True):
    """One entry of `tools.registry`: a loader type and its options."""

    type: str
    options: dict[str, Any]
    where: str


def read_config_file(path: Path) -> Any:
    """The parsed document, variables not yet expanded."""
    data = read_bytes(path, max_bytes=MAX_CONFIG_BYTES)
    parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
    return parse(data, what=str(path))


def is_config(document: Any) -> bool:
    """True for a config, False for a catalog: a config's `tools` says where tools come from."""
    if not isinstance(document, dict) or "tools" not in document:
        return False
    tools = document["tools"]
    if isinstance(tools, dict):
        # As a catalog this would map names to definitions.
        return "registry" in tools or not all(isinstance(value, dict) for value in tools.values())
    return isinstance(tools, list) and all(
        isinstance(item, dict) and "type" in item and "name" not in item for item in tools
    )


def registry_entries(
    document: Any, *, base: Path, where: str = "config", env: Mapping[str, str] | None = None
) -> list[LoaderEntry]:
    """The loaders a config names, checked; relative paths are taken from the config's folder."""
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: a config is a mapping with a 'tools' key, not {json_type(document)}")
    _known_keys(document, _TOP_KEYS, where)
    tools = document.get("tools")
    block = {"registry": tools} if isinstance(tools, list) else tools
    if not isinstance(block, dict):
        raise ConfigError(f"{where}: 'tools' must be a list or a mapping, not {json_type(tools)}")
    _known_keys(block, _TOOLS_KEYS, f"{where}: tools")
    items = block.get("registry")
    if not isinstance(items, list):
        raise ConfigError(f"{where}: tools.registry must be a list of sources, not {json_type(items)}")
    for key, kinds in (("engines", dict), ("enrichments", list)):
        if block.get(key) is not None and not isinstance(block[key], kinds):
            raise ConfigError(f"{where}: tools.{key} must be {_KINDS[kinds]}, not {json_type(block[key])}")
    for key in _TOP_KEYS[1:]:
        if document.get(key) is not None and not isinstance(document[key], dict):
            raise ConfigError(f"{where}: {key} must be a mapping, not {json_type(document[key])}")
    unread = [key for key in _TOP_KEYS[1:] if document.get(key)] + [
        f"tools.{key}" for key in _TOOLS_KEYS[1:] if block.get(key)
    ]
    if unread:
        _log.warning("%s: %s: checked, but nothing here acts on it yet", where, ", ".join(unread))
    engines = block.get("engines") or {}
    return [_entry(item, index, base, where, engines, env) for index, item in enumerate(items)]


def _entry(
    item: Any, index: int, base: Path, where: str, engines: Mapping[str, Any], env: Mapping[str, str] | None
) -> LoaderEntry:
    place = f"{where}: tools.registry[{index}]"
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        raise ConfigError(f"{place}: each source needs a 'type', such as file, inline or python")
    options = expand({key: value for key, value in item.items() if key not in ("type", "engine")}, where=place, env=env)
    for option in ("path", "target"):
        value = options.get(option)
        if option == "path" and value is not None and not isinstance(value, str):
            raise ConfigError(f"{place}: path must be text, not {json_type(value)}")
        if isinstance(value, str) and (option == "path" or value.endswith(".py")):
            options[option] = str(base / value)
    engine = item.get("engine")
    if engine is not None and (not isinstance(engine, str) or engine not in engines):
        raise ConfigError(f"{place}: engine {engine!r} is not among tools.engines ({', '.join(engines) or 'none'})")
    return LoaderEntry(item["type"], options, place)


def _known_keys(block: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in block:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
