"""Tools of MCP servers: the engine, the connections it holds, and how answers are read."""

from toolyard.engines.mcp.engine import MCPToolEngine

__all__ = ["MCPToolEngine"]
