"""Registering tools over HTTP, and removing them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from toolyard.app.toolyard import Toolyard
from toolyard.constants import TOOL_DEFAULT_NAMESPACE, TOOL_NAMESPACE_SEP
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource
from toolyard.model.names import check_namespace, check_tool_name, qualify, show, split_qualified
from toolyard.schema.definition import read_definition
from toolyard.schema.normalise import Change, normalise
from toolyard.serving.catalog_view import show_native
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal
from toolyard.serving.invoke import CurrentNames
from toolyard.serving.registrations import McpTarget, Registration, Registrations
from toolyard.serving.routing import JsonResponse, caller_of, operation, path_value, read_json
from toolyard.serving.wire_types import Count, NativeTool, Shape


class Registered(Shape):
    """The registered tool, and the engine that runs it; without an engine, calls fail with `tool.no_engine`."""

    tool: NativeTool
    generation: Count
    engine: str | UnsetType = UNSET
    rewrites: list[str] | UnsetType = UNSET
    """The changes made to a definition that was in a provider's format."""


class RegistrationRoutes:
    """Registers and removes tools; those of the config's sources cannot be changed."""

    def __init__(self, yard: Toolyard, registrations: Registrations, names: CurrentNames) -> None:
        self._yard = yard
        self._registrations = registrations
        self._names = names

    @operation(
        *("PUT /v1/tools/{name}", "Register or replace a tool"),
        body=Registration,
        answers={200: Registered, 201: Registered},
        errors=(409, 503),
        verb="admin",
    )
    async def put_tool(self, request: Request) -> Response:
        """The body may use any format that catalogs have. Tools of the config's sources cannot be replaced."""
        principal = caller_of(request).principal
        name = self._read_name(principal, path_value(request))
        document = (await read_json(request, dict))[1]
        # In a thread: a large definition takes long to parse.
        body, changes = await asyncio.to_thread(read_registration, name, document)
        _check_admin(principal, name)
        _check_server(principal, body)
        try:
            # Bare names are shared by all namespaces, so claiming one needs `*:admin`.
            everywhere = principal.scopes.allows_everywhere("admin")
            new = await self._registrations.put(name, body, qualified_only=not everywhere)
        except (ConfigError, DefinitionError, MalformedSource) as error:
            raise HttpFault(400, "tool.invalid_definition", str(error)) from None
        registry, engine = self._yard.tool_registry, self._yard.tool_engine
        tool = registry.get(name)[0]
        answer: dict[str, Any] = {"tool": show_native(tool), "generation": registry.generation}
        if changes:
            answer["rewrites"] = [f"{change.pointer}: {change.what}" for change in changes]
        if engine.takes(tool):
            answer["engine"] = engine.route(tool).name
        return JsonResponse(answer, 201 if new else 200)

    @operation(
        *("DELETE /v1/tools/{name}", "Remove a registered tool"),
        answers={204: None},
        errors=(404, 409, 503),
        verb="admin",
    )
    async def delete_tool(self, request: Request) -> Response:
        """Only registered tools can be removed; 409 for a tool of one of the config's sources."""
        principal = caller_of(request).principal
        try:
            name = self._read_name(principal, path_value(request))
        except HttpFault as fault:
            raise HttpFault(404, "tool.not_found", fault.message) from None
        _check_admin(principal, name)
        if await self._registrations.remove(name):
            return Response(status_code=204)
        if self._yard.tool_registry.get(name):
            whose = f"{show(name)} was not registered here; it belongs to a source of the config"
            raise HttpFault(409, "tool.not_registered", whose)
        raise HttpFault(404, "tool.not_found", f"no tool is called {show(name)}")

    def _read_name(self, principal: Principal, given: str) -> str:
        """The qualified name. A bare name means the tool that the principal sees under it, else a name in the default
        namespace.
        """
        names = self._names.now
        name = names.qualify_name(given)
        if name != given and not principal.can_see(names.snapshot.names[name][0].tool):
            name = given
        qualified = name if TOOL_NAMESPACE_SEP in name else qualify(TOOL_DEFAULT_NAMESPACE, name)
        try:
            namespace, own = split_qualified(qualified)
            check_namespace(namespace)
            check_tool_name(own)
        except DefinitionError as error:
            raise HttpFault(400, "tool.invalid_name", str(error)) from None
        return qualified


def read_registration(name: str, document: dict[str, Any]) -> tuple[Registration, list[Change]]:
    """Read a body in toolyard's format or any dialect of catalogs; also returns the changes made while reading.

    The URL path gives the tool's name; a body that names another tool or namespace is refused.
    """
    namespace, own = split_qualified(name)
    repeated = [("name", own), ("name", name), ("namespace", namespace)]
    plain = {key: value for key, value in document.items() if (key, value) not in repeated}
    binding = {"binding": plain.pop("binding")} if "binding" in plain else {}
    try:
        try:
            return msgspec.convert(plain | binding, Registration), []
        except msgspec.ValidationError:
            tool, changes = read_definition(plain, namespace=namespace, name=own)
            if not changes:
                raise
        if tool.qualified_name != name:
            raise DefinitionError(f"it defines {show(tool.qualified_name)}, and the path says {show(name)}")
        fields = {key: value for key, value in tool.to_dict().items() if key in Registration.__struct_fields__}
        for key in ("parameters", "output_parameters"):
            # Normalise parameter lists and similar, since only JSON objects can be stored.
            fields[key], more = normalise(fields[key], is_input=key == "parameters")
            changes += [Change(f"/{key}{change.pointer}", change.what) for change in more]
        return msgspec.convert(fields | binding, Registration), changes
    except (msgspec.ValidationError, DefinitionError) as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: {error}") from None


def _check_admin(principal: Principal, name: str) -> None:
    namespace = split_qualified(name)[0]
    if not principal.scopes.allows("admin", namespace):
        raise HttpFault(403, "auth.forbidden", f"this key may not change tools of {show(namespace)}")


def _check_server(principal: Principal, registration: Registration) -> None:
    """Require `*:admin` for a binding to an MCP server: the policy may know its tools by another namespace."""
    if isinstance(registration.binding, McpTarget) and not principal.scopes.allows_everywhere("admin"):
        raise HttpFault(
            403,
            "auth.forbidden",
            "this key may not register tools of an MCP server",
            hint="that takes a key with '*:admin', since the server's own namespace may be another one",
        )
