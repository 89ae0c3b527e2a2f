"""The little that lower floors need to know of plugins, and of what searches a registry, which they may not import."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from toolyard.model.report import SourceReport
from toolyard.model.tool import Tool

Policy = Literal["raise", "skip"]


class Loader(Protocol):
    """A source of tools, as the registry sees it."""

    on_error: Policy
    on_duplicate: Policy

    @property
    def source(self) -> str:
        """What reports and errors call this source."""

    @property
    def report(self) -> SourceReport:
        """What the last `load` did."""

    def load(self) -> list[Tool]:
        """All tools, each with its namespace set."""

    def close(self) -> None:
        """Let go of connections."""


class View(Protocol):
    """A registry at one moment, as enrichments see it."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Every tool in registration order."""

    @property
    def artifacts(self) -> Mapping[str, Any]:
        """What enrichments before this one left."""


class Enrichment(Protocol):
    """Studies a snapshot; returns changed tools and artifacts, and mutates nothing."""

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The tools (same order) and the artifacts to add."""


SEARCHER = "toolyard.insight.search.searcher:Searcher"


class FoundTool(Protocol):
    """One tool that fits."""

    @property
    def tool(self) -> Tool:
        """The tool."""

    @property
    def score(self) -> float:
        """How likely it is what was asked for, from 0 to 1."""


class SearchHits(Protocol):
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
    ) -> SearchHits:
        """The tools that fit, best first; none where nothing does."""


def new_search() -> ToolSearch:
    """A searcher of one's own, with the default model if that is installed."""
    module, _, name = SEARCHER.partition(":")
    made: ToolSearch = getattr(importlib.import_module(module), name)()
    return made
