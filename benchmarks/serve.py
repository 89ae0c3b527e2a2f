"""G. The service: server CPU of a request, compared with a handwritten Starlette route that does the same."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, show
from benchmarks.load import make_request
from benchmarks.material import catalog

ROUNDS, SECONDS, CONNECTIONS = 15, 1, 32
LISTED = "LIMIT uvicorn, a constant as long as the list of 10,000 tools"
BODY = {"args": {"text": "hello, how are you today"}}
KINDS = {
    "shout": "an ordinary function, on a thread",
    "whisper": "an async function",
    "fetch": "a tool of another engine (REST, on loopback)",
}
ROOT = Path(__file__).resolve().parent.parent
_TICK = os.sysconf("SC_CLK_TCK")
_TRIES = 3
"""Attempts per measurement; one during which the machine stalled is repeated."""

TOOLS = """
from toolyard import tool

@tool
def shout(text: str) -> str:
    "An ordinary function, which may block."
    return text

@tool
async def whisper(text: str) -> str:
    "One that waits by itself."
    return text
"""


@dataclass
class Load:
    """One row: the target of its requests, and the counts of each round."""

    name: str
    pid: int
    url: str
    limit: str | None = None
    goal: float | None = None
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    samples: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def run(self, folder: Path, seconds: int) -> None:
        """Measure one block. Responses other than 2xx fail the measurement."""
        headers = {**self.headers, **({"Authorization": f"Bearer {self.token}"} if self.token else {})}
        if self.body is not None:
            headers.setdefault("Content-Type", "application/json")
        file = folder / "load.request"
        file.write_bytes(make_request("GET" if self.body is None else "POST", self.url, self.body, headers))
        command = [sys.executable, "-m", "benchmarks.load", self.url, str(CONNECTIONS), str(seconds), str(file)]
        for _ in range(_TRIES):
            before = cpu_of(self.pid)
            said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
            used = cpu_of(self.pid) - before
            requests, refused, broken = map(int, said.rpartition("COUNTED ")[2].split())
            if requests or refused or broken:
                break
        if refused or broken or not requests:
            raise SystemExit(f"{self.name}: {refused} answers were errors, {broken} broken, of {requests}")
        self.samples.append(used / requests)
        self.rates.append(requests / seconds)


def run() -> bool:
    """Start every server, load them in turn, and print the ratios."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        loads = _loads(stack, folder)
        for load in loads:
            load.run(folder, 3)
            load.samples.clear()
            load.rates.clear()
        for _ in range(ROUNDS):
            for load in loads:
                load.run(folder, SECONDS)
    title = f"G. The service: server CPU a request, {CONNECTIONS} connections, {ROUNDS} rounds"
    return show(title, make_rows(loads))


def make_rows(loads: list[Load]) -> list[Row]:
    """The measured rows, with requests per second."""
    return [
        Row(
            load.name,
            lambda: None,
            limit=load.limit,
            goal=load.goal,
            note=f"{statistics.median(load.rates):,.0f}/s",
            samples=load.samples,
        )
        for load in loads
    ]


def _loads(stack: ExitStack, folder: Path) -> list[Load]:
    open_end = {"rate": 1e9, "burst": 1e9, "concurrency": 100_000, "page": False, "log": "off"}
    upstream = stack.enter_context(peer(folder, "constant", b'"hello, how are you today"'))
    (folder / "functions.py").write_text(TOOLS)
    (folder / "spec.json").write_text(json.dumps(_spec(upstream[1])))
    sources = [
        {"type": "python", "target": "functions.py", "namespace": "bench"},
        {"type": "rest", "spec": "spec.json", "namespace": "bench", "base_url": upstream[1]},
    ]
    plain = {**open_end, "metrics": False}
    bare = stack.enter_context(yard(folder, "bare", {"tools": sources, "server": plain}))
    kept = {"tools": sources, "server": open_end, "sessions": {"store": "sqlite", "path": "s.db"}}
    (folder / "full.json").write_text(json.dumps(kept))
    token = _token(folder, "full.json")
    full = stack.enter_context(yard(folder, "full", kept))
    (folder / "tools.json").write_text(json.dumps({"many": catalog(10_000)}))
    many = stack.enter_context(
        yard(folder, "many", {"tools": [{"type": "file", "path": "tools.json"}], "server": plain})
    )
    listed = stack.enter_context(peer(folder, "constant", _answer(many[1] + "/v1/tools")))
    by_hand = stack.enter_context(peer(folder, "starlette", b"", BENCH_UPSTREAM=upstream[1]))
    body = json.dumps(BODY).encode()
    arp = {"invocation_id": "@ID@", "tool_name": "bench::shout", "args": {"text": "hello"}}
    invocation = json.dumps(arp).encode()
    loads = []
    for name, words in KINDS.items():
        path = f"/v1/tools/bench::{name}:invoke"
        limit = f"LIMIT Starlette by hand, {words}"
        loads += [
            Load(limit, by_hand[0], by_hand[1] + path, body=body),
            Load(f"POST :invoke, {words}", bare[0], bare[1] + path, limit, 1.5, body),
        ]
    with_all = "the same with keys, limits, metrics and SQLite"
    loads += [
        Load(with_all, full[0], full[1] + "/v1/tools/bench::shout:invoke", loads[1].name, 1.5, body, token=token),
        Load("POST /arp/v1/tool-invocations, answers kept", bare[0], bare[1] + ARP, loads[0].name, None, invocation),
        Load(LISTED, listed[0], listed[1] + "/v1/tools"),
        Load("GET /v1/tools of 10,000 tools", many[0], many[1] + "/v1/tools", LISTED, 3.0),
    ]
    return loads


ARP = "/arp/v1/tool-invocations"


def _spec(url: str) -> dict[str, Any]:
    """An OpenAPI document with one operation."""
    parameter = {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}}
    answer = {"description": "The same.", "content": {"application/json": {"schema": {"type": "string"}}}}
    operation = {"operationId": "fetch", "parameters": [parameter], "responses": {"200": answer}}
    info = {"title": "bench", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": url}], "paths": {"/": {"get": operation}}}


@contextmanager
def yard(folder: Path, name: str, config: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Run `toolyard serve` with a config; gives its process id and URL."""
    (folder / f"{name}.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "toolyard", "serve", f"{name}.json", "--port", "0"]
    with started(command, folder) as found:
        yield found


@contextmanager
def peer(folder: Path, kind: str, body: bytes, **env: str) -> Iterator[tuple[int, str]]:
    """Run one of `serve_apps`."""
    file = Path(tempfile.mkstemp(dir=folder)[1])
    file.write_bytes(body)
    with started([sys.executable, "-m", "benchmarks.serve_apps", kind, str(file)], ROOT, **env) as found:
        yield found


@contextmanager
def started(command: list[str], folder: Path, **env: str) -> Iterator[tuple[int, str]]:
    """Run a server; gives its process id and URL."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **env}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"it did not start: {' '.join(command)}")
        yield process.pid, json.loads(line)["url"]
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _token(folder: Path, config: str) -> str:
    command = [
        sys.executable,
        "-m",
        "toolyard",
        "key",
        "create",
        "bench",
        "--scope",
        "*:*",
        "--config",
        config,
        "--json",
    ]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    token: str = json.loads(made.stdout)["token"]
    return token


def _answer(url: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        found: bytes = answer.read()
    return found


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
