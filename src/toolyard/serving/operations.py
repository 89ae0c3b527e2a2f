"""How the server is, what it is, what it loaded, and loading it again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from toolyard.constants import VERSION
from toolyard.model.errors import SessionError
from toolyard.model.report import SourceReport
from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request
from toolyard.serving.response import Response, json_response
from toolyard.serving.routes import Route
from toolyard.serving.service import Service
from toolyard.serving.shapes import ErrorEnvelope, Health, ReportView, VersionInfo

_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE = 1.0
_STATES = {"ok": "ok", "stale": "degraded", "failed": "down"}


async def health(service: Service, request: Request) -> Response:
    """The state of the store and of every source. What fails degrades the server; it does not bring it down."""
    # Names of sources may be paths or addresses, and whoever asks need not have a key.
    told = service.keys is None or not service.keys.required
    checks = [_check(source, place, told) for place, source in enumerate(service.report.sources)]
    checks += await _store(service)
    checks += [{"name": name, "status": "degraded", "message": kind} for name, kind in service.failing.items()]
    extensions: dict[str, Any] = {"toolyard.sandbox": service.sandbox}
    if told:
        registry = service.yard.tool_registry
        extensions |= {"toolyard.tools": len(registry), "toolyard.generation": registry.generation}
    return json_response(
        {
            "status": "ok" if all(check["status"] == "ok" for check in checks) else "degraded",
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "checks": checks,
            "extensions": extensions,
        }
    )


def _check(source: SourceReport, place: int, told: bool) -> dict[str, Any]:
    check: dict[str, Any] = {"name": source.source if told else f"source-{place}", "status": _STATES[source.state]}
    if source.state != "ok":
        check["message"] = f"the source is {source.state}; GET /v1/report says why"
    elif source.rejected and not source.loaded:
        check |= {"status": "degraded", "message": "nothing of the source could be loaded; GET /v1/report says why"}
    if told:
        check["details"] = {"loaded": source.loaded, "rejected": len(source.rejected)}
    return check


async def _store(service: Service) -> list[dict[str, Any]]:
    if not service.records.shared:
        return []
    try:
        await asyncio.wait_for(service.records.aversion("key"), _PATIENCE)
    except (SessionError, TimeoutError):
        return [{"name": "store", "status": "down", "message": "the store does not answer"}]
    return [{"name": "store", "status": "ok"}]


async def version(service: Service, request: Request) -> Response:
    """Name and version of the server, and the API versions it speaks."""
    return json_response({"service_name": "toolyard", "service_version": VERSION, "supported_api_versions": ["v1"]})


async def report(service: Service, request: Request) -> Response:
    """What every source loaded, rewrote and rejected."""
    _check_admin(request)
    return json_response(service.report.to_dict())


async def reload(service: Service, request: Request) -> Response:
    """Load every source again, in every process of the service; one that fails keeps its last good tools."""
    _check_admin(request)
    if await request.read(service.block.max_body_bytes):
        raise HttpFault(400, "request.invalid_shape", "a reload takes no body")
    await service.reload()
    return json_response(service.report.to_dict())


async def metrics(service: Service, request: Request) -> Response:
    """Counters and latencies for Prometheus."""
    if service.metrics is None:
        raise HttpFault(404, "route.not_found", "metrics are off here", hint="set server.metrics")
    _check_admin(request)
    text = await asyncio.to_thread(service.metrics.text)
    return Response(200, text, _METRICS.encode())


async def openapi(service: Service, request: Request) -> Response:
    """The API itself, for programs that read OpenAPI."""
    return service.documents[service.keys is not None and service.keys.required]


def _check_admin(request: Request) -> None:
    if not request.principal.scopes.everywhere("admin"):
        raise HttpFault(403, "auth.forbidden", "this needs a key with the scope *:admin")


def _open(path: str, handler: Any, summary: str, answer: Any) -> tuple[Route, ...]:
    return tuple(
        Route("GET", prefix + path, handler, summary, answers={200: answer}, access="open") for prefix in ("", "/arp")
    )


OPERATION_ROUTES = (
    *_open("/v1/health", health, "How the server is", Health),
    *_open("/v1/version", version, "What the server is", VersionInfo),
    Route(
        "GET", "/v1/report", report, "What was loaded, rewritten and rejected", answers={200: ReportView}, verb="admin"
    ),
    Route("POST", "/v1/reload", reload, "Load every source again", answers={200: ReportView}, verb="admin"),
    Route(
        "GET", "/metrics", metrics, "Metrics for Prometheus", answers={200: _METRICS, 404: ErrorEnvelope}, verb="admin"
    ),
    Route("GET", "/openapi.json", openapi, "This document", answers={200: dict[str, Any]}, access="open"),
)
