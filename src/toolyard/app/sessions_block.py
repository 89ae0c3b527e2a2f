"""The `sessions` block: where sessions live, for how long, and how many there may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from toolyard.calls.blocks import read_choice, read_count, read_mapping, read_text
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type
from toolyard.sessions.sessions import MAX_OPEN, Sessions
from toolyard.sessions.store import SessionStore

_STORES = ("memory", "sqlite", "postgres")
_DURABILITIES = ("normal", "full")
_KEYS = ("store", "path", "durability", "dsn", "schema", "ttl", "max_open")
_ONLY_FOR = {"path": "sqlite", "durability": "sqlite", "dsn": "postgres", "schema": "postgres"}
_DEFAULT_PATH = ".toolyard/sessions.db"

SESSIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "description": "Where sessions live, for how long, and how many there may be.",
    "properties": {
        "store": {
            "enum": list(_STORES),
            "description": "memory (if not given): gone with the process. sqlite: a file, for one machine. "
            "postgres: for several nodes.",
        },
        "path": {"type": "string", "minLength": 1, "description": f"Of the SQLite file; {_DEFAULT_PATH} if not given."},
        "durability": {
            "enum": list(_DURABILITIES),
            "description": "normal (if not given): survives the process. full: survives a power cut, and syncs for it.",
        },
        "dsn": {"type": "string", "minLength": 1, "description": "Of the Postgres database; use ${VARIABLES}."},
        "schema": {"type": "string", "minLength": 1, "description": "Postgres schema; toolyard if not given."},
        "ttl": {
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "description": "Seconds after its last use that a session ends; never, if not given.",
        },
        "max_open": {
            "type": "integer",
            "minimum": 1,
            "description": f"Most sessions at once; {MAX_OPEN} if not given.",
        },
    },
    # Each about the stores it names: one that is still a variable is none of them.
    "allOf": [
        {
            "if": {"properties": {"store": {"enum": ["memory", "postgres"]}}},
            "then": {"properties": {"path": False, "durability": False}},
        },
        {
            "if": {"properties": {"store": {"enum": ["memory", "sqlite"]}}},
            "then": {"properties": {"dsn": False, "schema": False}},
        },
        {
            "if": {"properties": {"store": {"const": "postgres"}}, "required": ["store"]},
            "then": {"required": ["dsn"]},
        },
    ],
}
"""JSON Schema of the block; `read_sessions` accepts exactly what it accepts."""


class SessionsBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The block, checked; `open` makes the real thing."""

    store: Literal["memory", "sqlite", "postgres"] = "memory"
    path: Path | None = None
    durability: Literal["normal", "full"] = "normal"
    dsn: str = ""
    schema: str = "toolyard"
    ttl: float | None = None
    max_open: int = MAX_OPEN

    def __repr__(self) -> str:
        return f"SessionsBlock(store={self.store!r})"

    def open(self) -> Sessions:
        """Connect to the store and give out sessions from it."""
        return Sessions(self._open_store(), ttl=self.ttl, max_open=self.max_open)

    def _open_store(self) -> SessionStore | None:
        if self.store == "sqlite":
            from toolyard.sessions.sqlite import SqliteStore

            return SqliteStore(self.path or Path(_DEFAULT_PATH), durability=self.durability)
        if self.store == "postgres":
            from toolyard.sessions.postgres import PostgresStore

            return PostgresStore(self.dsn, schema=self.schema)
        return None


def read_sessions(block: dict[str, Any], where: str, base: Path) -> SessionsBlock:
    """Check a `sessions` block; a relative path is taken from `base`."""
    read_mapping(block, _KEYS, where)
    store: Any = read_choice(block.get("store", "memory"), _STORES, f"{where}.store")
    for key, owner in _ONLY_FOR.items():
        if key in block and store != owner:
            raise ConfigError(f"{where}.{key}: is for store: {owner}, and the store is {store}")
    if store == "postgres" and "dsn" not in block:
        raise ConfigError(f"{where}: store: postgres needs a dsn, such as ${{DATABASE_URL}}")
    durability: Any = read_choice(block.get("durability", "normal"), _DURABILITIES, f"{where}.durability")
    return SessionsBlock(
        store=store,
        path=base / read_text(block.get("path", _DEFAULT_PATH), f"{where}.path"),
        durability=durability,
        dsn=read_text(block["dsn"], f"{where}.dsn") if "dsn" in block else "",
        schema=read_text(block.get("schema", "toolyard"), f"{where}.schema"),
        ttl=_seconds(block.get("ttl"), f"{where}.ttl"),
        max_open=read_count(block.get("max_open", MAX_OPEN), f"{where}.max_open", least=1),
    )


def _seconds(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        shown = value if isinstance(value, int | float) else json_type(value)
        raise ConfigError(f"{where}: must be a number of seconds above 0, not {shown}")
    return float(value)
