"""A real server on a loopback port, and raw bytes sent to it."""

import json
import socket
import threading
from contextlib import contextmanager
from functools import partial

import uvicorn
from waiting import SOON, until

from serving.quick_server import QuickServer
from toolyard.app.blocks import ServerBlock
from toolyard.serving.process.protocol import ConnectionLimit, DeadlineProtocol


class Running:
    """A server in its own thread, with access to its connections."""

    def __init__(self, app, block):
        self.limit = ConnectionLimit(block.max_connections)
        config = uvicorn.Config(
            app,
            http=partial(DeadlineProtocol, block=block, limit=self.limit),
            loop="asyncio",
            ws="none",
            timeout_keep_alive=block.idle_timeout,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        self.server = QuickServer(config)
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))

    def dial(self, timeout=SOON):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def ask(self, data):
        """Send bytes, and read until the server closes or the response is complete."""
        with self.dial() as line:
            line.sendall(data)
            return read_answer(line)


@contextmanager
def running(app, **limits):
    server = Running(app, ServerBlock(**limits))
    server.thread.start()
    try:
        until(lambda: server.server.started)
        yield server
    finally:
        server.server.should_exit = True
        server.thread.join(SOON)
        assert not server.thread.is_alive()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def error(self):
        return json.loads(self.body)["error"]


def read_answer(line, head=False):
    """Read one response with a content length; None if the server closed without one."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = line.recv(65536)
        if not more:
            assert data == b"", data
            return None
        data += more
    top, body = data.split(b"\r\n\r\n", 1)
    first, *lines = top.split(b"\r\n")
    headers = {name.lower(): value for name, value in (item.split(b": ", 1) for item in lines)}
    status = int(first.split()[1])
    if status == 100:
        return read_answer(_Rest(body, line))
    length = 0 if head else int(headers.get(b"content-length", 0))
    while len(body) < length:
        more = line.recv(65536)
        assert more, "closed in the middle of an answer"
        body += more
    answer = Answer(status, headers, body[:length])
    answer.rest = body[length:]
    return answer


class _Rest:
    def __init__(self, data, line):
        self.data, self.line = data, line

    def recv(self, size):
        if self.data:
            data, self.data = self.data, b""
            return data
        return self.line.recv(size)


def read_answers(line, count):
    """Read the responses to pipelined requests, in order."""
    found, rest = [], b""
    for _ in range(count):
        answer = read_answer(_Rest(rest, line))
        if answer is None:
            break
        found.append(answer)
        rest = answer.rest
    return found


def closed(line):
    """Wait until the server closes the connection; returns what it still sends."""
    said = b""
    try:
        while more := line.recv(65536):
            said += more
    except ConnectionResetError:
        pass
    return said


class Echo:
    """Responds with the request's body, and records requests."""

    def __init__(self):
        self.seen = []
        self.lost = 0

    async def __call__(self, scope, receive, send):
        self.seen.append(scope)
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.lost += 1
                return
            body += message["body"]
            if not message.get("more_body"):
                break
        await answer(send, 200, body)


async def answer(send, status, body, *headers):
    head = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def early(scope, receive, send):
    """Respond immediately without reading the body."""
    if scope["path"] == "/close":
        await answer(send, 413, b"too large", (b"connection", b"close"))
    else:
        await answer(send, 401, b"who are you?")
