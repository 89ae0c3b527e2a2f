"""The wires that MCP is spoken over, one a file."""
