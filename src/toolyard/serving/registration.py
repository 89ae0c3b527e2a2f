"""Tools that are registered while the server runs: a definition, and data that says how they are reached. Never code.

They are kept in the store, so every process of the service has them, also after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
from msgspec import UNSET

from toolyard.constants import TOOL_DEFAULT_NAMESPACE, TOOL_NAMESPACE_SEP
from toolyard.links.http import read_address
from toolyard.model.bindings import Binding, McpBinding, RestBinding, RestBody, RestParameter, Style
from toolyard.model.errors import ConfigError, DefinitionError, EnrichmentError, MalformedSource, ToolyardError
from toolyard.model.names import check_namespace, check_tool_name, qualify, show, split_qualified
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.serving.bodies import read_json
from toolyard.serving.catalog import native
from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request
from toolyard.serving.response import Response, json_response
from toolyard.serving.routes import Route
from toolyard.serving.running import meant
from toolyard.serving.service import Service
from toolyard.serving.shapes import ErrorEnvelope, McpTarget, Registered, Registration, RestTarget, Target
from toolyard.sessions.records import Records
from toolyard.sources.base import Intake, ToolLoader

KIND = "tool"
_OWNER = ""
_CHANGING = frozenset({"PUT", "PATCH", "DELETE"})
_STYLES: dict[str, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_log = logging.getLogger(__name__)


class RegisteredTools(ToolLoader):
    """The source that holds what was registered over HTTP; refreshed when another process changes it."""

    label = "registered"

    def __init__(self) -> None:
        self._set_policies("skip", "raise")
        self.entries: dict[str, bytes] = {}

    def load(self) -> list[Tool]:
        """Every registered tool. One that no longer fits is listed as rejected."""
        intake = Intake(self)
        for name, text in self.entries.items():
            try:
                intake.take(_tool(name, msgspec.json.decode(text, type=Registration)), f"registered {name}")
            except (ConfigError, DefinitionError, msgspec.DecodeError) as error:
                intake.reject(MalformedSource(str(error)), f"registered {name}", name)
        return intake.finish()


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

    async def put(self, name: str, registration: Registration) -> bool:
        """Register or replace; True if it is new."""
        text = msgspec.json.encode(registration)
        async with self._changing:
            before = self._source.entries
            self._check_free(name)
            await self._swap({**before, name: text}, before)
            try:
                await self._records.aput(KIND, _OWNER, name, text)
            except BaseException:
                await self._swap(before, before)
                raise
            return name not in before

    async def remove(self, name: str) -> bool:
        """Take a registered tool out again; False if there is none of that name."""
        async with self._changing:
            before = self._source.entries
            if name not in before:
                return False
            rest = {key: value for key, value in before.items() if key != name}
            await self._swap(rest, before)
            try:
                await self._records.aremove(KIND, _OWNER, name)
            except BaseException:
                await self._swap(before, rest)
                raise
            return True

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


async def put_tool(service: Service, request: Request) -> Response:
    """Register a tool, or replace one that was registered."""
    name = _name(service, request)
    body, _ = await read_json(request, Registration, service.block)
    _check_admin(request, name)
    _check_server(request, body)
    try:
        new = await service.registrations.put(name, body)
    except (ConfigError, DefinitionError, MalformedSource) as error:
        raise HttpFault(400, "tool.invalid_definition", str(error)) from None
    except EnrichmentError as error:
        raise _unstudied(error) from None
    registry = service.yard.tool_registry
    tool = registry.get(name)[0]
    answer: dict[str, Any] = {"tool": native(tool), "generation": registry.generation}
    engine = service.yard.tool_engine
    if engine.takes(tool):
        answer["engine"] = engine.route(tool).name
    return json_response(answer, 201 if new else 200)


async def delete_tool(service: Service, request: Request) -> Response:
    """Take a registered tool out again."""
    try:
        name = _name(service, request)
    except HttpFault as fault:
        raise HttpFault(404, "tool.not_found", fault.message) from None
    _check_admin(request, name)
    try:
        removed = await service.registrations.remove(name)
    except EnrichmentError as error:
        raise _unstudied(error) from None
    if removed:
        return Response(204)
    if service.yard.tool_registry.get(name):
        raise HttpFault(
            409, "tool.not_registered", f"{show(name)} was not registered here; it belongs to a source of the config"
        )
    raise HttpFault(404, "tool.not_found", f"no tool is called {show(name)}")


def _unstudied(error: EnrichmentError) -> HttpFault:
    """The registry is as it was: an enrichment of the config could not do its part of the change."""
    return HttpFault(
        503,
        "catalog.enrichment_failed",
        f"nothing was changed: {error}",
        retryable=True,
        hint="see tools.enrichments in the config of the server",
    )


def _name(service: Service, request: Request) -> str:
    """The whole name; one without a namespace is a domain's tool if one is spelt so, else in the default one."""
    name = meant(service, request, request.values[0])
    qualified = name if TOOL_NAMESPACE_SEP in name else qualify(TOOL_DEFAULT_NAMESPACE, name)
    try:
        namespace, own = split_qualified(qualified)
        check_namespace(namespace)
        check_tool_name(own)
    except DefinitionError as error:
        raise HttpFault(400, "tool.invalid_name", str(error)) from None
    return qualified


def _check_admin(request: Request, name: str) -> None:
    namespace = split_qualified(name)[0]
    if not request.principal.scopes.allows("admin", namespace):
        raise HttpFault(403, "auth.forbidden", f"this key may not change tools of {show(namespace)}")


def _check_server(request: Request, registration: Registration) -> None:
    """A server of the yard is called in the yard's name, by whatever name the policy knows its tools."""
    if isinstance(registration.binding, McpTarget) and not request.principal.scopes.everywhere("admin"):
        raise HttpFault(
            403,
            "auth.forbidden",
            "this key may not register tools of an MCP server",
            hint="that takes a key with '*:admin', since the server's own namespace may be another one",
        )


def _tool(name: str, registration: Registration) -> Tool:
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
        binding=None if registration.binding is UNSET else _binding(registration.binding),
    )


def _binding(target: Target) -> Binding | None:
    match target:
        case RestTarget():
            return _rest(target)
        case McpTarget():
            return McpBinding(target.server, target.tool_name)
    return None


def _check_effects(registration: Registration) -> None:
    """What is said to read only may be simulated by calling it, and repeated; these methods are not for reading."""
    target = registration.binding
    if isinstance(target, RestTarget) and registration.effects == "read" and target.method in _CHANGING:
        raise DefinitionError(f"a tool that is a {target.method} cannot have the effects 'read'; say 'write'")


def _rest(target: RestTarget) -> RestBinding:
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
    return RestBinding(target.method, target.path, read_address(target.base_url), parameters, body)


REGISTRATION_ROUTES = (
    Route(
        "PUT",
        "/v1/tools/{name}",
        put_tool,
        "Register a tool, or replace one that was registered",
        body=Registration,
        answers={200: Registered, 201: Registered, 409: ErrorEnvelope, 503: ErrorEnvelope},
        verb="admin",
    ),
    Route(
        "DELETE",
        "/v1/tools/{name}",
        delete_tool,
        "Take a registered tool out again",
        answers={204: None, 404: ErrorEnvelope, 409: ErrorEnvelope, 503: ErrorEnvelope},
        verb="admin",
    ),
)
