"""The tools as an MCP server: `/mcp`, `/sse` with `/messages`, and standard input and output."""
