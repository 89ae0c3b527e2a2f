"""Every screen of the console with 10,000 tools and 1,000,000 logged calls, compared with a constant page of its size.

    python -m benchmarks.console [TOOLS CALLS]

Both are requested in turn over one connection; the figure is the ratio of medians. Every `search` request has a new
query, which a model must embed; `search again` repeats one whose vector is cached. Measuring starts when the tools'
vectors are ready: until then search is lexical, and every screen competes for the cores that compute them. Not in
`make bench`: it fills a database first, and vectors take minutes unless an earlier run has cached them.
"""

from __future__ import annotations

import http.client
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from toolyard.calls.journal import CallLogOptions, CallRow
from toolyard.calls.sql_journal import SqlJournal
from toolyard.insight.embeddings.embedder import missing_parts
from toolyard.sessions.store.sqlite import SqliteStore

ROUNDS, BOUND = 15, 5.0
_SERVER = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
def page(request):
    return Response(b"x" * int(request.path_params["size"]), media_type="text/html")
app = Starlette(routes=[Route("/{size}", page)])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", timeout_keep_alive=600)
"""


def main(tools: int = 10_000, calls: int = 1_000_000) -> bool:
    """Print one line per screen; False if one exceeds its bound."""
    with tempfile.TemporaryDirectory() as folder:
        config, database = Path(folder, "yard.json"), Path(folder, "yard.db")
        entries = [_make_tool(number) for number in range(tools)]
        block = {
            "tools": {"registry": [{"type": "inline", "namespace": "many", "tools": entries}]},
            "sessions": {"store": "sqlite", "path": str(database)},
            "tracing": {"log": {"max_rows": 2 * calls}},
            "server": {"log": "off"},
        }
        config.write_text(json.dumps(block))
        command = [sys.executable, "-m", "toolyard", "serve", str(config), "--port", "18741"]
        _fill_log(database, tools, calls)
        plain = subprocess.Popen([sys.executable, "-c", _SERVER, "18742"])
        try:
            return _run_server(command, 18741, lambda: _compare(18741, 18742))
        finally:
            plain.terminate()
            plain.wait()


def _make_tool(number: int) -> dict[str, object]:
    parameters = {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}
    return {"name": f"tool_{number:05}", "description": f"Keep thing {number} in its place.", "parameters": parameters}


def _run_server(command: list[str], port: int, work: Callable[[], bool]) -> bool:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        return work()
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/v1/health")
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def _fill_log(database: Path, tools: int, calls: int) -> None:
    draw, now = random.Random(7), time.time()
    store = SqliteStore(database)
    log = SqlJournal(store, CallLogOptions(max_rows=2 * calls))

    def rows() -> Iterator[Any]:
        for number in range(1, calls + 1):
            code = "tool.execution_error" if draw.random() < 0.05 else None
            tool = f"many::tool_{draw.randrange(tools):05}"
            at = now - (calls - number) * 0.05
            row = CallRow(number, at, draw.random() / 10, tool, "execute", f"s{draw.randrange(500)}", code=code)
            yield log._write_row(row)[0].values

    marks, connection = ", ".join("?" * 10), sqlite3.connect(database)
    with connection:
        connection.executemany(f"INSERT INTO calls VALUES ({marks})", rows())
    connection.close()
    store.close()


SCREENS = {
    "catalog": "/console/tools",
    "catalog, page 100": "/console/tools?page=100",
    "catalog, one effect": "/console/tools?effect=unknown",
    "catalog, search": "/console/tools?q=keep+thing+{}",
    "catalog, search again": "/console/tools?q=keep+thing+7000",
    "tool": "/console/tools/many::tool_07000",
    "calls": "/console/calls",
    "calls, failed": "/console/calls?errors=true",
    "calls of a session": "/console/calls?session=s7",
    "calls of a tool": "/console/calls?tool=many::tool_07000",
    "sessions": "/console/sessions",
    "approvals": "/console/approvals",
    "sources": "/console/sources",
    "graph": "/console/graph",
    "connect": "/console/connect",
}


def _compare(port: int, plain: int) -> bool:
    _wait_for(plain)
    ours = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    theirs = http.client.HTTPConnection("127.0.0.1", plain, timeout=60)
    well = True
    _wait_for_vectors(ours)
    for name, template in _with_next_pages(ours).items():
        path = template.format(0)
        status, size = _time_get(ours, path)[1:]
        if status != 200:
            print(f"{name:28} {status}", flush=True)
            well = False
            continue
        pairs = [
            (_time_get(ours, template.format(number))[0], _time_get(theirs, f"/{size}")[0])
            for number in range(1, ROUNDS + 1)
        ]
        screen, constant = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
        well = well and screen <= BOUND * constant
        told = "" if screen <= BOUND * constant else "   MISSED"
        print(
            f"{name:28} {size:9,} bytes {screen:8.1f} ms {constant:6.1f} ms {screen / constant:6.1f}x{told}", flush=True
        )
    return well


def _wait_for_vectors(connection: http.client.HTTPConnection) -> None:
    """Repeat a search until it also compares meaning; without a model it never does."""
    while not missing_parts():
        connection.request("GET", "/console/tools.json?q=thing")
        if json.loads(connection.getresponse().read())["search"] == "hybrid":
            return
        time.sleep(1)
    print("no model is installed: `toolyard embeddings install`; search compares words alone", flush=True)


def _with_next_pages(connection: http.client.HTTPConnection) -> dict[str, str]:
    """Add the second page of the call log, whose URL has a cursor from the server."""
    connection.request("GET", "/console/calls.json")
    answer = json.loads(connection.getresponse().read())
    following = answer.get("next_cursor") or answer.get("next")
    return SCREENS if not following else SCREENS | {"calls, next page": f"/console/calls?cursor={following}"}


def _time_get(connection: http.client.HTTPConnection, path: str) -> tuple[float, int, int]:
    begin = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    size = len(answer.read())
    return time.perf_counter() - begin, answer.status, size


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
