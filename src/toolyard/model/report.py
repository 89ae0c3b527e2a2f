"""Load reports: what each source loaded, rewrote and rejected.

Every entry is loaded, possibly rewritten, or rejected: `entries == loaded + len(rejected)` holds for every source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from toolyard.model.definition_warnings import DefinitionWarning, find_look_alikes
from toolyard.model.names import show

_LONGEST_REASON = 500

State = Literal["ok", "stale", "failed"]


class Rewrite(msgspec.Struct, frozen=True):
    """One change made to a definition to express its author's intent in JSON Schema."""

    tool: str
    pointer: str
    change: str
    count: int = 1
    """How often this change was made in the tool; `pointer` is the first place."""


class Rejection(msgspec.Struct, frozen=True):
    """One entry that was not loaded, and why."""

    where: str
    reason: str
    tool: str | None = None
    error: str = "MalformedSource"
    """The class of the error that `on_error="raise"` would have raised."""


class SourceReport(msgspec.Struct, frozen=True):
    """The outcome of loading one source."""

    source: str
    loaded: int = 0
    rewrites: tuple[Rewrite, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    state: State = "ok"
    error: str | None = None
    """Why the source is stale (its last good tools are still served) or has failed."""
    warnings: Sequence[DefinitionWarning] = ()
    """Definitions to review before a model sees them; they were loaded all the same."""

    @property
    def entries(self) -> int:
        """Number of definitions in the source."""
        return self.loaded + len(self.rejected)

    @property
    def rewritten(self) -> int:
        """Number of tool names with a rewritten definition."""
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
        """Number of tools loaded from all sources."""
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
        """Warnings of all sources, and those about look-alike names among all their tools."""
        tools = [tool for source in self.sources for tool in getattr(source.warnings, "tools", ())]
        return (*(item for source in self.sources for item in source.warnings), *find_look_alikes(tools))

    def explain_missing(self, name: str) -> str | None:
        """The rejection reason of an entry with this name (qualified, bare or a wire name); None if there is none."""
        wanted = "::" + name.replace("__", "::")
        for item in self.rejected:
            own = "::" + (item.tool or "").replace("__", "::")
            if item.tool and name and (wanted.endswith(own) or own.endswith(wanted)):
                text = f"{show(item.tool)} of {item.where} was rejected when it was loaded: {item.reason}"
                return text[:_LONGEST_REASON]
        return None

    @property
    def ok(self) -> bool:
        """True if every source loaded and nothing was rejected."""
        return not self.rejected and all(source.state == "ok" for source in self.sources)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "ok": self.ok,
            "loaded": self.loaded,
            "sources": [source.to_dict() for source in self.sources],
            "warnings": msgspec.to_builtins(list(self.warnings)),
        }
