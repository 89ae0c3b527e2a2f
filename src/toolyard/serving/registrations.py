"""`Registrations`: tools registered over HTTP at run time, and the source that puts them into the registry.

A registered tool consists of a definition and a binding, both plain data, never code. Registrations are kept in the
store, so all processes of the service have them, also after a restart. `LoadedCatalog` follows what other processes do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.app.toolyard import Toolyard
from toolyard.engines.python import weakest_level
from toolyard.links.http.addresses import read_base_url
from toolyard.model.bindings import Binding, McpBinding, RestBinding, RestBody, RestParameter, Style
from toolyard.model.errors import ConfigError, DefinitionError, EnrichmentError, MalformedSource, ToolyardError
from toolyard.model.names import show, split_qualified
from toolyard.model.tool import EffectsName, Tool
from toolyard.parsing.json_text import json_decoder
from toolyard.registry import ToolRegistry
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.wire_types import Json, Shape, Text
from toolyard.sessions.records import Records
from toolyard.sources.base import Intake, ToolLoader

KIND = "tool"
_OWNER = ""
_CHANGING = frozenset({"PUT", "PATCH", "DELETE"})
_STYLES: dict[str, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}


class RestTarget(Shape, tag_field="type", tag="rest"):
    """A tool that is one HTTP operation.

    `locations` maps an argument to its location and its name there, with the default serialization of that location;
    `parameters` and `body` describe arguments in full.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: Annotated[str, Meta(pattern="^/")]
    base_url: Annotated[str, Meta(pattern="^https?://[^/]")]
    locations: dict[str, tuple[Literal["path", "query", "header", "cookie", "body"], str]] = {}
    parameters: list[RestParameter] = []
    body: RestBody | UnsetType = UNSET


class McpTarget(Shape, tag_field="type", tag="mcp"):
    """A tool of an MCP server in the yard's config."""

    server: Text
    tool_name: Text


class SimulatorTarget(Shape, tag_field="type", tag="simulator"):
    """A tool that is only simulated: it has no binding."""


Target = RestTarget | McpTarget | SimulatorTarget


class Registration(Shape):
    """A tool to register at run time. Its binding is data, never code."""

    description: str = ""
    parameters: Json = {}
    output_parameters: Json = {}
    metadata: Json = {}
    version: str | UnsetType = UNSET
    tags: list[str] = []
    aliases: list[str] = []
    effects: EffectsName = "unknown"
    binding: Target | UnsetType = UNSET


class StoredRegistration(Registration):
    """A registration as it is stored."""

    qualified_only: bool = False
    """True if the key that registered it is limited to some namespaces. The tool is then called by its qualified name
    only, so that it cannot change what a bare name means.
    """


_read_stored: Callable[[bytes], StoredRegistration] = json_decoder(StoredRegistration)


class RegisteredTools(ToolLoader):
    """The source of tools registered over HTTP; refreshed after every change, also by another process."""

    label = "registered"

    def __init__(self) -> None:
        self._set_policies("skip", "raise")
        self.entries: dict[str, bytes] = {}

    def load(self) -> list[Tool]:
        """Load all registered tools. Those that are no longer valid are listed as rejected."""
        intake, bound = Intake(self), set()
        for name, text in self.entries.items():
            try:
                stored = _read_stored(text)
                intake.take(_make_tool(name, stored), f"registered {name}")
                if stored.qualified_only:
                    bound.add(name)
            except (ConfigError, DefinitionError, msgspec.DecodeError) as error:
                intake.reject(MalformedSource(str(error)), f"registered {name}", name)
        tools = intake.finish()
        for admitted in self.admitted:
            admitted.qualified_only = admitted.tool.qualified_name in bound
        return tools


