"""Every route of the service, in one list."""

from __future__ import annotations

from toolyard.app.server_block import ServerBlock
from toolyard.serving.arp import ARP_ROUTES
from toolyard.serving.catalog import CATALOG_ROUTES
from toolyard.serving.mcp.routes import MCP_ROUTES
from toolyard.serving.operations import OPERATION_ROUTES
from toolyard.serving.page import OPEN_ROUTES, PAGE_ROUTES
from toolyard.serving.page_sign_in import MAX_SIGN_IN
from toolyard.serving.registration import REGISTRATION_ROUTES
from toolyard.serving.routes import Route
from toolyard.serving.sessions_api import SESSION_ROUTES
from toolyard.serving.v0 import V0_ROUTES

PAGES = frozenset(path for _, path, _ in PAGE_ROUTES)


def routes_of(block: ServerBlock) -> list[Route]:
    """The routes a server has; the pages can be left out."""
    routes = [
        *CATALOG_ROUTES,
        *V0_ROUTES,
        *REGISTRATION_ROUTES,
        *SESSION_ROUTES,
        *ARP_ROUTES,
        *OPERATION_ROUTES,
    ]
    if block.mcp.enabled:
        routes += MCP_ROUTES
    if block.page:
        routes += [
            Route(
                method,
                path,
                handler,
                "A page for people",
                access="page-open" if path in OPEN_ROUTES else "page",
                runs=method == "POST" and path not in OPEN_ROUTES,
                max_body=MAX_SIGN_IN if path in OPEN_ROUTES else None,
            )
            for method, path, handler in PAGE_ROUTES
        ]
    return routes
