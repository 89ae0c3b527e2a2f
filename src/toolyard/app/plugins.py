"""A plugin that a config asks for: its options, read off its constructor, and the object made of them."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from toolyard.calls.settings import Settings
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.model.errors import ConfigError, PluginError
from toolyard.model.json_words import nearest
from toolyard.plugins import LOADERS, PluginTable
from toolyard.plugins.table import check_options, parameters_of
from toolyard.schema.options import ConfigOption, option_type, options_of, read_value
from toolyard.sources.base import ToolLoader

WIRED = ("registry", "name", "sessions", "policy", "tracer", "redactor")
"""Options of engines that come from the rest of the config."""
_ROUTES = ("engines", "sources", "bindings", "default")


def wired_options(cls: type) -> tuple[str, ...]:
    """What a config cannot set of this plugin, because it is made of other parts."""
    if not issubclass(cls, ToolEngine):
        return ()
    return (*WIRED, *_ROUTES) if issubclass(cls, MultiToolEngine) else WIRED


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin by its registered name, its options, and where the config asks for it."""

    type: str
    options: dict[str, Any]
    where: str
    engine: str | None = None
    """Of a loader: the engine that answers its tools."""


@lru_cache(maxsize=256)
def plugin_options(cls: Any) -> Mapping[str, ConfigOption]:
    """Each option a config may give, by its name.

    What it is for and its limits are said by the field of the same name in a struct of the class's `option_structs`, or
    else by its annotation: `Annotated[int, Meta(ge=1, description="...")]`.
    """
    hints, hidden = _hints_of(cls), wired_options(cls)
    shared = {key: option for struct in _structs_of(cls) for key, option in options_of(struct).items()}
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
    """The options as the class wants them; what it does not know is handed on, for the plugin's table to refuse."""
    known = plugin_options(cls)
    return {
        name: read_value(known[name].type if name in known else option_type(Any), value, f"{where}.{name}", base=base)
        for name, value in given.items()
    }


def make_plugin(
    table: PluginTable[Any],
    entry: PluginEntry,
    base: Path,
    *,
    given: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
) -> Any:
    """What an entry of a config asks for. `given` are its options, if they are others; `made` are parts of ours."""
    options = dict(entry.options if given is None else given)
    try:
        cls = table.get(entry.type)
        if table is LOADERS:
            _check_engine_is_spelt(cls, entry)
        check_options(cls, {**(made or {}), **options}, f"{table.kind} {entry.type!r}")
    except (ConfigError, PluginError) as error:
        raise ConfigError(f"{entry.where}: {error}") from None
    read = read_plugin_options(cls, options, entry.where, base)
    try:
        return cls(**(made or {}), **read)
    except (ConfigError, PluginError) as error:
        raise ConfigError(f"{entry.where}: {error}") from None


def _check_engine_is_spelt(cls: type, entry: PluginEntry) -> None:
    """`engine` is a key of every source and no option of its loader, which could not hint at it."""
    known = parameters_of(cls)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for option in entry.options:
        if option not in known and nearest(option, [*known, "engine"]) == ["engine"]:
            raise ConfigError(f"tool loader {entry.type!r} has no option {option!r}; did you mean 'engine'?")


def _structs_of(cls: type) -> tuple[type[msgspec.Struct], ...]:
    own: tuple[type[msgspec.Struct], ...] = getattr(cls, "option_structs", ())
    return (Settings, *own) if issubclass(cls, ToolEngine) else own


def _hints_of(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        try:
            found.update(typing.get_type_hints(init, include_extras=True))
        except (NameError, TypeError):
            continue  # an annotation that only type checkers can resolve says nothing here
    if issubclass(cls, ToolLoader):
        # Their `__init__` takes any text and refuses the wrong one; the attribute says which are right.
        declared = typing.get_type_hints(ToolLoader, include_extras=True)
        found |= {name: declared[name] for name in ("on_error", "on_duplicate") if found.get(name) is str}
    return found
