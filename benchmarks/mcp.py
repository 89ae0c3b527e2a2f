"""I. MCP client: the engine compared with the official SDK's bare client, each on one open connection; and listing."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, measure, show
from benchmarks.mcp_serve import CORE, ROOT, SIZES
from benchmarks.serve import yard
from toolyard import ToolCall, ToolRegistry, get_tool_engine, get_tool_loader

CALLS, WIDTH = 192, 32
WAYS = ("stdio", "http", "sse")
TEXT = "hello, how are you today"
SLOWEST = 1 / 0.9
"""At least nine tenths of the other's calls per second."""


def run() -> bool:
    """Measure and print."""
    if importlib.util.find_spec("mcp") is None:
        print("\n## I. MCP: NOT MEASURED. The official SDK is missing; install toolyard[mcp]")
        return False
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "core.json").write_text(json.dumps(CORE))
        url = stack.enter_context(yard(folder, "served", CORE))[1]
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        rows = [row for way in WAYS for row in _rows(way, url, folder, loop, stack)]
        measure(rows, 9)
        good = show("I. MCP: a call on one kept connection to the same server, WALL time", rows)
        for row in rows:
            row.clock, row.goal = time.process_time, None
            row.samples.clear()
        measure(rows, 5)
        show("I. MCP: the same, CPU of the client", rows)
    return _listing() and good


def _rows(way: str, url: str, folder: Path, loop: asyncio.AbstractEventLoop, stack: ExitStack) -> list[Row]:
    command = [sys.executable, "-m", "toolyard", "mcp", str(folder / "core.json")]
    bare = _sdk(way, url, command, loop, stack)
    execute, aexecute = _engine(way, url, command, loop, stack)
    one, many = f"LIMIT SDK client over {way}", f"LIMIT SDK client over {way}, {WIDTH} at once"

    def row(name: str, run: Callable[[], object], limit: str | None = None) -> Row:
        goal = None if limit is None else SLOWEST
        return Row(name, run, 1, limit, goal, CALLS, time.perf_counter)

    def on_loop(call: Callable[[], Awaitable[Any]], width: int) -> Callable[[], object]:
        return lambda: loop.run_until_complete(_all(call, width))

    return [
        row(one, on_loop(bare, 1)),
        row(f"engine.aexecute over {way}", on_loop(aexecute, 1), one),
        row(f"engine.execute over {way}", execute, one),
        row(many, on_loop(bare, WIDTH)),
        row(f"engine.aexecute over {way}, {WIDTH} at once", on_loop(aexecute, WIDTH), many),
    ]


async def _all(call: Callable[[], Awaitable[Any]], width: int) -> None:
    async def worker() -> None:
        for _ in range(CALLS // width):
            await call()

    if width == 1:
        await worker()
    else:
        await asyncio.gather(*(worker() for _ in range(width)))


def _sdk(
    way: str, url: str, command: list[str], loop: asyncio.AbstractEventLoop, stack: ExitStack
) -> Callable[[], Awaitable[Any]]:
    """A call on one session. The task that enters the client must also exit it, so a task holds it open."""
    from mcp import Client, StdioServerParameters
    from mcp.client.sse import sse_client

    target: Any = {
        "stdio": lambda: StdioServerParameters(command=command[0], args=command[1:]),
        "http": lambda: f"{url}/mcp",
        "sse": lambda: sse_client(f"{url}/sse"),
    }[way]()
    opened: asyncio.Future[Any] = loop.create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        async with Client(target) as client:
            opened.set_result(client)
            await leave.wait()

    held = loop.create_task(hold())
    client = loop.run_until_complete(opened)
    arguments = {"text": TEXT}
    loop.run_until_complete(client.list_tools())

    async def call() -> None:
        result = await client.call_tool("echo", arguments)
        if result.structured_content != {"text": TEXT}:
            raise SystemExit(f"the server did not answer as it should: {result}")

    def close() -> None:
        leave.set()
        with suppress(ExceptionGroup):
            loop.run_until_complete(held)

    stack.callback(close)
    return call


def _engine(
    way: str, url: str, command: list[str], loop: asyncio.AbstractEventLoop, stack: ExitStack
) -> tuple[Callable[[], None], Callable[[], Awaitable[Any]]]:
    options: dict[str, Any] = {
        "stdio": {"command": command[0], "args": command[1:]},
        "http": {"url": f"{url}/mcp"},
        "sse": {"url": f"{url}/sse", "transport": "sse"},
    }[way]
    registry = stack.enter_context(ToolRegistry.from_loaders([get_tool_loader("mcp", namespace="there", **options)]))
    engine = stack.enter_context(get_tool_engine("mcp", registry=registry))
    stack.callback(lambda: loop.run_until_complete(engine.aclose()))
    name = next(tool.qualified_name for tool in registry if tool.name.endswith("echo"))
    calls = [ToolCall(name, {"text": TEXT})]
    turn = iter(range(1 << 60))
    engine.setup("one")

    def check(results: list[Any]) -> None:
        if results[0].result != {"text": TEXT}:
            raise SystemExit(f"the engine did not answer as it should: {results[0]}")

    def execute() -> None:
        for _ in range(CALLS):
            check(engine.execute("one", calls))

    for number in range(WIDTH):
        engine.setup(f"s{number}")

    async def aexecute() -> None:
        # A session runs one batch at a time.
        check(await engine.aexecute(f"s{next(turn) % WIDTH}", calls))

    return execute, aexecute


def _listing() -> bool:
    with ExitStack() as stack:
        first, again = [], []
        for size in SIZES:
            registry = stack.enter_context(_registry(size))
            if len(registry) != size:
                raise SystemExit(f"{len(registry)} tools of {size}: {registry.report}")
            repeat = SIZES[-1] // size
            # The registry above keeps the connection open, so that connecting is not measured.
            first.append(Row(f"{size:,} tools (each)", lambda size=size: _registry(size).close(), repeat, calls=size))
            run = partial(registry.refresh, strict=True)
            again.append(Row(f"{size:,} tools that are as before (each)", run, repeat, calls=size))
        for rows in (first, again):
            rows[1].limit, rows[1].goal = rows[0].name, 1.2
        measure([*first, *again], 9)
    return show("I. MCP: client CPU of listing and loading, a tool", [*first, *again])


def _registry(size: int) -> ToolRegistry:
    command = ["-m", "benchmarks.mcp_peers", "list", str(size)]
    options = {"namespace": "there", "command": sys.executable, "args": command, "cwd": str(ROOT)}
    return ToolRegistry.from_loaders([get_tool_loader("mcp", **options)])
