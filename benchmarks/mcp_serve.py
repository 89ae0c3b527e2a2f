"""J. MCP server: server CPU of a call over HTTP and over a pipe, and of listing."""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, measure, show
from benchmarks.material import catalog
from benchmarks.mcp_pipe import HELLO, Pipe, line
from benchmarks.serve import CONNECTIONS, Load, cpu_of, make_rows, started, yard

ROUNDS, SECONDS = 5, 2
SDK = "LIMIT official SDK, JSON replies"
SDK_STDIO = "LIMIT official SDK over stdio"
CALL = {"name": "echo", "arguments": {"text": "hello, how are you today"}}
MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
ROOT = Path(__file__).resolve().parent.parent
PLAIN = {"metrics": False, "page": False, "log": "off", "rate": 1e9, "burst": 1e9, "concurrency": 100_000}
CORE = {"tools": [{"type": "domains", "domains": ["core"]}], "server": PLAIN}
SIZES = (500, 5_000)


def run() -> bool:
    """Measure both wires, then listing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good = _over_http(folder)
        good = _over_stdio(folder) and good
        return _listing(folder) and good


def _over_http(folder: Path) -> bool:
    with ExitStack() as stack:
        loads = _loads(stack, folder)
        for load in loads:
            load.run(folder, 1)
            load.samples.clear()
            load.rates.clear()
        for _ in range(ROUNDS):
            for load in loads:
                load.run(folder, SECONDS)
    return show(f"J. MCP over HTTP: server CPU a call, {CONNECTIONS} connections, {ROUNDS} rounds", make_rows(loads))


def _loads(stack: ExitStack, folder: Path) -> list[Load]:
    ours = stack.enter_context(yard(folder, "mcp", CORE))
    sdk = stack.enter_context(started([sys.executable, "-m", "benchmarks.mcp_peers", "http"], ROOT))
    modern = _headers(MODERN, **{"Mcp-Method": "tools/call", "Mcp-Name": "echo"})
    body = _body({**CALL, "_meta": META})
    answer = _post(ours[1] + "/mcp", body, modern)[1]
    if b"how are you" not in answer:
        raise SystemExit(f"toolyard did not answer as it should: {answer!r}")
    return [
        *_both_eras(SDK, sdk, body, modern, None),
        *_both_eras("toolyard /mcp", ours, body, modern, 0.3),
    ]


def _both_eras(
    name: str, server: tuple[int, str], body: bytes, modern: dict[str, str], goal: float | None
) -> list[Load]:
    pid, url = server[0], server[1] + "/mcp"
    legacy = _headers(LEGACY)
    session = _post(url, _body(HELLO, "initialize"), _headers())[0].get("Mcp-Session-Id")
    if session is not None:
        legacy["Mcp-Session-Id"] = session
    _post(url, line("notifications/initialized", {}, None), legacy)
    return [
        Load(f"{name}, {era}", pid, url, None if goal is None else f"{SDK}, {era}", goal, sent, headers)
        for era, sent, headers in ((MODERN, body, modern), (LEGACY, _body(CALL), legacy))
    ]


def _headers(version: str | None = None, **more: str) -> dict[str, str]:
    said = {} if version is None else {"MCP-Protocol-Version": version}
    return {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **said, **more}


def _body(params: dict[str, Any], method: str = "tools/call") -> bytes:
    # A new id for each request: a session refuses an id that is still in use.
    return line(method, params, "@ID@").strip()


def _post(url: str, body: bytes, headers: dict[str, str]) -> tuple[Any, bytes]:
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
        return answer.headers, answer.read()


def _over_stdio(folder: Path) -> bool:
    (folder / "core.json").write_text(json.dumps(CORE))
    with ExitStack() as stack:
        rows = []
        for name, command, place, calls in (
            (SDK_STDIO, [sys.executable, "-m", "benchmarks.mcp_peers", "stdio"], ROOT, 640),
            ("toolyard mcp", [sys.executable, "-m", "toolyard", "mcp", "core.json"], folder, 12_800),
        ):
            pipe = Pipe(command, place)
            stack.callback(pipe.close)
            run = partial(pipe.run, "tools/call", CALL, calls)
            rows.append(Row(name, run, calls=calls, clock=partial(cpu_of, pipe.pid)))
        rows[1].limit, rows[1].goal = SDK_STDIO, 0.1
        measure(rows, 7)
    return show("J. MCP over stdio: server CPU a call", rows)


def _listing(folder: Path) -> bool:
    with ExitStack() as stack:
        rows = []
        for size in SIZES:
            (folder / f"{size}-tools.json").write_text(json.dumps({"many": catalog(size)}))
            config = {"tools": [{"type": "file", "path": f"{size}-tools.json"}]}
            (folder / f"{size}.json").write_text(json.dumps(config))
            pipe = Pipe([sys.executable, "-m", "toolyard", "mcp", f"{size}.json"], folder)
            stack.callback(pipe.close)
            if pipe.listed() != size:
                raise SystemExit("not every tool is listed")
            clock = partial(cpu_of, pipe.pid)
            # The CPU clock ticks a hundred times per second, so the work must take much longer than a tick.
            repeat = 40 * SIZES[-1] // size
            rows.append(Row(f"tools/list of {size:,} tools (each)", pipe.listed, repeat, calls=size, clock=clock))
        rows[1].limit, rows[1].goal = rows[0].name, 1.2
        measure(rows, 5)
    return show("J. MCP: server CPU of listing, a tool", rows)
