"""`PluginEntry`: what a config says of one source, engine or enrichment."""

from __future__ import annotations

from typing import Any

import msgspec


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin by its registered name, its options, and where the config asks for it."""

    type: str
    options: dict[str, Any]
    where: str
    engine: str | None = None
    """Of a loader: the engine that answers its tools."""
