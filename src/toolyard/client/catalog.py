"""A server's catalog, read page by page, and the loader that gives it to a registry."""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any

import msgspec

from toolyard.client.wire import API, ServerWire, make_garbled_error
from toolyard.model.errors import CallError, ConfigError, DefinitionError, SourceUnavailable, ToolyardError
from toolyard.model.report import Rejection, Rewrite, SourceReport
from toolyard.model.tool import Tool
from toolyard.plugins import Policy
from toolyard.schema.admission import AdmittedTool, admit_tool
from toolyard.sources.base import ToolLoader

PAGE = 1000
MAX_PAGES = 10_000
ATTEMPTS = 5
"""How often reading starts over because the catalog changed between two pages."""

_DERIVED = ("qualified_name", "fingerprint", "definition_hash")
_tickets = itertools.count(1)


class Fetched(msgspec.Struct, frozen=True):
    """What a server's catalog was at one moment, or why it could not be read."""

    ticket: int
    """Grows from one reading to the next, in the order in which they began."""
    entries: list[dict[str, Any]] = []
    generation: int = 0
    error: ToolyardError | None = None


FETCHED: ContextVar[Fetched | None] = ContextVar("toolyard_fetched_catalog", default=None)
"""What the load that this context is in has to give: the reading was done before, with or without an event loop."""


class _Page(msgspec.Struct, frozen=True):
    tools: list[dict[str, Any]]
    generation: int
    next_cursor: str | None = None


async def fetch(wire: ServerWire, *, greet: bool) -> Fetched:
    """Read the whole catalog; a failure is part of what it returns, as it is the loader's to raise."""
    ticket = next(_tickets)
    wire.link.check_open()
    try:
        if greet:
            await wire.greet()
        for _ in range(ATTEMPTS):
            found = await _read_once(wire, ticket)
            if found is not None:
                return found
        raise SourceUnavailable(
            f"the catalog of {wire.url} changed {ATTEMPTS} times while it was read; try again later"
        )
    except ToolyardError as error:
        return Fetched(ticket, error=error)


async def _read_once(wire: ServerWire, ticket: int) -> Fetched | None:
    """Every page of one state of the catalog; None if it changed meanwhile."""
    entries: list[dict[str, Any]] = []
    cursors: set[str] = set()
    generation: int | None = None
    cursor: str | None = None
    while len(cursors) < MAX_PAGES:
        query = (("limit", str(PAGE)), *([("cursor", cursor)] if cursor is not None else []))
        page = _read_page(wire, await wire.ask("GET", f"/{API}/tools", query=query))
        if generation is not None and page.generation != generation:
            return None
        generation = page.generation
        entries.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return Fetched(ticket, entries, generation)
        if cursor in cursors:
            break
        cursors.add(cursor)
    raise make_garbled_error(wire.url, "none", "a catalog whose pages have no end")


def _read_page(wire: ServerWire, body: Any) -> _Page:
    try:
        return msgspec.convert(body, _Page)
    except msgspec.ValidationError:
        raise ConfigError(
            f"{wire.url} has no catalog in the form toolyard knows; it is another server, or another version"
        ) from None


class Catalog(ToolLoader):
    """Gives a registry the tools that were fetched from a server.

    A definition that is not what its hash says is left out and listed, like one that breaks a rule of ours: calls
    checked against it here would not be the calls the server accepts.
    """

    on_error: Policy = "skip"
    on_duplicate: Policy = "skip"

    def __init__(self, wire: ServerWire) -> None:
        self._wire = wire
        self._taken = 0
        self.generation: int | None = None
        """The server's own; None before the first load."""

    @property
    def source(self) -> str:
        """The server's address."""
        return self._wire.url

    def load(self) -> list[Tool]:
        """The tools of what was fetched, unless something fetched later is here already; none before that."""
        fetched = FETCHED.get()
        if fetched is not None:
            if fetched.error is not None:
                raise _source_fault(fetched.error)
            if fetched.ticket > self._taken:
                self._take_page(fetched)
        return [candidate.tool for candidate in self.admitted]

    def _take_page(self, fetched: Fetched) -> None:
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
        self._taken, self.generation = fetched.ticket, fetched.generation


def _source_fault(error: ToolyardError) -> ToolyardError:
    """No call failed: a source could not be read."""
    if not isinstance(error, CallError):
        return error
    hint = f"; {error.info.hint}" if error.info.hint else ""
    return SourceUnavailable(f"{error}{hint}")


def _admit_definition(entry: dict[str, Any]) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    plain = {key: value for key, value in entry.items() if key not in _DERIVED}
    candidate, changes = admit_tool(Tool.from_dict(plain))
    tool = candidate.tool
    if entry.get("definition_hash") != tool.definition_hash:
        raise DefinitionError(f"the definition of {tool.qualified_name} is not the one its definition_hash stands for")
    return candidate, changes
