"""ARP v1: definitions and invocations. Optional fields are omitted, never null."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from toolyard.model.bindings import McpBinding, RestBinding
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo, UnknownToolError
from toolyard.model.names import show
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import NOBODY, Principal
from toolyard.serving.invoke import TOOL_ID, Invoker, ServedNames, show_error, wrap_result
from toolyard.serving.query import query_str
from toolyard.serving.routes.tools import FINGERPRINT
from toolyard.serving.routing import JsonResponse, caller_of, operation, or_default, path_value, read_json
from toolyard.serving.wire_types import Count, Extensions, Json, Name, Shape


class ArpResourceRef(Shape):
    """A reference to a resource."""

    type: str
    id: str
    uri: str | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpMetadata(Shape):
    """The labels and annotations of a tool."""

    labels: dict[str, str] | UnsetType = UNSET
    annotations: dict[str, str] | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpDefinition(Shape):
    """A tool in the format of ARP v1."""

    tool_id: str
    name: str
    input_schema: Json
    source: Literal["registry_local", "remote"]
    description: str | UnsetType = UNSET
    output_schema: Json | UnsetType = UNSET
    metadata: ArpMetadata | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpInvocation(Shape):
    """Call one tool with `args`; at least one of `tool_id` and `tool_name` is required."""

    invocation_id: Annotated[str, Meta(min_length=1, max_length=512)]
    args: Json
    tool_id: Name | UnsetType = UNSET
    tool_name: Name | UnsetType = UNSET
    context: Json | UnsetType = UNSET
    caller: ArpResourceRef | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.tool_id is UNSET and self.tool_name is UNSET:
            raise ValueError("at least one of `tool_id` and `tool_name` is needed")


class ArpErrorCause(Shape):
    """The cause of an error."""

    message: str
    code: str | UnsetType = UNSET
    details: Json | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpError(Shape):
    """An error in the format of ARP v1."""

    code: str
    message: str
    details: Json | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET
    cause: ArpErrorCause | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpErrorEnvelope(Shape):
    """The body of every error response, in the format of ARP v1."""

    error: ArpError
    extensions: Extensions | UnsetType = UNSET


class ArpResult(Shape):
    """The result of a call, in the format of ARP v1."""

    invocation_id: str
    ok: bool
    result: Json | UnsetType = UNSET
    error: ArpError | UnsetType = UNSET
    duration_ms: Count | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpTools:
    """Operations under `/arp`."""

    def __init__(self, catalog: CatalogView, invoker: Invoker) -> None:
        self._catalog = catalog
        self._invoker = invoker

    @operation(
        *("GET /arp/v1/tools", "All tools, in the format of ARP v1"),
        answers={200: list[ArpDefinition], 304: None},
        verb="list",
        heavy=True,
    )
    async def list_tools(self, request: Request) -> Response:
        """Every definition that the key may see; overloads are separate items."""
        principal = caller_of(request).principal

        def show_all(snapshot: Snapshot) -> list[dict[str, Any]]:
            names = self._catalog.names.now
            return [show_arp_definition(names, tool) for tool in self._catalog.list_visible(principal, snapshot)]

        return await self._catalog.answer_listing(request, "arp", show_all)

    @operation(
        *("GET /arp/v1/tools/{tool_id}", "Get a tool by its id"),
        answers={200: ArpDefinition},
        errors=(404, 409),
        query=(FINGERPRINT,),
        verb="list",
    )
    async def get_tool(self, request: Request) -> Response:
        """A definition by its tool id; 409 for an overloaded tool without `fingerprint`."""
        tool_id, principal = path_value(request), caller_of(request).principal
        tool = self._catalog.find_definition(principal, tool_id, query_str(request, "fingerprint"), by_id=True)
        return JsonResponse(show_arp_definition(self._catalog.names.now, tool))

    @operation(
        *("POST /arp/v1/tool-invocations", "Call a tool; a repeated invocation_id returns the first result"),
        body=ArpInvocation,
        answers={200: ArpResult},
        errors=(409,),
        runs=True,
    )
    async def invoke(self, request: Request) -> Response:
        """A failed call has status 200; other statuses are for invalid requests."""
        body, plain = await read_json(request, ArpInvocation)
        caller = caller_of(request)
        call, unknown = self._resolve_call(caller.principal, body)
        context: Json = or_default(body.context, {})
        meta = context.get("meta")

        async def make() -> Response:
            if unknown is not None:
                return _answer_failure(body.invocation_id, unknown, 0)
            began = time.perf_counter()
            trace = meta if isinstance(meta, dict) else {}
            [result] = await self._invoker.run_calls(caller, [call], context=context, trace=trace)
            return _answer_call(body, result, int((time.perf_counter() - began) * 1000))

        return await self._invoker.run_idempotent(
            *(caller, f"invocation:{body.invocation_id}", (plain,), make),
            lambda info: _answer_failure(body.invocation_id, info, 0),
            tool_name=call.name,
        )

    def _resolve_call(self, principal: Principal, body: ArpInvocation) -> tuple[ToolCall, ErrorInfo | None]:
        """The call with its tool resolved, or the error if none is found. Id and name must agree if both are given."""
        given = ToolCall("" if body.tool_name is UNSET else body.tool_name, body.args)
        named = self._invoker.resolve_call(principal, given)
        if body.tool_id is UNSET:
            return named, None
        names, sees = self._catalog.names.now, None if principal is NOBODY else principal.can_see
        by_id = names.find_id(body.tool_id, sees)
        if by_id is None:
            unknown = self._catalog.make_unknown(principal, body.tool_id, by_id=True)
            details = {**unknown.details, **_show_given(body)}
            words = f"no tool has the id {show(body.tool_id)}"
            return named, UnknownToolError(words, details=details, hint=unknown.hint).info
        if body.tool_name is not UNSET and names.find_name(named.name, sees) != by_id:
            both = f"tool_id {show(body.tool_id)} and tool_name {show(body.tool_name)}"
            raise HttpFault(400, "request.conflict", f"{both} are different tools; give one of them")
        if body.tool_name is UNSET:
            named = self._invoker.resolve_call(principal, ToolCall(body.tool_id.removeprefix(TOOL_ID), body.args))
        return msgspec.structs.replace(named, name=by_id), None


def _show_given(body: ArpInvocation) -> dict[str, Any]:
    named = {"tool_id": body.tool_id, "tool_name": body.tool_name}
    return {key: value for key, value in named.items() if value is not UNSET}


def _answer_call(body: ArpInvocation, result: ToolResult, duration: int) -> Response:
    info = result.error_info
    if info is not None:
        if info.code == UnknownToolError.code:
            info = msgspec.structs.replace(info, details={**info.details, **_show_given(body)})
        return _answer_failure(body.invocation_id, info, duration)
    answer = {"invocation_id": body.invocation_id, "ok": True, "result": wrap_result(result.result)}
    return JsonResponse({**answer, "duration_ms": duration})


def _answer_failure(invocation_id: str, info: ErrorInfo, duration: int) -> Response:
    error = show_error(info, lambda violation: f"${violation['pointer'].replace('/', '.')}: {violation['message']}")
    return JsonResponse({"invocation_id": invocation_id, "ok": False, "error": error, "duration_ms": duration})


def show_arp_definition(names: ServedNames, tool: Tool) -> dict[str, Any]:
    """A tool as an ARP definition; whatever ARP has no field for is in the extensions."""
    found: dict[str, Any] = {
        "tool_id": names.tool_id(tool.qualified_name),
        "name": names.spell_name(tool.qualified_name),
        "description": tool.description,
        "input_schema": tool.parameters,
        "source": "remote" if isinstance(tool.binding, RestBinding | McpBinding) else "registry_local",
    }
    if tool.output_parameters:
        found["output_schema"] = tool.output_parameters
    extensions: dict[str, Any] = {
        "toolyard.qualified_name": tool.qualified_name,
        "toolyard.version": tool.version or "0.0.0",
        "toolyard.fingerprint": tool.fingerprint,
        "toolyard.effects": tool.effects.value,
    }
    if tool.tags:
        extensions["toolyard.tags"] = list(tool.tags)
    found["extensions"] = extensions
    return found
