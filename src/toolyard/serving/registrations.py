"""`Registrations`: tools that are registered over HTTP while the server runs, as a source of the registry.

A registered tool is a definition, and data that says how it is reached; never code. Registrations are kept in the
store, so that every process of the service has them, also after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import UNSET

from toolyard.links.http.url import read_base_url
from toolyard.model.bindings import Binding, McpBinding, RestBinding, RestBody, RestParameter, Style
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource, ToolyardError
from toolyard.model.names import show, split_qualified
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.wire_types import McpTarget, Registration, RestTarget, Target
from toolyard.sessions.records import Records
from toolyard.sources.base import Intake, ToolLoader

KIND = "tool"
_OWNER = ""
_CHANGING = frozenset({"PUT", "PATCH", "DELETE"})
_STYLES: dict[str, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}


class StoredRegistration(Registration):
    """A registration as it is kept."""

    qualified_only: bool = False
    """True: a key that may change its namespace alone registered it, so that it has no say in what bare names mean."""


class RegisteredTools(ToolLoader):
    """The source that holds what was registered over HTTP; refreshed when another process changes it."""

    label = "registered"

    def __init__(self) -> None:
        self._set_policies("skip", "raise")
        self.entries: dict[str, bytes] = {}

    def load(self) -> list[Tool]:
        """Every registered tool. One that no longer fits is listed as rejected."""
        intake, bound = Intake(self), set()
        for name, text in self.entries.items():
            try:
                stored = msgspec.json.decode(text, type=StoredRegistration)
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
    """Changes the registered tools: the registry first, which refuses what does not fit, then the store."""

    def __init__(self, registry: ToolRegistry, records: Records) -> None:
        self._registry = registry
        self._records = records
        self._source = RegisteredTools()
        self._changing = asyncio.Lock()
        self._seen = -1

    async def start(self) -> None:
        """Load what earlier runs and other processes registered."""
        self._source.entries = await self._stored()
        await asyncio.to_thread(self._registry.attach, self._source)

    async def catch_up(self, version: int) -> None:
        """Take over what another process changed, if the version says so."""
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
                    self._source.entries = before  # so that it is tried again
                    raise
            self._seen = version

    async def put(self, name: str, registration: Registration, *, qualified_only: bool = False) -> bool:
        """Register or replace; True if it is new."""
        if qualified_only:
            registration = StoredRegistration(**msgspec.structs.asdict(registration), qualified_only=True)
        text = msgspec.json.encode(registration)
        async with self._changing:
            before = self._source.entries
            self._check_free(name)
            await self._change({**before, name: text}, lambda: self._records.aput(KIND, _OWNER, name, text))
            return name not in before

    async def remove(self, name: str) -> bool:
        """Remove a registered tool; False if there is none of that name."""
        async with self._changing:
            before = self._source.entries
            if name not in before:
                return False
            rest = {key: value for key, value in before.items() if key != name}
            await self._change(rest, lambda: self._records.aremove(KIND, _OWNER, name))
            return True

    async def _change(self, entries: dict[str, bytes], store: Callable[[], Awaitable[object]]) -> None:
        before = self._source.entries
        await self._swap(entries, before)
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
    _check_effects(registration)
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
        binding=None if registration.binding is UNSET else _make_binding(registration.binding),
    )


def _make_binding(target: Target) -> Binding | None:
    match target:
        case RestTarget():
            return _make_rest_binding(target)
        case McpTarget():
            return McpBinding(target.server, target.tool_name)
    return None


def _check_effects(registration: Registration) -> None:
    """What is said to read only may be simulated by calling it, and repeated; these methods are not for reading."""
    target = registration.binding
    if isinstance(target, RestTarget) and registration.effects == "read" and target.method in _CHANGING:
        raise DefinitionError(f"a tool that is a {target.method} cannot have the effects 'read'; say 'write'")


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
            raise ConfigError("the body is given twice: by 'locations' and by 'body'; give it once")
        body = RestBody(media_type="application/json", properties=located)
    parameters += tuple(target.parameters)
    return RestBinding(target.method, target.path, read_base_url(target.base_url, "base_url"), parameters, body)
