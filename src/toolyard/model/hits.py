"""What a search of tools finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from toolyard.model.tool import Tool

Fit = Literal["sure", "likely", "nearest"]
SearchMode = Literal["hybrid", "lexical"]


class Hit(msgspec.Struct, frozen=True):
    """One tool that may be meant."""

    tool: Tool
    score: float
    """How likely it is what was asked for, from 0 to 1; 1 if the query is its name."""
    fit: Fit
    """The same in a word; what is nearest may not be it."""
    reasons: Mapping[str, float] = {}
    """What spoke for it: `words` (share of the query it has), `name` (share of its name in the query), `meaning`
    (likeness of the vectors; not there if the search was lexical)."""


class SearchResults(list[Hit]):
    """The hits, best first; fewer than asked for, even none, where fewer are meant."""

    def __init__(self, hits: Iterable[Hit] = (), *, mode: SearchMode, note: str = "") -> None:
        super().__init__(hits)
        self.mode = mode
        """`lexical` if words alone were compared."""
        self.note = note
        """Why the search was lexical, or could find nothing, and what to do about it; else empty."""

    def __repr__(self) -> str:
        found = ", ".join(f"{hit.tool.qualified_name} {hit.fit} {hit.score:.2f}" for hit in self)
        return f"SearchResults([{found}], mode={self.mode!r})"
