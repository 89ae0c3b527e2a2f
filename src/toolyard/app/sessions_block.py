"""The `sessions` block: where sessions live, for how long, and how many there may be.

A store is a class in `plugins.kinds.SESSION_STORES`; its options are keys of the block while it is the one chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolyard.app.plugin_options import plugin_options
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import suggest
from toolyard.plugins.kinds import SESSION_STORES
from toolyard.schema.options import (
    ConfigOption,
    Text,
    option_schema,
    options_of,
    options_schema,
    read_given,
    read_option,
)
from toolyard.sessions.sessions import MAX_OPEN, Sessions

MEMORY = "memory"
"""The store that is none: its sessions are gone with the process."""


class SessionsBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Where sessions live, for how long, and how many there may be."""

    store: Annotated[
        Text,
        Meta(
            description="memory: gone with the process. sqlite: a file, for one machine. postgres: for several nodes."
        ),
    ] = MEMORY
    ttl: Annotated[
        float | None, Meta(gt=0, description="Seconds after its last use that a session ends; never, if not given.")
    ] = None
    max_open: Annotated[int, Meta(ge=1, description="Most sessions at once.")] = MAX_OPEN
    options: dict[str, Any] = {}
    """Of the store."""

    def __repr__(self) -> str:
        return f"SessionsBlock(store={self.store!r})"

    def open(self) -> Sessions:
        """Connect to the store and give out sessions from it."""
        store = None if self.store == MEMORY else SESSION_STORES.create(self.store, **self.options)
        return Sessions(store, ttl=self.ttl, max_open=self.max_open)


def _store_names() -> list[str]:
    return [MEMORY, *SESSION_STORES.names()]


def _store_class(store: str) -> type:
    return SESSION_STORES.get(store)


def _options_of_store(store: str) -> Mapping[str, ConfigOption]:
    return {} if store == MEMORY else plugin_options(_store_class(store))


def _common_options() -> dict[str, ConfigOption]:
    known = options_of(SessionsBlock)
    return {key: known[key] for key in ("store", "ttl", "max_open")}


def read_sessions(block: Mapping[str, Any], where: str, base: Path) -> SessionsBlock:
    """Check a `sessions` block; a relative path is taken from `base`."""
    store = str(read_option(SessionsBlock, "store", block.get("store", MEMORY), f"{where}.store"))
    if store not in _store_names():
        raise ConfigError(
            f"{where}.store: no such choice {store[:80]!r}; {suggest(store, _store_names(), 'write one of ')}"
        )
    own, common = _options_of_store(store), _common_options()
    for key in block:
        owner = None if key in own or key in common else _owner_of(key)
        if owner is not None:
            raise ConfigError(f"{where}.{key}: is for store: {owner}, and the store is {store}")
    given = read_given({**common, **own}, {"store": store, **_located_defaults(own), **block}, where, base=base)
    for key, option in own.items():
        if option.required and key not in given:
            raise ConfigError(f"{where}: store: {store} needs a {key}: {option.description}")
    options = {key: given.pop(key) for key in list(given) if key in own}
    return SessionsBlock(options=options, **given)


def _located_defaults(options: Mapping[str, ConfigOption]) -> dict[str, Any]:
    """Files that nobody named are in the config's folder, too."""
    return {
        key: option.default for key, option in options.items() if option.type.noted("locate") and not option.required
    }


def _owner_of(key: str) -> str | None:
    return next((store for store in _store_names() if key in _options_of_store(store)), None)


def sessions_schema() -> dict[str, Any]:
    """JSON Schema of the block; `read_sessions` accepts exactly what it accepts."""
    common = {key: option_schema(option) for key, option in _common_options().items()}
    common["store"] = {**common["store"], "enum": _store_names()}
    of_stores = {store: _options_of_store(store) for store in _store_names()}
    keys = {key: option_schema(option) for options in of_stores.values() for key, option in options.items()}
    rules = []
    for store, options in of_stores.items():
        # Each about the store it names: one that is still a variable is none of them.
        chosen: dict[str, Any] = {"properties": {"store": {"const": store}}}
        if store != MEMORY:
            chosen["required"] = ["store"]
        needed = [key for key, option in options.items() if option.required]
        foreign = {key: False for key in keys if key not in options}
        rules.append({"if": chosen, "then": {"properties": foreign, "required": needed}})
    return {**options_schema(SessionsBlock), "properties": {**common, **keys}, "allOf": rules}