class Registrations:
    """Adds and removes registered tools: first in the registry, which rejects invalid ones, then in the store."""

    def __init__(self, registry: ToolRegistry, records: Records) -> None:
        self._registry = registry
        self._records = records
        self._source = RegisteredTools()
        self._changing = asyncio.Lock()
        self._seen = -1

    async def start(self) -> None:
        """Load the registrations in the store, and attach the source to the registry."""
        self._source.entries = await self._stored()
        await asyncio.to_thread(self._registry.attach, self._source)

    async def catch_up(self, version: int) -> None:
        """Apply the changes of other processes, if the store's version has changed."""
        if version == self._seen:
            return
        async with self._changing:
            stored = await self._stored()
            before = self._source.entries
            if stored != before:
                self._source.entries = stored
                try:
                    await asyncio.to_thread(self._registry.refresh, only=self._source)
                except BaseException:
                    self._source.entries = before  # so that the next call tries again
                    raise
            self._seen = version

    async def put(self, name: str, registration: Registration, *, qualified_only: bool = False) -> bool:
        """Register or replace a tool; True if it is new."""
        if qualified_only:
            registration = StoredRegistration(**msgspec.structs.asdict(registration), qualified_only=True)
        text = msgspec.json.encode(registration)
        async with self._changing:
            before = self._source.entries
            self._check_free(name)
            await self._change({**before, name: text}, lambda: self._records.aput(KIND, _OWNER, name, text))
            return name not in before

    async def remove(self, name: str) -> bool:
        """Remove a registered tool; False if there is none with that name."""
        async with self._changing:
            before = self._source.entries
            if name not in before:
                return False
            rest = {key: value for key, value in before.items() if key != name}
            await self._change(rest, lambda: self._records.aremove(KIND, _OWNER, name))
            return True

    async def _change(self, entries: dict[str, bytes], store: Callable[[], Awaitable[object]]) -> None:
        before = self._source.entries
        try:
            await self._swap(entries, before)
        except EnrichmentError as error:
            raise HttpFault(
                503,
                "catalog.enrichment_failed",
                f"nothing was changed: {error}",
                retryable=True,
                hint="see tools.enrichments in the config of the server",
            ) from None
        try:
            await store()
        except BaseException:
            await self._swap(before, entries)
            raise

    async def _swap(self, entries: dict[str, bytes], before: dict[str, bytes]) -> None:
        self._source.entries = entries
        self._source.on_error = "raise"
        try:
            await asyncio.to_thread(self._registry.refresh, strict=True, only=self._source)
        except ToolyardError:
            self._source.entries = before
            raise
        finally:
            self._source.on_error = "skip"

    def _check_free(self, name: str) -> None:
        for tool in self._registry.get(name):
            if tool.source != self._source.source:
                raise HttpFault(
                    409,
                    "tool.exists",
                    f"{show(name)} comes from {tool.source or 'another source'}, which cannot be changed here",
                    hint="register it under another name",
                )

    async def _stored(self) -> dict[str, bytes]:
        return {record.name: record.value for record in await self._records.aall(KIND)}


def _make_tool(name: str, registration: Registration) -> Tool:
    target = registration.binding
    binding: Binding | None = None
    if isinstance(target, RestTarget):
        # READ tools run again, and in simulations.
        if registration.effects == "read" and target.method in _CHANGING:
            raise DefinitionError(f"a tool with the method {target.method} cannot have the effects 'read'; use 'write'")
        binding = _make_rest_binding(target)
    elif isinstance(target, McpTarget):
        binding = McpBinding(target.server, target.tool_name)
    namespace, own = split_qualified(name)
    return Tool(
        own,
        namespace,
        registration.description,
        registration.parameters,
        registration.output_parameters,
        registration.metadata,
        version=None if registration.version is UNSET else registration.version,
        tags=tuple(registration.tags),
        aliases=tuple(registration.aliases),
        effects=registration.effects,  # type: ignore[arg-type]
        source=RegisteredTools.label,
        binding=binding,
    )


def _make_rest_binding(target: RestTarget) -> RestBinding:
    parameters = tuple(
        RestParameter(argument=argument, name=name, location=where, style=_STYLES[where], explode=where != "path")
        for argument, (where, name) in target.locations.items()
        if where != "body"
    )
    located = {argument: name for argument, (where, name) in target.locations.items() if where == "body"}
    body = None if target.body is UNSET else target.body
    if located:
        if body is not None:
            raise ConfigError("both 'locations' and 'body' define the request body; use one of them")
        body = RestBody(media_type="application/json", properties=located)
    parameters += tuple(target.parameters)
    return RestBinding(target.method, target.path, read_base_url(target.base_url, "base_url"), parameters, body)


_RELOAD = "reload"


class LoadedCatalog:
    """The sources of one yard, kept up to date with the other processes of the service."""

    def __init__(self, yard: Toolyard, records: Records, registrations: Registrations) -> None:
        self.registry = yard.tool_registry
        self._records = records
        self._registrations = registrations
        self._sandbox: tuple[object, str] = (None, "")
        self._reloads = 0

    @property
    def sandbox(self) -> str:
        """The weakest sandbox level of any script tool; `inprocess` means no sandbox, `none` no script tools."""
        snapshot = self.registry.snapshot
        if self._sandbox[0] is not snapshot:
            self._sandbox = (snapshot, weakest_level(snapshot.tools))
        return self._sandbox[1]

    async def start(self) -> None:
        """Load the registered tools, and note the current reload version."""
        await self._registrations.start()
        self._reloads = await self._records.aversion(_RELOAD)

    async def reload(self) -> None:
        """Reload all sources, and signal the other processes to do so too."""
        await asyncio.to_thread(self.registry.refresh)
        if self._records.shared:
            await self._records.aput(_RELOAD, "", "last", str(time.time()).encode())
            self._reloads = await self._records.aversion(_RELOAD)

    async def follow_others(self) -> None:
        """Apply registrations and reloads of other processes."""
        await self._registrations.catch_up(await self._records.aversion(KIND))
        reloads = await self._records.aversion(_RELOAD)
        if reloads != self._reloads:
            self._reloads = reloads
            await asyncio.to_thread(self.registry.refresh)
