"""The service as a Starlette application, served by `toolyard serve` or mounted in another application."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from toolyard.app.blocks import ServerBlock
from toolyard.app.toolyard import Toolyard
from toolyard.model.errors import ConfigError
from toolyard.schema.options import check_kinds
from toolyard.serving.console.routes import Console
from toolyard.serving.http_fault import ARP_PLACE, HttpFault
from toolyard.serving.mcp.http_transports import SseTransport, StreamableHttp
from toolyard.serving.middleware import HostGuard, OperationGate, RequestBoundary
from toolyard.serving.monitoring import RequestLog
from toolyard.serving.routes.approvals import ApprovalRoutes
from toolyard.serving.routes.arp import ArpTools
from toolyard.serving.routes.calls import CallRoutes
from toolyard.serving.routes.events import EventRoutes
from toolyard.serving.routes.openapi import OpenApiRoute
from toolyard.serving.routes.operations import OperationsRoutes
from toolyard.serving.routes.registration import RegistrationRoutes
from toolyard.serving.routes.sessions import SessionRoutes
from toolyard.serving.routes.tools import ToolRoutes
from toolyard.serving.routing import Operation, list_operations, make_routes
from toolyard.serving.service import Service

_log = logging.getLogger(__name__)
_ARP_PATH = re.compile(r"/(v1/tool-invocations|v1(alpha|beta)\d+/)")


def asgi(yard: Toolyard, block: ServerBlock | None = None) -> Starlette:
    """Return the application of an open yard, configured by `block` or else by the `server` block of its config.

    An application that mounts it must run its lifespan:

    app = asgi(yard)
    mine = Starlette(routes=[Mount("/tools", app)], lifespan=app.router.lifespan_context)
    """
    check_kinds({"yard": Toolyard}, yard=yard)
    config = yard.config
    if config is None:
        return create_app(Service(yard, block))
    return create_app(Service(yard, block or config.server, log=config.tracing.log))


class ServiceApp(Starlette):
    """Starlette without its error middleware, unless it has exception handlers; `RequestBoundary` answers errors."""

    is_started = False
    """Whether its lifespan has run. Starlette does not run that of an application that is mounted."""

    def build_middleware_stack(self) -> ASGIApp:
        """Build the stack from the user middleware alone, unless there are exception handlers."""
        app: ASGIApp = self.router.middleware_stack
        if self.exception_handlers:
            app = super().build_middleware_stack()
        else:
            for middleware, args, options in reversed(self.user_middleware):
                app = middleware(app, *args, **options)

        async def check_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
            self.middleware_stack = app  # only the first request is checked
            if scope["type"] == "http" and not self.is_started:
                _log.warning(
                    "the lifespan of the mounted application did not run, so changes of keys, registered tools and "
                    "events are missed; pass lifespan=app.router.lifespan_context to the application that mounts it"
                )
            await app(scope, receive, send)

        return check_lifespan


def create_app(service: Service) -> Starlette:
    """Return the application of a service: its routes and the middleware around them."""
    block = service.block
    log = RequestLog(block.log)
    console = Console(service) if block.page else None
    operations = [*_list_api(service), *(() if console is None else console.operations())]
    operations += list_operations(OpenApiRoute(operations, service.keys))

    def make_gate(operation: Operation) -> ASGIApp:
        return OperationGate(
            operation,
            block=block,
            keys=service.keys,
            admission=service.admission,
            reads=service.reads,
            budget=service.body_budget,
            cookie_of=(lambda scope: None) if console is None else console.browser.read_cookie,
        )

    @asynccontextmanager
    async def lifespan(outer: Starlette) -> AsyncIterator[None]:
        await service.start()
        app.is_started = True
        try:
            yield
        finally:
            await service.stop()
            log.close()

    pages = {} if console is None else console.fault_pages()
    app = ServiceApp(
        routes=make_routes(operations, make_gate),
        middleware=[
            Middleware(
                RequestBoundary,
                guard=_make_guard(block, operations),
                log=log,
                metrics=service.metrics,
                pages=pages,
            ),
        ],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.router.default = refuse_unknown_path
    return app


def _make_guard(block: ServerBlock, operations: Iterable[Operation]) -> HostGuard:
    guard = HostGuard(block.host, block.allowed_hosts, block.allowed_origins, block.public_url)
    path = f"{guard.root}/"
    if guard.root and any(f"{operation.path}/".startswith(path) for operation in operations):
        # Of a request to it nobody could tell whether the proxy in front has cut it off.
        raise ConfigError(f"server.public_url: ends with {guard.root}, a path of the server itself; leave it out")
    return guard


def _list_api(service: Service) -> list[Operation]:
    catalog, invoker = service.catalog, service.invoker
    return list_operations(
        ToolRoutes(catalog, invoker),
        RegistrationRoutes(service.yard, service.registrations, service.names),
        CallRoutes(service.yard.tool_engine),
        EventRoutes(service.events, service.mcp.subscribers),
        SessionRoutes(service.yard.tool_engine, invoker, service.quota),
        ApprovalRoutes(service.approvals, service.block.call_timeout),
        ArpTools(catalog, invoker),
        OperationsRoutes(
            *(service.loaded, service.records, service.keys, service.metrics, service.failing),
            strict=service.block.strict,
        ),
        *((StreamableHttp(service.mcp), SseTransport(service.mcp)) if service.block.mcp.enabled else ()),
    )


async def refuse_unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 404 for a path that no route matches."""
    # In the message: ARP clients show nothing else of an error.
    where = f"; {ARP_PLACE}" if _ARP_PATH.match(scope["path"]) else ""
    raise HttpFault(
        404, "route.not_found", f"nothing is served at this path{where}", hint="GET /openapi.json lists what is"
    )
