"""The wire of the first tool registry: `/v1/tools`, a tool's definition, and `:invoke`."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

import msgspec

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo
from toolyard.model.tool import Tool
from toolyard.serving.bodies import digest_of, is_small, one, read_json, read_small
from toolyard.serving.catalog import definition_of
from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request
from toolyard.serving.response import Response, json_response
from toolyard.serving.routes import Parameter, Route
from toolyard.serving.running import as_object, details_of, given, idempotency_key, meant, once, run_calls
from toolyard.serving.service import Service
from toolyard.serving.shapes import SCHEMA_VERSION, ErrorEnvelope, V0Definition, V0Invocation, V0Result, V0Trace

_STATUS = {
    "tool.not_found": 404,
    "tool.invalid_args": 400,
    "tool.denied": 403,
    "tool.timeout": 504,
    "tool.unavailable": 503,
    "tool.no_engine": 409,
    "catalog.stale": 409,
    "call.conflict": 409,
}
"""Of calls that failed; 500 for whatever else a tool did."""

FINGERPRINT = Parameter(
    "fingerprint", {"type": "string", "minLength": 1}, "Selects one overload; the beginning is enough."
)


async def get_tool(service: Service, request: Request) -> Response:
    """One definition; 409 for an overloaded name unless the fingerprint says which."""
    tool = definition_of(service, request, request.values[0], one(request, "fingerprint"))
    return json_response(_definition(service, tool))


async def invoke(service: Service, request: Request) -> Response:
    """Call one tool."""
    if is_small(request):
        body, plain = read_small(request, V0Invocation, service.block)
    else:
        body, plain = await read_json(request, V0Invocation, service.block)
    trace = given(body.trace, {})
    if trace:
        _check_trace(trace)
    name = meant(service, request, request.values[0])
    call = ToolCall(name, body.args, None, one(request, "fingerprint") if request.scope["query_string"] else None)
    context: dict[str, Any] = given(body.context, {})
    key = idempotency_key(request)
    if key is None:
        return await _called(service, request, call, context, trace)
    digest = digest_of(request.method, request.path, call.overload, plain)

    def make() -> Awaitable[Response]:
        return _called(service, request, call, context, trace)

    return await once(service, request, key, digest, make, _interrupted, tool_name=name)


async def _called(
    service: Service, request: Request, call: ToolCall, context: dict[str, Any], trace: dict[str, Any]
) -> Response:
    began = time.perf_counter()
    results = await run_calls(service, request, (call,), context=context, trace=trace)
    return _answer(results[0], time.perf_counter() - began)


def _check_trace(trace: dict[str, Any]) -> None:
    try:
        msgspec.convert(trace, V0Trace)
    except msgspec.ValidationError as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: trace: {error}") from None


def _answer(result: ToolResult, seconds: float) -> Response:
    metrics = {"latency_ms": int(seconds * 1000)}
    if result.error_info is not None:
        return _failed(result.error_info, metrics)
    answer = {"schema_version": SCHEMA_VERSION, "ok": True, "result": as_object(result.result), "metrics": metrics}
    return json_response(answer)


def _failed(info: ErrorInfo, metrics: dict[str, int]) -> Response:
    error: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "code": info.code,
        "message": info.message,
        "retryable": info.retryable,
    }
    details = details_of(info)
    if "violations" in info.details:
        details["issues"] = [
            {"path": violation["pointer"], "message": violation["message"], "rule": violation["keyword"]}
            for violation in info.details["violations"]
        ]
    if details:
        error["details"] = details
    answer = {"schema_version": SCHEMA_VERSION, "ok": False, "error": error, "metrics": metrics}
    return json_response(answer, _STATUS.get(info.code, 500))


def _interrupted(info: ErrorInfo) -> Response:
    return _failed(info, {"latency_ms": 0})


def _definition(service: Service, tool: Tool) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "name": service.names.spelt(tool.qualified_name),
        "description": tool.description,
        "version": tool.version or "0.0.0",
        "parameters": tool.parameters,
    }
    if tool.output_parameters:
        definition["returns"] = tool.output_parameters
    if tool.tags:
        definition["tags"] = list(tool.tags)
    definition["source"] = {
        "qualified_name": tool.qualified_name,
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
        "effects": tool.effects.value,
    }
    return definition


V0_ROUTES = (
    Route(
        "GET",
        "/v1/tools/{name}",
        get_tool,
        "One tool, whole",
        answers={200: V0Definition, 404: ErrorEnvelope, 409: ErrorEnvelope},
        query=(FINGERPRINT,),
        verb="list",
    ),
    Route(
        "POST",
        "/v1/tools/{name}:invoke",
        invoke,
        "Call a tool",
        body=V0Invocation,
        answers=dict.fromkeys(sorted({200, 500, *_STATUS.values()}), V0Result) | {409: (V0Result, ErrorEnvelope)},
        query=(FINGERPRINT,),
        runs=True,
        idempotent=True,
    ),
)
