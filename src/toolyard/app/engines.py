"""The engines a config names, those that others name first."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from toolyard.app.config import Config, PluginEntry, located_files
from toolyard.engines.base import ToolEngine
from toolyard.engines.outward import OutwardEngine
from toolyard.model.errors import ConfigError

_WITH = "simulate_with"
_BEHIND = "engine"
_RECORDS = "replay"
"""The type of engine that has another behind it."""

Make = Callable[[PluginEntry, str, dict[str, Any]], ToolEngine]


def make_engines(config: Config, make: Make, undo: ExitStack) -> dict[str, ToolEngine]:
    """Every engine by its name, in the order of the config."""
    made: dict[str, ToolEngine] = {}

    def one(name: str, asking: tuple[str, ...]) -> ToolEngine:
        if name in made:
            return made[name]
        entry = config.engines[name]
        options = located_files(entry.type, dict(entry.options), config.base)
        for option in (_WITH, _BEHIND) if entry.type == _RECORDS else (_WITH,):
            if options.get(option) is not None:
                other = _meant(options[option], f"{entry.where}.{option}", config)
                _check_gain(other, option, entry, config, (*asking, name))
                options[option] = one(other, (*asking, name))
        made[name] = make(entry, name, options)
        undo.callback(made[name].close)
        return made[name]

    return {name: one(name, ()) for name in config.engines}


def stand_ins(engines: Mapping[str, ToolEngine]) -> Iterator[ToolEngine]:
    """Engines that others simulate with, or record."""
    for engine in engines.values():
        if isinstance(engine, OutwardEngine) and engine.simulate_with is not None:
            yield engine.simulate_with
        behind = getattr(engine, "behind", None)
        if isinstance(behind, ToolEngine):
            yield behind


def _meant(name: Any, where: str, config: Config) -> str:
    if isinstance(name, str) and name in config.engines:
        return str(name)
    near = difflib.get_close_matches(str(name), config.engines, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(config.engines) or 'none'}"
    raise ConfigError(f"{where}: no engine is called {name!r}; {hint}")


def _check_gain(other: str, option: str, entry: PluginEntry, config: Config, asking: tuple[str, ...]) -> None:
    """Refuse what stands in for itself, and what itself needs somebody to stand in for it."""
    if option == _WITH and config.engines[other].options.get(_WITH) is not None:
        raise ConfigError(f"{entry.where}.{option}: {other!r} reaches outside itself, so nothing is gained")
    if other in asking:
        raise ConfigError(f"{entry.where}.{option}: {other!r} comes back to itself, so nobody would answer")
