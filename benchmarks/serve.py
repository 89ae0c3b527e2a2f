"""G. The service: server CPU of a request, beside the same uvicorn that answers a constant. Needs wrk."""

from __future__ import annotations

import json
import os
import shutil
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
from benchmarks.material import catalog

ROUNDS, SECONDS, CONNECTIONS = 15, 1, 32
CONSTANT = "LIMIT uvicorn, a constant of the same bytes"
BARE = "POST :invoke, core echo; no keys, metrics or logs"
LISTED = "LIMIT uvicorn, a constant as long as the list of 10,000 tools"
ECHO = {"args": {"text": "hello, how are you today"}}
INVOKE = "/v1/tools/echo:invoke"
_TICK = os.sysconf("SC_CLK_TCK")

TOOLS = """
from toolyard import tool

@tool
def shout(text: str) -> str:
    "A tool that may block, so it runs on a thread."
    return text
"""


@dataclass
class Load:
    """One row: where its requests go, and how many of what each round has counted."""

    name: str
    pid: int
    url: str
    limit: str | None = None
    goal: float | None = None
    lua: str = ""
    token: str | None = None
    note: str = ""
    samples: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def run(self, wrk: str, folder: Path, seconds: int) -> None:
        """One block. An answer that is not a 2xx is no answer to what is measured."""
        script = folder / "load.lua"
        script.write_text(self.lua + _REPORT)
        key = ["-H", f"Authorization: Bearer {self.token}"] if self.token else []
        before = cpu_of(self.pid)
        said = subprocess.run(
            [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "-s", str(script), *key, self.url],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        used = cpu_of(self.pid) - before
        requests, refused, broken = map(int, said.rpartition("COUNTED ")[2].split())
        if refused or broken or not requests:
            raise SystemExit(f"{self.name}: {refused} answers were errors, {broken} broken, of {requests}")
        self.samples.append(used / requests)
        self.rates.append(requests / seconds)


_REPORT = """
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("COUNTED %d %d %d\\n", summary.requests, e.status, e.connect + e.read + e.write + e.timeout))
end
"""


def run() -> bool:
    """Start every server, send to them in turn, and print the ratios."""
    wrk = shutil.which("wrk")
    if wrk is None:
        print("\n## G. The service: NOT MEASURED. wrk is missing; install it (Debian: apt-get install wrk)")
        return False
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        loads = _loads(stack, folder)
        for load in loads:
            load.run(wrk, folder, 1)
            load.samples.clear()
            load.rates.clear()
        for _ in range(ROUNDS):
            for load in loads:
                load.run(wrk, folder, SECONDS)
    return _show(loads)


def _show(loads: list[Load]) -> bool:
    rows = [
        Row(
            load.name,
            lambda: None,
            limit=load.limit,
            goal=load.goal,
            note=f"{statistics.median(load.rates):,.0f}/s{load.note}",
            samples=load.samples,
        )
        for load in loads
    ]
    return show(f"G. The service: server CPU a request, wrk with {CONNECTIONS} connections, {ROUNDS} rounds", rows)


def _loads(stack: ExitStack, folder: Path) -> list[Load]:
    plain = {"metrics": False, "page": False, "log": "off"}
    open_end = {"rate": 1e9, "burst": 1e9, "concurrency": 100_000, "page": False, "log": "off"}
    core = {"type": "domains", "domains": ["core"]}
    (folder / "threads.py").write_text(TOOLS)
    threads = {"type": "python", "target": "threads.py", "namespace": "threads"}
    bare = stack.enter_context(yard(folder, "bare", {"tools": [core, threads], "server": plain}))
    kept = {"tools": [core], "server": open_end, "sessions": {"store": "sqlite", "path": "s.db"}}
    (folder / "full.json").write_text(json.dumps(kept))
    token = _token(folder, "full.json")
    full = stack.enter_context(yard(folder, "full", kept))
    (folder / "tools.json").write_text(json.dumps({"many": catalog(10_000)}))
    source = {"type": "file", "path": "tools.json"}
    many = stack.enter_context(yard(folder, "many", {"tools": [source], "server": plain}))
    same = stack.enter_context(peer(folder, "constant", _answer(bare[1] + INVOKE, ECHO)))
    listed = stack.enter_context(peer(folder, "constant", _answer(many[1] + "/v1/tools")))
    by_hand = stack.enter_context(peer(folder, "starlette", b""))
    invoke, invocation, shout = _post(ECHO), _invocations(), _post({"args": {"text": "hello"}})
    return [
        Load(CONSTANT, same[0], same[1] + INVOKE, lua=invoke),
        Load(BARE, bare[0], bare[1] + INVOKE, CONSTANT, 2.0, invoke),
        Load(
            "the same with keys, limits, metrics and SQLite", full[0], full[1] + INVOKE, BARE, 1.5, invoke, token=token
        ),
        Load("POST /arp/v1/tool-invocations, answers kept", bare[0], bare[1] + ARP, CONSTANT, lua=invocation),
        Load("POST :invoke of a tool on a thread", bare[0], bare[1] + THREAD, CONSTANT, lua=shout),
        Load("peer: Starlette by hand, validated", by_hand[0], by_hand[1] + INVOKE, CONSTANT, lua=invoke),
        Load(LISTED, listed[0], listed[1] + "/v1/tools"),
        Load("GET /v1/tools of 10,000 tools", many[0], many[1] + "/v1/tools", LISTED, 3.0),
    ]


ARP, THREAD = "/arp/v1/tool-invocations", "/v1/tools/threads::shout:invoke"


def _post(body: dict[str, Any]) -> str:
    text = json.dumps(body)
    return f"wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = '{text}'\n"


def _invocations() -> str:
    """Each with an id of its own, in every block."""
    body = json.dumps({"invocation_id": "ID", "tool_name": "echo", "args": {"text": "hello"}})
    return (
        "local n, run = 0, tostring({}):sub(8)\n"
        "local h = {['Content-Type'] = 'application/json'}\n"
        "function init() run = tostring(os.time()) .. tostring(os.clock()) end\n"
        "function request()\n  n = n + 1\n"
        f"  return wrk.format('POST', nil, h, ('{body}'):gsub('ID', run .. '-' .. n))\nend\n"
    )


@contextmanager
def yard(folder: Path, name: str, config: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """`toolyard serve` of a config: its process id and where it listens."""
    (folder / f"{name}.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "toolyard", "serve", f"{name}.json", "--port", "0"]
    with started(command, folder) as found:
        yield found


@contextmanager
def peer(folder: Path, kind: str, body: bytes) -> Iterator[tuple[int, str]]:
    """One of `serve_apps`."""
    file = Path(tempfile.mkstemp(dir=folder)[1])
    file.write_bytes(body)
    here = Path(__file__).resolve().parent.parent
    with started([sys.executable, "-m", "benchmarks.serve_apps", kind, str(file)], here) as found:
        yield found


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[tuple[int, str]]:
    """Its id and where it listens."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
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
