"""`Catalog`: the definitions of a server's tools, read page by page."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from toolyard.client.wire import API, ListBudget, ServerWire
from toolyard.model.errors import ConfigError, DefinitionError, SourceUnavailable, ToolyardError
from toolyard.model.report import Rejection, Rewrite, SourceReport
from toolyard.model.tool import Tool
from toolyard.plugins import FailurePolicy
from toolyard.schema.admission import AdmittedTool, admit_tool
from toolyard.sources.base import ToolLoader

PAGE = 1000
MAX_PAGES = 10_000
ATTEMPTS = 5
"""Attempts to read a catalog that changes between two pages."""

_DERIVED = ("qualified_name", "fingerprint", "definition_hash")
_readings = itertools.count(1)


class FetchedCatalog(msgspec.Struct, frozen=True):
    """A server's catalog at one moment."""

    reading: int
    """Increases with each reading, in the order in which they began."""
    entries: list[dict[str, Any]]
    generation: int


class _Page(msgspec.Struct, frozen=True):
    tools: list[dict[str, Any]]
    generation: int
    next_cursor: str | None = None


async def fetch_catalog(wire: ServerWire, *, greet: bool) -> FetchedCatalog:
    """Read the whole catalog; with `greet`, first check that this is a toolyard server."""
    reading = next(_readings)
    if greet:
        await wire.greet()
    for _ in range(ATTEMPTS):
        found = await _read_once(wire, reading)
        if found is not None:
            return found
    raise SourceUnavailable(f"the catalog of {wire.url} changed {ATTEMPTS} times while it was read; try again later")


async def _read_once(wire: ServerWire, reading: int) -> FetchedCatalog | None:
    """All pages of one state of the catalog; None if it changed meanwhile."""
    entries: list[dict[str, Any]] = []
    cursors: set[str] = set()
    generation: int | None = None
    cursor: str | None = None
    budget = ListBudget()
    while len(cursors) < MAX_PAGES:
        query = (("limit", str(PAGE)), *([("cursor", cursor)] if cursor is not None else []))
        page = _read_page(wire, await wire.ask("GET", f"/{API}/tools", query=query, budget=budget))
        if generation is not None and page.generation != generation:
            return None
        generation = page.generation
        entries.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return FetchedCatalog(reading, entries, generation)
        if cursor in cursors or not page.tools:
            break
        cursors.add(cursor)
    raise wire.make_garbled_error("a catalog whose pages have no end")


def _read_page(wire: ServerWire, body: Any) -> _Page:
    try:
        page = msgspec.convert(body, _Page)
    except msgspec.ValidationError:
        raise ConfigError(
            f"{wire.url} has no catalog in the form toolyard knows; it is another server, or another version"
        ) from None
    if len(page.tools) > PAGE:
        raise wire.make_garbled_error(f"a page of {len(page.tools):,} tools, where {PAGE:,} were asked for")
    return page


class Catalog(ToolLoader):
    """The loader of a registry whose tools were read from a server.

    A definition that does not match its hash is rejected and listed, as is one that violates our rules: calls validated
    against it here would not be the calls that the server accepts.
    """

    on_error: FailurePolicy = "skip"
    on_duplicate: FailurePolicy = "skip"

    def __init__(self, wire: ServerWire) -> None:
        self._wire = wire
        self._taken = 0
        self.offered: FetchedCatalog | ToolyardError | None = None
        """What the next load returns or raises; fetched beforehand, where waiting can be cancelled."""
        self.generation: int | None = None
        """The generation of the server's catalog; None before the first load."""

    @property
    def source(self) -> str:
        """The server's URL."""
        return self._wire.url

    def load(self) -> list[Tool]:
        """The tools of `offered`, unless a later reading was loaded already; none before the first reading."""
        offered, self.offered = self.offered, None
        if isinstance(offered, ToolyardError):
            raise offered
        if offered is not None and offered.reading > self._taken:
            self._take_entries(offered)
        return [candidate.tool for candidate in self.admitted]

    def _take_entries(self, fetched: FetchedCatalog) -> None:
        candidates: list[AdmittedTool] = []
        rewrites: list[Rewrite] = []
        rejected: list[Rejection] = []
        for entry in fetched.entries:
            try:
                candidate, changes = _admit_definition(entry)
            except DefinitionError as error:
                name = entry.get("qualified_name")
                label = name if isinstance(name, str) else None
                rejected.append(Rejection(self.source, str(error), label, type(error).__name__))
                continue
            candidates.append(candidate)
            rewrites.extend(changes)
        self.admitted = candidates
        self._report = SourceReport(self.source, len(candidates), tuple(rewrites), tuple(rejected))
        self._taken, self.generation = fetched.reading, fetched.generation


def _admit_definition(entry: dict[str, Any]) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    plain = {key: value for key, value in entry.items() if key not in _DERIVED}
    candidate, changes = admit_tool(Tool.from_dict(plain))
    tool = candidate.tool
    if entry.get("definition_hash") != tool.definition_hash:
        raise DefinitionError(f"the definition of {tool.qualified_name} is not the one its definition_hash stands for")
    return candidate, changes
