"""MCP servers to compare with: `python -m benchmarks.mcp_peers stdio|http|list COUNT`.

The first two use the low-level API of the official SDK with one tool, `echo`: no schema is derived, and none is looked
up for a call. `http` prints its URL. `list` answers over stdio with precomputed bytes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

ECHO_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def make_server() -> Any:
    """The server, independent of the transport."""
    import jsonschema_rs
    import mcp_types as types
    from mcp.server.lowlevel import Server

    check = jsonschema_rs.validator_for(ECHO_SCHEMA).validate
    echo = types.Tool(name="echo", description="Give it back.", input_schema=ECHO_SCHEMA)

    async def list_tools(ctx: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[echo])

    async def call_tool(ctx: Any, params: Any) -> Any:
        check(params.arguments)
        found = {"text": params.arguments["text"]}
        text = types.TextContent(type="text", text=json.dumps(found))
        return types.CallToolResult(content=[text], structured_content=found)

    return Server(
        "peer",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: ECHO_SCHEMA,
    )


async def serve_stdio() -> None:
    """Serve until standard input ends."""
    from mcp import stdio_server
    from mcp.server.lowlevel import NotificationOptions

    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


def serve_http(app: Any) -> None:
    """Serve until killed."""
    import uvicorn

    # With the protocol given, asyncio sets TCP_NODELAY; without it, responses in two writes take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    config = uvicorn.Config(
        app, http="httptools", loop="asyncio", log_level="error", access_log=False, timeout_graceful_shutdown=1
    )
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    asyncio.run(uvicorn.Server(config).serve([listener]))


def serve_list(count: int) -> None:
    """List `count` tools over stdio, a thousand per page."""
    from benchmarks.material import catalog

    tools = [
        {"name": t["name"], "description": t["description"], "inputSchema": t["parameters"]} for t in catalog(count)
    ]
    pages = {}
    for begin in range(0, count, 1000):
        page: dict[str, Any] = {"tools": tools[begin : begin + 1000]}
        if begin + 1000 < count:
            page["nextCursor"] = str(begin + 1000)
        pages[str(begin)] = json.dumps(page)
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "list", "version": "1"},
    }
    for text in sys.stdin:
        message = json.loads(text)
        method, number = message.get("method"), json.dumps(message.get("id"))
        if "id" not in message:
            continue
        if method == "initialize":
            said = f'"result": {json.dumps(hello)}'
        elif method == "tools/list":
            said = f'"result": {pages[message.get("params", {}).get("cursor", "0")]}'
        else:
            said = '"error": {"code": -32601, "message": "unknown method"}'
        print(f'{{"jsonrpc": "2.0", "id": {number}, {said}}}', flush=True)


def main() -> None:
    """Serve as the arguments say."""
    kind = sys.argv[1]
    if kind == "stdio":
        asyncio.run(serve_stdio())
    elif kind == "list":
        serve_list(int(sys.argv[2]))
    else:
        serve_http(make_server().streamable_http_app(json_response=True))


if __name__ == "__main__":
    main()
