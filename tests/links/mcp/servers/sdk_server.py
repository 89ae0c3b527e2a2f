"""The official SDK's low-level server with a few tools, over stdio, streamable HTTP or HTTP with SSE."""

import asyncio
import json
import os
import signal
import sys

import mcp_types as t
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

BUS = InMemorySubscriptionBus()
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = ("echo", "slow", "progress", "change", "hold", "release", "begun", "cancelled", "ask")
TOOLS = [t.Tool(name=name, description=name, input_schema=SCHEMA) for name in NAMES]
BEGUN, CANCELLED, HELD = [], [], {}


async def list_tools(ctx, params):
    return t.ListToolsResult(tools=TOOLS)


async def call_tool(ctx, params):
    text = (params.arguments or {}).get("text", "")
    if params.name == "slow":
        BEGUN.append(text)
        try:
            await asyncio.sleep(float(text))
        except asyncio.CancelledError:
            CANCELLED.append(text)
            raise
    elif params.name == "hold":
        HELD[text] = asyncio.Event()
        BEGUN.append(text)
        await HELD[text].wait()
    elif params.name == "release":
        HELD[text].set()
    elif params.name == "begun":
        text = json.dumps(BEGUN)
    elif params.name == "cancelled":
        text = json.dumps(CANCELLED)
    elif params.name == "progress":
        for step in range(3):
            await ctx.session.report_progress(step, 3, f"step {step}")
    elif params.name == "change":
        await ctx.session.send_tool_list_changed()
        await BUS.publish(ToolsListChanged())
    elif params.name == "ask":
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        if ctx.protocol_version >= "2026":
            answers = getattr(params, "input_responses", None)
            if not answers:
                request = t.ElicitRequest(params=t.ElicitRequestFormParams(message="who?", requested_schema=schema))
                return t.InputRequiredResult(input_requests={"who": request}, request_state="s1")
            text = json.dumps([params.request_state, answers["who"].content])
        else:
            answer = await ctx.session.elicit_form("who?", schema, ctx.request_id)
            text = json.dumps(["", answer.content])
    return t.CallToolResult(content=[t.TextContent(text=text)])


server = Server(
    "sdk",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    get_tool_input_schema=lambda name: SCHEMA,
    on_subscriptions_listen=ListenHandler(BUS),
)
OPTIONS = server.create_initialization_options(NotificationOptions(tools_changed=True))


async def stdio():
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, OPTIONS)


def sse_app():
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("/messages/")

    async def connect(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as (reader, writer):
            await server.run(reader, writer, OPTIONS)
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])


class LegacyOnly:
    """Hides the new protocol: a probe gets the response of an old server."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-protocol-version", b"") >= b"2026":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, send)


def serve(kind, port, *flags):
    import uvicorn

    if kind == "sse":
        app = sse_app()
    else:
        app = server.streamable_http_app(json_response="json" in flags, stateless_http="stateless" in flags)
        if "legacy" in flags:
            app = LegacyOnly(app)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="critical", timeout_graceful_shutdown=1)


def fork_servers():
    """Fork a server for each input line of arguments, and print its process id.

    The SDK takes seconds to import, so this process imports it once.
    """
    import uvicorn  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(0, 1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(*json.loads(line))
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(stdio())
    else:
        fork_servers()
