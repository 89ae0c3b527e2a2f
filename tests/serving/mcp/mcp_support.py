"""A client of the MCP face with only sockets and JSON, so that it can also send invalid requests."""

import http.client
import json
import re
import threading

from waiting import SOON, until

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
BOTH = {"accept": "application/json, text/event-stream"}


def make_request(method, params=None, number=1):
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


class Stateless:
    """Requests in the version without sessions."""

    def __init__(self, served, token=None):
        self.served = served
        self.token = token

    def send(self, method, params=None, *, headers=(), meta=(), number=1):
        params = {**(params or {}), "_meta": {**META, **dict(meta)}}
        sent = {**BOTH, "mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if method == "tools/call" and isinstance(params.get("name"), str):
            sent["mcp-name"] = params["name"]
        return self.served.post(
            "/mcp", make_request(method, params, number), headers={**sent, **dict(headers)}, token=self.token
        )

    def call(self, name, arguments=None, **options):
        return self.send("tools/call", {"name": name, "arguments": arguments or {}}, **options)

    def tools(self, **params):
        return read_result(self.send("tools/list", params))


class Session:
    """Requests of one session, begun with a handshake."""

    def __init__(self, served, version="2025-11-25", token=None):
        self.served = served
        self.token = token
        self.version = version
        opened = served.post(
            "/mcp", make_request("initialize", {"protocolVersion": version}, 0), headers=BOTH, token=token
        )
        assert opened.status == 200, opened
        self.greeting = opened.json["result"]
        self.id = opened.headers["mcp-session-id"]

    @property
    def headers(self):
        return {**BOTH, "mcp-session-id": self.id, "mcp-protocol-version": self.version}

    def send(self, method, params=None, *, headers=(), number=1):
        return self.served.post(
            "/mcp", make_request(method, params, number), headers={**self.headers, **dict(headers)}, token=self.token
        )

    def notify(self, method, params=None):
        body = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        return self.served.post("/mcp", body, headers=self.headers, token=self.token)

    def call(self, name, arguments=None, **options):
        return self.send("tools/call", {"name": name, "arguments": arguments or {}}, **options)

    def end(self):
        return self.served.ask("DELETE", "/mcp", headers=self.headers, token=self.token)

    def listen(self, **headers):
        return StreamReader(self.served, "GET", "/mcp", None, {**self.headers, **headers}, self.token)


def read_result(answer):
    """The result of a response, which must not be an error."""
    assert answer.status == 200, answer
    found = (
        answer.json if answer.headers["content-type"].startswith("application/json") else read_events(answer.body)[-1]
    )
    assert "result" in found, found
    return found["result"]


def read_error(result):
    """The error in the text of a `CallToolResult`, of ours or of the SDK."""
    text = result["content"][0]["text"] if isinstance(result, dict) else result.content[0].text
    return json.loads(text)["error"]


def read_events(body):
    """The messages of a complete stream."""
    return [json.loads(data) for _, data in read_frames(body) if data]


def read_frames(body):
    """The ids and data of the events of a stream."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields or "id" in fields:
            found.append((fields.get("id"), fields.get("data", "").strip()))
    return found


class StreamReader:
    """An open stream, read by a thread."""

    def __init__(self, served, method, path, body, headers, token=None):
        self.line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=SOON)
        sent = dict(headers)
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        if body is not None:
            sent["content-type"] = "application/json"
            body = json.dumps(body).encode()
        self.line.request(method, path, body, sent)
        self.socket = self.line.sock
        self.answer = self.line.getresponse()
        self.status = self.answer.status
        self.body = b""
        self.over = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            while data := self.answer.read1(65536):
                self.body += data
        except (OSError, ValueError, http.client.HTTPException):
            # Closed by either side.
            pass
        self.over = True

    @property
    def messages(self):
        whole = self.body[: self.body.rfind(b"\n\n") + 2]
        return [json.loads(data) for _, data in read_frames(whole) if data.startswith("{")]

    @property
    def ids(self):
        return [number for number, _ in read_frames(self.body) if number is not None]

    def wait(self, count):
        """Wait for `count` messages and return them."""
        until(lambda: len(self.messages) >= count or self.over)
        assert len(self.messages) >= count, self.body
        return self.messages

    def close(self):
        self.socket.close() if self.over else self.socket.shutdown(2)
        self.thread.join(SOON)
        self.answer.close()
        self.line.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class SseClient:
    """A client of the first version: one stream, and posts to where it says."""

    def __init__(self, found, token=None):
        self.found = found
        self.token = token
        self.stream = StreamReader(found, "GET", "/sse", None, {"accept": "text/event-stream"}, token)
        assert self.stream.status == 200
        assert until(lambda: b"\n\n" in self.stream.body)
        self.path = re.search(rb"event: endpoint\ndata: (\S+)\n", self.stream.body)[1].decode()

    def post(self, body, token=None):
        return self.found.post(self.path, body, token=token or self.token)

    def ask(self, method, params=None, number=1):
        assert self.post(make_request(method, params, number)).status == 202
        return self.answer(number)

    def answer(self, number):
        def found():
            return [each for each in self.stream.messages if each.get("id") == number]

        assert until(found)
        return found()[-1]
