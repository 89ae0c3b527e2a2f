"""Health, version, report and reload of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from toolyard.constants import VERSION
from toolyard.model.errors import SessionError
from toolyard.model.report import SourceReport
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.keys import KeyRing
from toolyard.serving.monitoring import Metrics
from toolyard.serving.registrations import LoadedCatalog
from toolyard.serving.routing import BODY, JsonResponse, caller_of, operation
from toolyard.serving.wire_types import Count, DateTime, Extensions, Json, Shape
from toolyard.sessions.records import Records

_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_STORE_SECONDS = 1.0
_STATES = {"ok": "ok", "stale": "degraded", "failed": "down"}


class HealthCheck(Shape):
    """The state of one source of tools or another part of the server."""

    name: str
    status: Literal["ok", "degraded", "down"]
    message: str | UnsetType = UNSET
    details: Json | UnsetType = UNSET


class Health(Shape):
    """The state of the server."""

    status: Literal["ok", "degraded", "down"]
    time: DateTime
    checks: list[HealthCheck] | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class Probe(Shape):
    """The server can be used."""

    status: Literal["ok"]


class VersionInfo(Shape):
    """The version of the server."""

    service_name: str
    service_version: str
    supported_api_versions: Annotated[list[str], Meta(min_length=1)]


class ReportView(msgspec.Struct, frozen=True, kw_only=True):
    """What each source loaded, rewrote and rejected, with reasons."""

    ok: bool
    loaded: Count
    sources: list[Json]


class OperationsRoutes:
    """Operations for administrators; health and version need no key."""

    def __init__(
        self,
        loaded: LoadedCatalog,
        records: Records,
        keys: KeyRing,
        metrics: Metrics | None,
        failing: Mapping[str, str],
        *,
        strict: bool,
    ) -> None:
        self._loaded = loaded
        self._records = records
        self._keys = keys
        self._metrics = metrics
        self._failing = failing
        self._strict = strict

    @operation("GET /livez", "Whether the process answers", answers={200: Probe}, access="open")
    async def show_liveness(self, request: Request) -> Response:
        """Checks only that the event loop runs."""
        return JsonResponse({"status": "ok"})

    @operation(*("GET /readyz", "Whether calls can be answered"), answers={200: Probe}, errors=(503,), access="open")
    async def show_readiness(self, request: Request) -> Response:
        """Checks that the store responds and, on a `strict` server, that every source is available. Gives no reason."""
        sources = self._loaded.registry.report.sources if self._strict else ()
        is_unavailable = not all(source.available for source in sources)
        if is_unavailable or any(check["status"] != "ok" for check in await self._check_store()):
            raise HttpFault(503, "server.not_ready", "not now; GET /v1/health says how the server is", retryable=True)
        return JsonResponse({"status": "ok"})

    @operation("GET /v1/health", "State of the server", answers={200: Health}, access="open")
    @operation("GET /arp/v1/health", "State of the server", answers={200: Health}, access="open")
    async def show_health(self, request: Request) -> Response:
        """State of the store and of every source. Failures degrade the server; they do not stop it."""
        # This needs no key, so source names, which may be paths or URLs, are hidden on servers with keys.
        shows_details = not self._keys.required
        sources = self._loaded.registry.report.sources
        checks = [_check_source(source, number, shows_details) for number, source in enumerate(sources)]
        checks += await self._check_store()
        # A copy, since other threads write to it.
        failing = dict(self._failing)
        checks += [{"name": name, "status": "degraded", "message": kind} for name, kind in failing.items()]
        extensions: dict[str, Any] = {"toolyard.sandbox": self._loaded.sandbox}
        if shows_details:
            registry = self._loaded.registry
            extensions |= {"toolyard.tools": len(registry), "toolyard.generation": registry.generation}
        return JsonResponse(
            {
                "status": "ok" if all(check["status"] == "ok" for check in checks) else "degraded",
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "checks": checks,
                "extensions": extensions,
            }
        )

    async def _check_store(self) -> list[dict[str, Any]]:
        if not self._records.shared:
            return []
        try:
            await asyncio.wait_for(self._records.aversion("key"), _STORE_SECONDS)
        except (SessionError, TimeoutError):
            return [{"name": "store", "status": "down", "message": "the store does not answer"}]
        return [{"name": "store", "status": "ok"}]

    @operation("GET /v1/version", "Version of the server", answers={200: VersionInfo}, access="open")
    @operation("GET /arp/v1/version", "Version of the server", answers={200: VersionInfo}, access="open")
    async def show_version(self, request: Request) -> Response:
        """Name and version of the server, and the API versions it speaks."""
        return JsonResponse({"service_name": "toolyard", "service_version": VERSION, "supported_api_versions": ["v1"]})

    @operation("GET /v1/report", "What was loaded, rewritten and rejected", answers={200: ReportView}, verb="admin")
    async def show_report(self, request: Request) -> Response:
        """The load report of every source."""
        check_admin(request)
        return JsonResponse(self._loaded.registry.report.to_dict())

    @operation("POST /v1/reload", "Reload all sources", answers={200: ReportView}, verb="admin")
    async def reload_sources(self, request: Request) -> Response:
        """Takes effect in every process. A source that fails keeps its last good tools."""
        check_admin(request)
        if request.scope[BODY]:
            raise HttpFault(400, "request.invalid_shape", "a reload takes no body")
        await self._loaded.reload()
        return JsonResponse(self._loaded.registry.report.to_dict())

    @operation("GET /metrics", "Metrics for Prometheus", answers={200: _METRICS}, errors=(404,), verb="admin")
    async def show_metrics(self, request: Request) -> Response:
        """Counters and latencies in the text format; 404 if `server.metrics` is off."""
        if self._metrics is None:
            raise HttpFault(404, "route.not_found", "metrics are off here", hint="set server.metrics")
        check_admin(request)
        return Response(await asyncio.to_thread(self._metrics.render), media_type=_METRICS)


def _check_source(source: SourceReport, number: int, shows_details: bool) -> dict[str, Any]:
    name = source.source if shows_details else f"source-{number}"
    check: dict[str, Any] = {"name": name, "status": _STATES[source.state]}
    if source.state != "ok":
        check["message"] = f"the source is {source.state}; GET /v1/report says why"
    elif not source.available:
        check |= {"status": "degraded", "message": "a part of the source is unavailable; GET /v1/report says why"}
    elif source.rejected and not source.loaded:
        check |= {"status": "degraded", "message": "nothing of the source could be loaded; GET /v1/report says why"}
    if shows_details:
        check["details"] = {"loaded": source.loaded, "rejected": len(source.rejected)}
    return check


def check_admin(request: Request) -> None:
    """Raise `HttpFault` 403 unless the key has `*:admin`."""
    if not caller_of(request).principal.scopes.allows_everywhere("admin"):
        raise HttpFault(403, "auth.forbidden", "this needs a key with the scope *:admin")
