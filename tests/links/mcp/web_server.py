"""An MCP server over HTTP whose responses tests can replace."""

import json
import socket
import threading

from waiting import SOON

from links.fake_server import FakeServer, respond

MODERN = "2026-07-28"
SSE = "text/event-stream"


def result(request, value):
    return {"jsonrpc": "2.0", "id": request.json.get("id"), "result": value}


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def respond_result(value):
    """An act that answers a request with a result."""
    return lambda connection, request: respond(200, result(request, value))(connection, request)


def respond_rpc_error(code, message="no", status=200, **more):
    def act(connection, request):
        error = {"code": code, "message": message, **more}
        respond(status, {"jsonrpc": "2.0", "id": request.json.get("id"), "error": error})(connection, request)

    return act


def chunk(connection, data):
    connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))


def stream(*pieces, end=True, status=200):
    """An act that answers with a stream of these events: bytes, or functions of the request that return bytes."""

    def act(connection, request):
        head = f"HTTP/1.1 {status} OK\r\ncontent-type: {SSE}\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        for piece in pieces:
            chunk(connection, piece(request) if callable(piece) else piece)
        if end is False:
            return False
        if end is True:
            connection.sendall(b"0\r\n\r\n")
        else:
            end(connection, request)
        return None

    return act


def event(message, number=None, **fields):
    """One event."""
    lines = [f"{name}: {value}\n" for name, value in fields.items()]
    if number is not None:
        lines.append(f"id: {number}\n")
    data = message if isinstance(message, str) else json.dumps(message)
    return ("".join(lines) + f"data: {data}\n\n").encode()


def reply_event(value, number=None):
    return lambda request: event(result(request, value), number)


def until_closed(seen):
    """Wait until the client closes the connection, and record it."""

    def wait(connection, request):
        connection.settimeout(SOON)
        try:
            if connection.recv(1) == b"":
                seen.set()
        except TimeoutError:
            return
        except OSError:
            seen.set()

    return wait


class WebServer(FakeServer):
    """Supports the old and the new protocol at `/mcp`; `calls` maps a tool to the act that answers it."""

    def __init__(self, modern=True, session="s-1", context=None):
        self.modern = modern
        self.session = session
        self.calls = {}
        self.methods = {}
        self.get = respond(405)
        self.lock = threading.Lock()
        super().__init__(context)
        self.otherwise = self.choose

    @property
    def sent(self):
        """The client's messages, in order."""
        return [request.json for request in self.requests if request.method == "POST" and request.path == "/mcp"]

    def choose(self, request):
        if request.path != "/mcp":
            return respond(404)
        if request.method == "GET":
            return self.get
        if request.method == "DELETE":
            return respond(204)
        message = request.json
        method, params = message.get("method"), message.get("params", {})
        if method in self.methods:
            return self.methods[method]
        if method == "server/discover":
            if not self.modern:
                return respond(400, b"what?", kind="text/plain")
            capabilities = {"tools": {"listChanged": True}}
            return respond_result(
                {"supportedVersions": [MODERN], "capabilities": capabilities, "resultType": "complete"}
            )
        if method == "initialize":
            extra = [f"Mcp-Session-Id: {self.session}"] if self.session else []
            value = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "web"}}
            return respond(200, result(request, value), *extra)
        if method == "ping":
            return respond_result({})
        if method == "tools/list":
            return respond_result({"tools": [{"name": "echo"}]})
        if method == "tools/call":
            name = params["name"]
            return self.calls.get(name) or respond_result(text(params["arguments"].get("text", "")))
        if method == "subscriptions/listen":
            return respond_rpc_error(-32601, status=404)
        return respond(202)


def hang_up_hard(connection, request):
    """Reset the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    raise OSError
