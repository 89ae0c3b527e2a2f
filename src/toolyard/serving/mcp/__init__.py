"""The MCP server: `/mcp`, `/sse` with `/messages`, and standard input and output."""
