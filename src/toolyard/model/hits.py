"""Results of a tool search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from toolyard.model.tool import Tool

Fit = Literal["sure", "likely", "nearest"]
SearchMode = Literal["hybrid", "lexical"]


class Hit(msgspec.Struct, frozen=True):
    """One tool that may match the query."""

    tool: Tool
    score: float
    """Probability that the tool is the one wanted, from 0 to 1; 1 if the query is its name."""
    fit: Fit
    """The score as a category; a `nearest` hit may be irrelevant."""
    reasons: Mapping[str, float] = {}
    """Evidence: `words` (share of the query found in the tool), `name` (share of its name in the query), `meaning`
    (vector similarity; absent from lexical searches)."""


class SearchResults(list[Hit]):
    """The hits, best first; fewer than requested, possibly none, if fewer are relevant."""

    def __init__(self, hits: Iterable[Hit] = (), *, mode: SearchMode, note: str = "") -> None:
        super().__init__(hits)
        self.mode = mode
        """`lexical` if only words were compared."""
        self.note = note
        """Why the search was lexical or could find nothing, and the remedy; empty otherwise."""

    def __repr__(self) -> str:
        found = ", ".join(f"{hit.tool.qualified_name} {hit.fit} {hit.score:.2f}" for hit in self)
        return f"SearchResults([{found}], mode={self.mode!r})"
