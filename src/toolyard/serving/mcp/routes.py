"""The routes of the MCP face."""

from __future__ import annotations

from typing import Any

from toolyard.serving.faults import HttpFault
from toolyard.serving.mcp.envelope import is_stateless
from toolyard.serving.mcp.http import delete, no_method, post, session_of
from toolyard.serving.mcp.listen import standing
from toolyard.serving.mcp.sse import begin, message
from toolyard.serving.mcp.wire import RpcFault, error_text
from toolyard.serving.request import Request
from toolyard.serving.response import JSON, Response
from toolyard.serving.routes import Parameter, Route
from toolyard.serving.service import Service

_Body = dict[str, Any]
_SESSION = Parameter("session_id", {"type": "string", "minLength": 1, "maxLength": 128}, "As /sse gave it.")


async def get(service: Service, request: Request) -> Response:
    """What a session is told unasked."""
    if is_stateless(request.headers, None):
        raise no_method()
    check_get(request)
    try:
        session = await session_of(service.mcp, request)
    except RpcFault as fault:
        return Response(fault.status or 400, error_text(None, fault), JSON)
    return await standing(service.mcp, request, session)


async def get_sse(service: Service, request: Request) -> Response:
    """The stream of a client of the first version."""
    check_get(request)
    return await begin(service, request)


def check_get(request: Request) -> None:
    """A stream has no end that a HEAD could tell of."""
    if request.method == "HEAD":
        raise HttpFault(405, "request.method_not_allowed", "HEAD is not allowed here", headers=((b"allow", b"GET"),))


MCP_ROUTES = (
    Route("POST", "/mcp", post, "A message of an MCP client", body=_Body, shown=False),
    Route("GET", "/mcp", get, "What an MCP client is told unasked", shown=False),
    Route("DELETE", "/mcp", delete, "End an MCP session", shown=False),
    Route("GET", "/sse", get_sse, "The stream of an older MCP client", shown=False),
    Route("POST", "/messages", message, "A message of an older MCP client", body=_Body, query=(_SESSION,), shown=False),
)
