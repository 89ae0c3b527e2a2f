"""`RemoteToolRegistry`: a local copy of a server's tools, whose catalog is read page by page."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Self, Unpack

import msgspec

from toolyard.client.wire import API, REQUEST_SECONDS, ListBudget, ServerWire, WireOptions, quote_segment
from toolyard.loop.home import home_loop
from toolyard.model.bindings import McpBinding, RestBinding
from toolyard.model.call import ToolCall, ToolContext
from toolyard.model.errors import (
    CallError,
    ConfigError,
    DefinitionError,
    DuplicateToolError,
    SourceUnavailable,
    ToolyardError,
    UnknownToolError,
)
from toolyard.model.names import check_namespace, check_tool_name
from toolyard.model.report import LoadReport, Rejection, Rewrite, SourceReport
from toolyard.model.tool import Tool
from toolyard.plugins import Enrichment, FailurePolicy, Loader
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find_overloads
from toolyard.registry.prepared import RawArguments, json_text, read_arguments
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
            candidate.place = f" at {self.source}" if candidate.tool.source else self.source
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


class RemoteToolRegistry(ToolRegistry):
    """A `ToolRegistry` whose only source is a server: `RemoteToolRegistry("http://127.0.0.1:8000")`.

    The catalog is read at construction and by `refresh`; lookups need no network. `add` and `remove` change the
    server's catalog, and `dispatch` runs the tool on the server. Async code uses `aopen` and the async twins, which
    never block its loop.

    `api_key` is sent with every request; sending it to another host over plain http:// logs a warning once. `timeout`
    is in seconds for each request. `verify` is True (the system's certificate authorities), the path of a file with
    others, or False. Lost requests are repeated up to `retries` times, with an idempotency key; see `ServerWire`.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = REQUEST_SECONDS,
        load: bool = True,
        **options: Unpack[WireOptions],
    ) -> None:
        self.wire = ServerWire(url, timeout=timeout, **options)
        self._catalog = Catalog(self.wire)
        self._offering = threading.Lock()
        super().__init__()
        super().attach(self._catalog)
        if load:
            home_loop.run(self.aload(), twin="RemoteToolRegistry.aopen")

    @classmethod
    async def aopen(
        cls,
        url: str,
        *,
        timeout: float = REQUEST_SECONDS,  # noqa: ASYNC109 - a limit for each request
        **options: Unpack[WireOptions],
    ) -> Self:
        """Create a registry and read its catalog, for async code; options are those of the class."""
        registry = cls(url, timeout=timeout, load=False, **options)
        await registry.aload()
        return registry

    async def aload(self) -> None:
        """Read the catalog for the first time; closes the connections if that fails."""
        try:
            await self.arefresh(strict=True)
        except BaseException:
            await self.aclose()
            raise

    @classmethod
    def from_loaders(
        cls, loaders: Iterable[Loader], enrichments: Sequence[Enrichment] = (), **options: Any
    ) -> NoReturn:
        """Always raises; so do `from_file` and `from_dicts`, which call it."""
        for loader in loaders:
            loader.close()
        raise ConfigError("a remote registry is made of its server's address; sources belong to ToolRegistry")

    @property
    def url(self) -> str:
        """The server's URL."""
        return self.wire.url

    @property
    def loaded(self) -> bool:
        """False until the catalog has been read; `load=False` defers that."""
        return self._catalog.generation is not None

    def definitions(self, names: Iterable[str]) -> list[str] | None:
        """Hashes of the definitions known under these names; None if nothing was loaded and nothing can be stale."""
        if not self.loaded:
            return None
        hashes: dict[str, None] = {}
        for name in names:
            try:
                found = find_overloads(self.snapshot, name)
            except UnknownToolError:
                continue
            hashes.update(dict.fromkeys(candidate.tool.definition_hash for candidate in found))
        return list(hashes)

    def refresh(self, *, strict: bool = False, only: Loader | None = None) -> LoadReport:
        """Read the server's catalog again and return the new report. There is only one source.

        If that fails, the tools stay and are marked stale; with `strict` it raises.
        """
        if only is not None and only is not self._catalog:
            raise ConfigError(f"{self.url} is the one source of this registry")
        return home_loop.run(self.arefresh(strict=strict), twin="arefresh")

    async def arefresh(self, *, strict: bool = False) -> LoadReport:
        """`refresh` for async code."""
        self.wire.link.check_open()
        found: FetchedCatalog | ToolyardError
        try:
            found = await fetch_catalog(self.wire, greet=not self.loaded)
        except CallError as error:
            # Not a failed call, but a source that could not be read.
            found = SourceUnavailable.from_call(error)
        except ToolyardError as error:
            found = error
        # Checking a large catalog takes time, so do it off the loop.
        return await asyncio.to_thread(self._take_catalog, found, strict)

    async def areload(self) -> LoadReport:
        """Reload the server's own sources, return its report, and read the catalog again."""
        report = await self._ask_report("POST", "reload")
        await self.arefresh(strict=True)
        return report

    reload = home_loop.sync_twin(areload)

    async def aserver_report(self) -> LoadReport:
        """The server's report on its own sources; `report` is about the definitions read from the server."""
        return await self._ask_report("GET", "report")

    server_report = home_loop.sync_twin(aserver_report)

    async def aadd(self, *tools: Tool) -> None:
        """Register tools on the server, all or none.

        A tool's binding is sent if it is data (`RestBinding`, `McpBinding`); code is never sent.
        """
        if tools:
            await self._send_tools(tools)
            await self.arefresh(strict=True)

    def add(self, *tools: Tool) -> None:
        """`aadd` for threads."""
        home_loop.run(self.aadd(*tools), twin="aadd")

    async def aremove(self, name: str) -> list[Tool]:
        """Remove every overload of a qualified name from the server, and return those known here."""
        removed = self.get(name)
        await self.wire.ask("DELETE", f"/{API}/tools/{quote_segment(name)}")
        await self.arefresh(strict=True)
        return removed

    def remove(self, name: str) -> list[Tool]:
        """`aremove` for threads."""
        return home_loop.run(self.aremove(name), twin="aremove")

    def attach(self, loader: Loader, *, keep_failed: bool = False) -> NoReturn:
        """Always raises: the server is the only source."""
        loader.close()
        raise ConfigError(f"this registry holds what {self.url} has; attach the loader there, or add() single tools")

    async def adispatch(self, name: str, arguments: RawArguments = None, *, ctx: ToolContext | None = None) -> Any:
        """Validate the arguments here and run the tool on the server; returns its value or raises a `CallError`."""
        bound = self.bind(ToolCall(name, read_arguments(arguments)), coerce=False)
        tool = bound.tool
        call = {"name": tool.qualified_name, "arguments": msgspec.Raw(json_text(bound.arguments))}
        if len(self.get(tool.qualified_name)) > 1:
            call["overload"] = tool.fingerprint
        body: dict[str, Any] = {"calls": [call], "definitions": [tool.definition_hash]}
        if ctx is not None:
            body |= {key: dict(value) for key, value in (("context", ctx.context), ("trace", ctx.trace)) if value}
        answer = await self.wire.ask("POST", f"/{API}/calls", body=body)
        result = self.wire.read_results(answer, 1)[0]
        if result.error_info is not None:
            raise CallError.from_info(result.error_info)
        return result.result

    def dispatch(self, name: str, arguments: RawArguments = None, *, ctx: ToolContext | None = None) -> Any:
        """`adispatch` for threads."""
        return home_loop.run(self.adispatch(name, arguments, ctx=ctx), twin="adispatch")

    def close(self) -> None:
        """Close the connections; the tools remain readable."""
        self.wire.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        await self.wire.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, {len(self)} tools, generation={self.generation})"

    def _take_catalog(self, found: FetchedCatalog | ToolyardError, strict: bool) -> LoadReport:
        with self._offering:
            self._catalog.offered = found
            return super().refresh(strict=strict)

    async def _ask_report(self, method: str, what: str) -> LoadReport:
        body = await self.wire.ask(method, f"/{API}/{what}")
        return LoadReport(self.wire.read(body, _Report, "a report of another form").sources)

    async def _send_tools(self, tools: tuple[Tool, ...]) -> None:
        bodies = [(tool.qualified_name, self._write_registration(tool)) for tool in tools]
        added: list[str] = []
        for name, body in bodies:
            try:
                if name in added:
                    raise DuplicateToolError(f"duplicate tool: {name} is given twice, and a server takes one of a name")
                await self.wire.ask("PUT", f"/{API}/tools/{quote_segment(name)}", body=body)
            except ToolyardError as error:
                await self._unregister(added, error)
                raise
            added.append(name)

    async def _unregister(self, names: list[str], cause: ToolyardError) -> None:
        for name in names:
            try:
                await self.wire.ask("DELETE", f"/{API}/tools/{quote_segment(name)}")
            except ToolyardError as error:
                cause.add_note(f"{name} was registered before that, and could not be taken out again: {error}")

    def _write_registration(self, tool: Tool) -> dict[str, Any]:
        check_namespace(tool.namespace)
        check_tool_name(tool.name)
        if self.get(tool.qualified_name):
            # Unlike an in-process registry, a server accepts it as a new version of the first.
            raise DuplicateToolError(f"duplicate tool: {self.url} has {tool.qualified_name} already; remove() it first")
        body = tool.to_dict()
        for derived in ("name", "namespace", "source"):
            body.pop(derived, None)
        if tool.binding is not None:
            body["binding"] = _write_binding(tool)
        return body


def _write_binding(tool: Tool) -> dict[str, Any]:
    binding = tool.binding
    if isinstance(binding, RestBinding):
        sent = {"method": binding.method, "path": binding.path, "base_url": binding.base_url}
        sent["parameters"] = msgspec.to_builtins(binding.parameters)
        if binding.body is not None:
            sent["body"] = msgspec.to_builtins(binding.body)
        return {"type": "rest", **sent}
    if isinstance(binding, McpBinding):
        # Not how the server is reached, since that may contain secrets.
        return {"type": "mcp", "server": binding.server, "tool_name": binding.tool_name}
    raise ConfigError(
        f"{tool.qualified_name} is code in this process, which is never sent to a server; give it to the server's "
        "own sources, or register its definition with replace(binding=None)"
    )


class _Report(msgspec.Struct, frozen=True):
    sources: tuple[SourceReport, ...]
