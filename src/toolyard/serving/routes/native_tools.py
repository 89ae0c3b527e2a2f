"""The wire of the first tool registry: a tool's definition, and `:invoke`."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CALL_STATUSES, ErrorInfo, http_status_of
from toolyard.model.tool import Tool
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Caller
from toolyard.serving.invoke import (
    Invoker,
    ServedNames,
    as_object,
    collect_details,
    idempotency_key,
    locate_approval,
    or_default,
)
from toolyard.serving.routing import (
    JsonResponse,
    Operation,
    QueryParameter,
    caller_of,
    digest_json,
    path_value,
    query_str,
    read_json,
)
from toolyard.serving.wire_types import SCHEMA_VERSION, ErrorEnvelope, V0Definition, V0Invocation, V0Result, V0Trace

FINGERPRINT = QueryParameter(
    "fingerprint", {"type": "string", "minLength": 1}, "Selects one overload; the beginning is enough."
)


class NativeTools:
    """Shows tools, and calls them."""

    def __init__(self, catalog: CatalogView, invoker: Invoker) -> None:
        self._catalog = catalog
        self._invoker = invoker

    def operations(self) -> tuple[Operation, ...]:
        """Invocations first: most requests are such."""
        statuses = sorted({200, *CALL_STATUSES})
        return (
            Operation(
                "POST",
                "/v1/tools/{name}:invoke",
                self.invoke,
                "Call a tool",
                body=V0Invocation,
                answers=dict.fromkeys(statuses, V0Result) | {409: (V0Result, ErrorEnvelope)},
                query=(FINGERPRINT,),
                runs=True,
                idempotent=True,
            ),
            Operation(
                "GET",
                "/v1/tools/{name}",
                self.get_tool,
                "One tool, whole",
                answers={200: V0Definition, 404: ErrorEnvelope, 409: ErrorEnvelope},
                query=(FINGERPRINT,),
                verb="list",
            ),
        )

    async def get_tool(self, request: Request) -> Response:
        """One definition; 409 for an overloaded name unless the fingerprint says which."""
        principal, fingerprint = caller_of(request).principal, query_str(request, "fingerprint")
        tool = self._catalog.find_definition(principal, path_value(request), fingerprint)
        return JsonResponse(_show_definition(self._catalog.names.now, tool))

    async def invoke(self, request: Request) -> Response:
        """Call one tool."""
        body, plain = await read_json(request, V0Invocation)
        trace = or_default(body.trace, {})
        if trace:
            _check_trace(trace)
        caller = caller_of(request)
        overload = query_str(request, "fingerprint") if request.scope["query_string"] else None
        call = self._invoker.resolve_call(caller.principal, ToolCall(path_value(request), body.args, None, overload))
        context: dict[str, Any] = or_default(body.context, {})
        root = request.scope.get("root_path", "")
        key = idempotency_key(caller)
        if key is None and b"prefer" not in caller.headers:
            return await self._run_call(caller, call, context, trace, root)
        digest = digest_json(request.method, request.scope["path"], call.overload, plain)

        def make() -> Awaitable[Response]:
            return self._run_call(caller, call, context, trace, root)

        return await self._invoker.run_idempotent(caller, key, digest, make, _answer_interrupted, tool_name=call.name)

    async def _run_call(
        self, caller: Caller, call: ToolCall, context: dict[str, Any], trace: dict[str, Any], root: str
    ) -> Response:
        began = time.perf_counter()
        [result] = await self._invoker.run_calls(caller, (call,), context=context, trace=trace)
        return _answer_call(result, time.perf_counter() - began, root)


def _check_trace(trace: dict[str, Any]) -> None:
    try:
        msgspec.convert(trace, V0Trace)
    except msgspec.ValidationError as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: trace: {error}") from None


def _answer_call(result: ToolResult, seconds: float, root: str) -> Response:
    metrics = {"latency_ms": int(seconds * 1000)}
    if result.error_info is not None:
        return _answer_failure(result.error_info, metrics, locate_approval(root, (result,)))
    answer = {"schema_version": SCHEMA_VERSION, "ok": True, "result": as_object(result.result), "metrics": metrics}
    return JsonResponse(answer)


def _answer_failure(info: ErrorInfo, metrics: dict[str, int], headers: dict[str, str] | None = None) -> Response:
    error: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "code": info.code,
        "message": info.message,
        "retryable": info.retryable,
    }
    details = collect_details(info)
    if "violations" in info.details:
        details["issues"] = [
            {"path": violation["pointer"], "message": violation["message"], "rule": violation["keyword"]}
            for violation in info.details["violations"]
        ]
    if details:
        error["details"] = details
    answer = {"schema_version": SCHEMA_VERSION, "ok": False, "error": error, "metrics": metrics}
    return JsonResponse(answer, http_status_of(info.code), headers=headers)


def _answer_interrupted(info: ErrorInfo) -> Response:
    return _answer_failure(info, {"latency_ms": 0})


def _show_definition(names: ServedNames, tool: Tool) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "name": names.spell_name(tool.qualified_name),
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
