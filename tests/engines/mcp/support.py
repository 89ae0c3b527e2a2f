"""Real MCP servers for tests: a process over stdio, and one on loopback that tests can inspect."""

import json
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from waiting import until

from toolyard import MCPToolEngine, MCPToolLoader, ToolCall, ToolRegistry

RAW = Path(__file__).with_name("raw_server.py")
OBJECT = {"type": "object"}


def raw(folder, **more):
    """Options of a source or an engine for the server over stdio that meets its test in a folder."""
    folder.mkdir(exist_ok=True)
    return {"command": sys.executable, "args": [str(RAW), str(folder)], **more}


def entry(name, **more):
    return {"name": name, "description": f"Does {name}.", "inputSchema": OBJECT, **more}


def put_tools(folder, *tools):
    """Set the tools that the server lists from now on, in addition to its own."""
    new = folder / "tools.new"
    new.write_text(json.dumps(tools))
    new.replace(folder / "tools.json")


def log(folder):
    path = folder / "log.txt"
    return path.read_text().splitlines() if path.exists() else []


def pids(folder):
    """Every server process that a client has connected to, oldest first."""
    found = sorted(folder.glob("pid-*"), key=lambda path: path.stat().st_mtime_ns)
    return [int(path.name.removeprefix("pid-")) for path in found]


def kill(folder):
    with suppress(ProcessLookupError):
        os.kill(pids(folder)[-1], signal.SIGKILL)


@contextmanager
def yard(folder, namespace="raw", **options):
    """A registry of that server's tools and an engine for them, with the session `s`."""
    loader = MCPToolLoader(**raw(folder), namespace=namespace)
    with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry, **options) as engine:
        engine.setup("s")
        yield registry, engine


def call(engine, name, arguments=None, session="s", **options):
    return engine.execute(session, [ToolCall(f"raw::{name}", arguments or {})], **options)[0]


class WebServer:
    """Streamable HTTP at `/mcp`, answered in JSON, of the handshake's era; `tools` and `answer` are the test's."""

    def __init__(self, port=0):
        self.tools = [entry("fine", annotations={"readOnlyHint": True})]
        self.answer = lambda params: {"content": [{"type": "text", "text": "fine"}]}
        self.token = None
        self.received = []
        self.connections = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                outer.connections.append(self.connection)

            def log_message(self, *args):
                pass

            def do_GET(self):
                self.reply(405, b"")

            do_DELETE = do_GET

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.received.append((self.path, body.get("method"), dict(self.headers)))
                if self.path.partition("?")[0] != "/mcp":
                    return self.reply(404, b"")
                if outer.token is not None and self.headers.get("authorization") != f"Bearer {outer.token}":
                    return self.reply(401, f"who is {self.headers.get('authorization')}?".encode())
                if "id" not in body:
                    return self.reply(202, b"")
                answer = {"jsonrpc": "2.0", "id": body["id"], **outer.result(body["method"], body.get("params", {}))}
                return self.reply(200, json.dumps(answer).encode())

            def reply(self, status, data):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def result(self, method, params):
        match method:
            case "initialize":
                told = {"name": "web", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": told}
            case "tools/list":
                result = {"tools": self.tools}
            case "tools/call":
                result = self.answer(params)
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}
        return {"result": result}

    def close(self):
        self._server.shutdown()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()


@contextmanager
def web(port=0):
    server = WebServer(port)
    try:
        yield server
    finally:
        server.close()


def names(registry, namespace="raw"):
    return set(registry.tool_names(namespace))


def comes(registry, name, namespace="raw"):
    """Wait until a tool is registered."""
    return until(lambda: f"{namespace}::{name}" in registry)


def state(registry, state):
    """Wait until the first source is in that state."""
    return until(lambda: registry.report.sources[0].state == state)
