"""The options that a config may give to a plugin, derived from its class."""

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
from toolyard.plugins import parameters_of
from toolyard.schema.options import ConfigOption, option_type, options_of, read_value
from toolyard.sources.base import ToolLoader

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
