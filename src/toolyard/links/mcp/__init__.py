"""The client side of MCP: stdio, streamable HTTP and HTTP with SSE, in both eras of the protocol.

Own code, since a call through the official SDK costs milliseconds and one bad answer there ends the connection.
"""

from toolyard.links.mcp.link import Listing, McpLink, give_back, lease
from toolyard.links.mcp.peer import Handlers, LinkLimits

__all__ = ["Handlers", "LinkLimits", "Listing", "McpLink", "give_back", "lease"]
