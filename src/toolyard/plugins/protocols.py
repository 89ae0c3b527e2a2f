"""The little that lower floors need to know of plugins they may not import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from toolyard.model import SourceReport, Tool

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
