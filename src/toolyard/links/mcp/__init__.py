"""The client side of MCP: stdio, streamable HTTP and HTTP with SSE, for protocol versions before and since 2026.

The official SDK is not used for this, because each of its calls costs milliseconds and one malformed response ends the
connection.
"""

from toolyard.links.mcp.connection import Listing
from toolyard.links.mcp.link import McpLink, give_back, lease
from toolyard.links.mcp.peer import Handlers, LinkLimits

__all__ = ["Handlers", "LinkLimits", "Listing", "McpLink", "give_back", "lease"]
