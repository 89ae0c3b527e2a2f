"""The operations of the MCP server over HTTP."""

from __future__ import annotations

from typing import Any

from toolyard.serving.mcp.server import McpServer
from toolyard.serving.mcp.sse import SseTransport
from toolyard.serving.mcp.streamable_http import StreamableHttp
from toolyard.serving.query import QueryParameter
from toolyard.serving.routing import Operation

_Body = dict[str, Any]
_SESSION = QueryParameter("session_id", {"type": "string", "minLength": 1, "maxLength": 128}, "As /sse gave it.")


def mcp_operations(server: McpServer) -> tuple[Operation, ...]:
    """Those of streamable HTTP, and of the transport before it."""
    http, sse = StreamableHttp(server), SseTransport(server)
    return (
        Operation(*("POST", "/mcp", http.post_message, "A message of an MCP client", _Body), streams=True, shown=False),
        Operation("GET", "/mcp", http.open_stream, "What an MCP client is told unasked", streams=True, shown=False),
        Operation("DELETE", "/mcp", http.end_session, "End an MCP session", shown=False),
        Operation("GET", "/sse", sse.open_stream, "The stream of an older MCP client", streams=True, shown=False),
        Operation(
            *("POST", "/messages", sse.post_message, "A message of an older MCP client", _Body),
            query=(_SESSION,),
            shown=False,
        ),
    )
