"""`toolyard mcp`: the tools for one MCP client, over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.app.blocks import McpBlock, ServerBlock
from toolyard.app.config import Config, read_anything
from toolyard.cli.serve import ConfigFile, Domains, Log, Strict, apply_overrides
from toolyard.cli.yard import config_path
from toolyard.schema.options import read_option
from toolyard.serving import require_serving

if TYPE_CHECKING:
    from toolyard.serving.service import Service

Exposed = Annotated[
    str | None,
    Parameter(help="What the client sees: all tools, or `search`: two tools to find and call the others with."),
]
Sessions = Annotated[bool | None, Parameter(help="Whether there are tools to begin and branch sessions with.")]


def mcp(
    config: ConfigFile = None,
    /,
    *,
    expose: Exposed = None,
    sessions: Sessions = None,
    domains: Domains = None,
    strict: Strict = None,
    log: Log = None,
) -> int:
    """Serve the tools to the MCP client that started this, until it closes standard input; SIGHUP loads them again.

    Standard output carries the protocol alone; what tools print, and the log, go to standard error.
    """
    require_serving("toolyard mcp", over_http=False)
    path = config_path(config)
    read = Config(where="", base=Path(), loaders=[]) if path is None else read_anything(path)
    given = {"domains": domains, "strict": strict, "log": log}
    block = _with_mcp(apply_overrides(read.server, given, os.environ, alone=path is None), expose, sessions)
    from toolyard.serving.mcp.stdio import take_streams
    from toolyard.serving.metrics import taking_logs
    from toolyard.serving.service import build_service

    reading, writing = take_streams()
    with taking_logs(block.log):
        service = build_service(read, block)
        try:
            asyncio.run(_serve(service, reading, writing))
        finally:
            service.yard.close()
    return 0


def _with_mcp(block: ServerBlock, expose: str | None, sessions: bool | None) -> ServerBlock:
    changes: dict[str, Any] = {}
    if expose is not None:
        changes["expose"] = read_option(McpBlock, "expose", expose, "--expose")
    if sessions is not None:
        changes["sessions"] = sessions
    return msgspec.structs.replace(block, mcp=msgspec.structs.replace(block.mcp, **changes))


async def _serve(service: Service, reading: int, writing: int) -> None:
    from toolyard.serving.mcp.stdio import serve_stdio
    from toolyard.serving.service import reload_sources

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = loop.create_task(reload_sources(service.loaded))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    await service.start()
    try:
        await serve_stdio(service.mcp, reading, writing, stop)
    finally:
        await service.stop()
