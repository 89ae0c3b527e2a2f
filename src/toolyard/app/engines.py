"""The engines a config names, those that others simulate with first."""

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

Make = Callable[[PluginEntry, str, dict[str, Any]], ToolEngine]


def make_engines(config: Config, make: Make, undo: ExitStack) -> dict[str, ToolEngine]:
    """Every engine by its name, in the order of the config."""
    made: dict[str, ToolEngine] = {}
    # Those that name another come last: what stands in for them is there by then.
    for name, entry in sorted(config.engines.items(), key=lambda item: item[1].options.get(_WITH) is not None):
        options = located_files(entry.type, dict(entry.options), config.base)
        if options.get(_WITH) is not None:
            plain = {other: made[other] for other in made if config.engines[other].options.get(_WITH) is None}
            options[_WITH] = _meant(options[_WITH], entry, config, plain)
        made[name] = make(entry, name, options)
        undo.callback(made[name].close)
    return {name: made[name] for name in config.engines}


def stand_ins(engines: Mapping[str, ToolEngine]) -> Iterator[ToolEngine]:
    """Engines that others simulate with."""
    for engine in engines.values():
        if isinstance(engine, OutwardEngine) and engine.simulate_with is not None:
            yield engine.simulate_with


def _meant(name: Any, entry: PluginEntry, config: Config, made: Mapping[str, ToolEngine]) -> ToolEngine:
    if isinstance(name, str) and name in made:
        return made[str(name)]
    where = f"{entry.where}.{_WITH}"
    if isinstance(name, str) and name in config.engines:
        raise ConfigError(f"{where}: {name!r} reaches outside itself, so nothing is gained")
    near = difflib.get_close_matches(str(name), config.engines, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(config.engines) or 'none'}"
    raise ConfigError(f"{where}: no engine is called {name!r}; {hint}")
