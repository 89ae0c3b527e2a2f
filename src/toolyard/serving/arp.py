"""ARP v1: definitions, invocations, and the rules that optional fields are left out and never null."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from msgspec import UNSET

from toolyard.model.bindings import McpBinding, RestBinding
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo, UnknownToolError
from toolyard.model.names import show
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.arp_shapes import ArpDefinition, ArpErrorEnvelope, ArpInvocation, ArpResult
from toolyard.serving.bodies import digest_of, one, read_json
from toolyard.serving.catalog import answered_once, overload_of, visible
from toolyard.serving.faults import HttpFault
from toolyard.serving.names import Names
from toolyard.serving.request import Request
from toolyard.serving.response import Response, json_response
from toolyard.serving.routes import Route
from toolyard.serving.running import as_object, details_of, given, meant, once, run_calls, scope_of
from toolyard.serving.service import Service
from toolyard.serving.v0 import FINGERPRINT


async def list_tools(service: Service, request: Request) -> Response:
    """Every definition, overloads each on their own."""
    return answered_once(service, request, "arp", lambda snapshot: _definitions(service, request, snapshot))


def _definitions(service: Service, request: Request, snapshot: Snapshot) -> list[dict[str, Any]]:
    names = service.names
    return [definition(names, tool) for tool in visible(service, request, snapshot)]


async def get_tool(service: Service, request: Request) -> Response:
    """One definition by its tool id; 409 for an overloaded one unless the fingerprint says which."""
    tool_id = request.values[0]
    scope = scope_of(request.principal)
    known = service.names.by_id(tool_id, None if scope is None else scope.lists)
    tool = overload_of(service, request, known, tool_id, one(request, "fingerprint"))
    return json_response(definition(service.names, tool))


async def invoke(service: Service, request: Request) -> Response:
    """Call one tool. Whatever comes of the call is a 200; other statuses are for requests that are none."""
    body, plain = await read_json(request, ArpInvocation, service.block)
    name, unknown = _meant(service, request, body)
    context: dict[str, Any] = given(body.context, {})
    meta = context.get("meta")

    async def make() -> Response:
        if unknown is not None:
            return _failed(body.invocation_id, unknown, 0)
        began = time.perf_counter()
        trace = meta if isinstance(meta, dict) else {}
        results = await run_calls(service, request, [ToolCall(name, body.args)], context=context, trace=trace)
        return _answer(body, results[0], int((time.perf_counter() - began) * 1000))

    return await once(
        service,
        request,
        f"invocation:{body.invocation_id}",
        digest_of(plain),
        make,
        lambda info: _failed(body.invocation_id, info, 0),
        tool_name=name,
    )


def _meant(service: Service, request: Request, body: ArpInvocation) -> tuple[str, ErrorInfo | None]:
    """The tool that id and name stand for, or why there is none. Both may be given, if they agree."""
    named = None if body.tool_name is UNSET else meant(service, request, body.tool_name)
    if body.tool_id is UNSET:
        return named or "", None
    names, scope = service.names, scope_of(request.principal)
    sees = None if scope is None else scope.sees
    by_id = names.by_id(body.tool_id, sees)
    if by_id is None:
        return named or "", UnknownToolError(f"no tool has the id {show(body.tool_id)}", details=_given_as(body)).info
    if named is not None and names.known(named, sees) != by_id:
        raise HttpFault(
            400,
            "request.conflict",
            f"tool_id {show(body.tool_id)} and tool_name {show(body.tool_name)} are different tools; give one of them",
        )
    return by_id, None


def _given_as(body: ArpInvocation) -> dict[str, Any]:
    named = {"tool_id": body.tool_id, "tool_name": body.tool_name}
    return {key: value for key, value in named.items() if value is not UNSET}


def _answer(body: ArpInvocation, result: ToolResult, duration: int) -> Response:
    info = result.error_info
    if info is not None:
        if info.code == UnknownToolError.code:
            info = msgspec.structs.replace(info, details={**info.details, **_given_as(body)})
        return _failed(body.invocation_id, info, duration)
    answer = {"invocation_id": body.invocation_id, "ok": True, "result": as_object(result.result)}
    return json_response({**answer, "duration_ms": duration})


def _failed(invocation_id: str, info: ErrorInfo, duration: int) -> Response:
    error: dict[str, Any] = {"code": info.code, "message": info.message, "retryable": info.retryable}
    details = details_of(info)
    if "violations" in info.details:
        details["issues"] = [_issue(item) for item in info.details["violations"]]
    if details:
        error["details"] = details
    return json_response({"invocation_id": invocation_id, "ok": False, "error": error, "duration_ms": duration})


def _issue(violation: dict[str, str]) -> str:
    return f"${violation['pointer'].replace('/', '.')}: {violation['message']}"


def definition(names: Names, tool: Tool) -> dict[str, Any]:
    """A tool as ARP spells it; what ARP has no field for is in the extensions."""
    found: dict[str, Any] = {
        "tool_id": names.tool_id(tool.qualified_name),
        "name": names.spelt(tool.qualified_name),
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


ARP_ROUTES = (
    Route(
        "GET",
        "/arp/v1/tools",
        list_tools,
        "All tools, as ARP v1 spells them",
        answers={200: list[ArpDefinition], 304: None},
        verb="list",
        heavy=True,
    ),
    Route(
        "GET",
        "/arp/v1/tools/{tool_id}",
        get_tool,
        "One tool by its id",
        answers={200: ArpDefinition, 404: ArpErrorEnvelope, 409: ArpErrorEnvelope},
        query=(FINGERPRINT,),
        verb="list",
    ),
    Route(
        "POST",
        "/arp/v1/tool-invocations",
        invoke,
        "Call a tool; a repeated invocation_id gets the first answer again",
        body=ArpInvocation,
        answers={200: ArpResult, 409: ArpErrorEnvelope},
        runs=True,
    ),
)
