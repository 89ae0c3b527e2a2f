"""How a registry finds what searches it, without importing it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from typing import Any, Protocol

from toolyard.model.tool import Tool

SEARCHER = "toolyard.insight.search.searcher:Searcher"


class FoundTool(Protocol):
    """One tool that fits."""

    @property
    def tool(self) -> Tool:
        """The tool."""

    @property
    def score(self) -> float:
        """How likely it is what was asked for, from 0 to 1."""


class FoundTools(Protocol):
    """A list of them, best first, that says how it was made."""

    mode: Any
    """`hybrid`, or `lexical` if words alone were compared."""
    note: str
    """Why the search was lexical, and what to do about it."""

    def __getitem__(self, place: int, /) -> FoundTool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Any: ...


class ToolSearch(Protocol):
    """Searches the snapshots of one registry."""

    def search(
        self,
        snapshot: Any,
        query: str,
        k: int = 5,
        *,
        namespace: str | Collection[str] | None = None,
        tags: str | Collection[str] | None = None,
        where: Callable[[Tool], bool] | None = None,
        wait: bool = True,
        threshold: float | None = None,
    ) -> FoundTools:
        """The tools that fit, best first; none where nothing does."""


def new_search() -> ToolSearch:
    """A searcher of one's own, with the default model if that is installed."""
    module, _, name = SEARCHER.partition(":")
    made: ToolSearch = getattr(importlib.import_module(module), name)()
    return made
