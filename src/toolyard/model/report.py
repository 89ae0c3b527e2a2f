"""What loading did: every entry is loaded, rewritten or rejected, and the report says which.

`entries == loaded + len(rejected)` holds for every source; nothing disappears in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from toolyard.model.warnings import DefinitionWarning, find_look_alikes

State = Literal["ok", "stale", "failed"]


class Rewrite(msgspec.Struct, frozen=True):
    """One change made to a definition so that it means in JSON Schema what its author meant."""

    tool: str
    pointer: str
    change: str
    count: int = 1
    """How often this change was made in this tool; `pointer` is the first place."""


class Rejection(msgspec.Struct, frozen=True):
    """One entry that did not become a tool, and why."""

    where: str
    reason: str
    tool: str | None = None
    error: str = "MalformedSource"
    """The class of the error that `on_error="raise"` would have raised."""


class SourceReport(msgspec.Struct, frozen=True):
    """What one source gave."""

    source: str
    loaded: int = 0
    rewrites: tuple[Rewrite, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    state: State = "ok"
    error: str | None = None
    """Why the source is stale (its last good tools are still served) or failed."""
    warnings: Sequence[DefinitionWarning] = ()
    """What should be looked at before a model sees it; nothing was left out for it."""

    @property
    def entries(self) -> int:
        """How many definitions the source holds."""
        return self.loaded + len(self.rejected)

    @property
    def rewritten(self) -> int:
        """How many names had a definition rewritten."""
        return len({rewrite.tool for rewrite in self.rewrites})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "source": self.source,
            "state": self.state,
            "error": self.error,
            "entries": self.entries,
            "loaded": self.loaded,
            "rewritten": self.rewritten,
            "rewrites": msgspec.to_builtins(self.rewrites),
            "rejected": msgspec.to_builtins(self.rejected),
            "warnings": msgspec.to_builtins(list(self.warnings)),
        }


class LoadReport(msgspec.Struct, frozen=True):
    """The reports of all sources of a registry, in load order."""

    sources: tuple[SourceReport, ...] = ()

    @property
    def loaded(self) -> int:
        """Tools of all sources."""
        return sum(source.loaded for source in self.sources)

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Rejections of all sources."""
        return tuple(item for source in self.sources for item in source.rejected)

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """Rewrites of all sources."""
        return tuple(item for source in self.sources for item in source.rewrites)

    @property
    def warnings(self) -> tuple[DefinitionWarning, ...]:
        """Warnings of all sources, and those about names of several."""
        tools = [tool for source in self.sources for tool in getattr(source.warnings, "tools", ())]
        return (*(item for source in self.sources for item in source.warnings), *find_look_alikes(tools))

    @property
    def ok(self) -> bool:
        """True when every source answered and nothing was rejected."""
        return not self.rejected and all(source.state == "ok" for source in self.sources)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "ok": self.ok,
            "loaded": self.loaded,
            "sources": [source.to_dict() for source in self.sources],
            "warnings": msgspec.to_builtins(list(self.warnings)),
        }
