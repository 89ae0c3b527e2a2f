"""Hostile clients of a server, and measurements of it from outside."""

import json
import shutil
import socket
import subprocess
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

from warm_python import warm_toolyard

from serving.process_support import served

TOOLS = """
import time
from collections import Counter
from toolyard import tool

@tool(blocking=False)
def echo(text: str) -> str:
    "The same again."
    return text

@tool
def wait(seconds: float) -> float:
    "Take a while."
    time.sleep(seconds)
    return seconds
"""
ECHO = b'{"args":{"text":"hello"}}'


class Guarded:
    """A server with keys, and the tokens of two of them."""

    def __init__(self, server, folder, tokens):
        self.server = server
        self.folder = folder
        self.pid = server.pid
        self.url = server.url
        parts = urlsplit(server.url)
        self.address = (parts.hostname, parts.port)
        self.flood, self.light = tokens

    def head(self, method, path, size=None, token=None, *more):
        """The bytes of a request up to its body."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.address[0]}:{self.address[1]}"]
        lines += [] if size is None else ["Content-Type: application/json", f"Content-Length: {size}"]
        lines += [] if token is None else [f"Authorization: Bearer {token}"]
        return ("\r\n".join([*lines, *more]) + "\r\n\r\n").encode()

    def invocation(self, token, body=ECHO):
        return self.head("POST", "/v1/tools/bench::echo:invoke", len(body), token) + body


@contextmanager
def guarded(folder, *, keys=True, **limits):
    """A server on a SQLite file with two keys, or with none."""
    (folder / "bench.py").write_text(TOOLS)
    document = {
        "tools": [{"type": "python", "target": "bench.py", "namespace": "bench"}],
        "sessions": {"store": "sqlite", "path": "s.db"},
        "server": {"log": "off", "port": 0, **limits},
    }
    (folder / "yard.json").write_text(json.dumps(document))
    tokens = [_key(folder, name) for name in ("flood", "light")] if keys else [None, None]
    with served(folder, "yard.json") as server:
        yield Guarded(server, folder, tokens)


def _key(folder, name):
    command = ["-m", "toolyard", "key", "create", name, "--scope", "*:*", "--config", "yard.json"]
    made = warm_toolyard().run([*command, "--json"], cwd=folder)
    return json.loads(made.stdout)["token"]


def resident(pid):
    """Resident memory of a process in bytes."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024


class Line:
    """A persistent connection that sends one request at a time and reads its response."""

    def __init__(self, address, limit=10):
        self.socket = socket.create_connection(address, limit)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def ask(self, request):
        """Status and body."""
        self.socket.sendall(request)
        return self.answer()

    def answer(self):
        data = self.rest
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields.get(b"content-length", 0))
        while len(body) < size:
            body += self._more()
        self.rest = body[size:]
        return int(head.split(b" ", 2)[1]), body[:size]

    def _more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionResetError("closed")
        return data

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def light(guarded_server, seconds, line=None, *, every=0.05):
    """Durations of the light key's requests at this pace, on one connection or each on a new one."""
    request = guarded_server.invocation(guarded_server.light)
    took = []
    begin = time.perf_counter()
    for number in range(round(seconds / every)):
        time.sleep(max(0.0, begin + number * every - time.perf_counter()))
        sent = time.perf_counter()
        with nullcontext(line) if line else Line(guarded_server.address) as used:
            status, body = used.ask(request)
        took.append(time.perf_counter() - sent)
        assert status == 200, body
    return took


class Flood:
    """wrk against one server for a bounded time, in the background."""

    def __init__(self, guarded_server, seconds, *, connections=64, token=None, path=None, body=ECHO, headers=()):
        program = shutil.which("wrk")
        token = token or guarded_server.flood
        script = guarded_server.folder / "flood.lua"
        (guarded_server.folder / "flood.body").write_bytes(body)
        script.write_text(
            'wrk.method = "POST"\nlocal file = io.open("flood.body", "rb")\nwrk.body = file:read("*a")\nfile:close()\n'
            'wrk.headers["Content-Type"] = "application/json"\n'
            "function done(summary)\n"
            'io.write(string.format("REQUESTS %d STATUS %d\\n", summary.requests, summary.errors.status))\nend\n'
        )
        given = [f"Authorization: Bearer {token}"] if token else []
        options = [part for header in [*given, *headers] for part in ("-H", header)]
        url = guarded_server.url + (path or "/v1/tools/bench::echo:invoke")
        self.process = subprocess.Popen(
            [program, "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(script), *options, url],
            cwd=guarded_server.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self):
        """(number of responses, number of error responses)."""
        said = self.process.communicate(timeout=60)[0]
        words = said.rpartition("REQUESTS ")[2].split()
        assert self.process.returncode == 0, said
        return int(words[0]), int(words[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate()


@contextmanager
def connections(address, count, first=b""):
    """Open `count` connections that send `first` and nothing more."""
    made = []
    try:
        for _ in range(count):
            made.append(socket.create_connection(address, 10))
            if first:
                made[-1].sendall(first)
        yield made
    finally:
        for each in made:
            each.close()


def drip(made, seconds, text, every=1.0):
    """Send `text` byte by byte on each connection, as long as the server accepts it."""
    alive = set(made)
    for number in range(round(seconds / every)):
        time.sleep(every)
        for each in list(alive):
            try:
                each.sendall(text[number % len(text) : number % len(text) + 1])
            except OSError:
                alive.discard(each)


def was_ended(connection):
    """Whether the server has closed the connection, with or without a response."""
    connection.setblocking(False)
    try:
        while True:
            if not connection.recv(65536):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def nonsense(guarded_server):
    """Requests that are malformed, too large, or inconsistent."""
    url, token = "/v1/tools/bench::echo:invoke", guarded_server.flood
    many = b'{"args":{"text":[' + b",".join([b"[]"] * 60_000) + b"]}}"
    deep = b'{"args":{"text":' + b"[" * 5_000 + b"]" * 5_000 + b"}}"
    bodies = [b"{", b"null", b"\xff" * 64, b'{"args": {"text": 1e999}}', b'{"args":{}, "args":{}}', deep, many, b"NaN"]
    return [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"\r\n" * 50 + b"GARBAGE\r\n\r\n",
        guarded_server.head("GET", "/" + "a" * 20_000, None, token),
        guarded_server.head("GET", "/v1/tools", None, token, *(f"X-{number}: y" for number in range(200))),
        guarded_server.head("GET", "/v1/tools", None, token, "X-Large: " + "y" * 40_000),
        guarded_server.head("POST", url, -1, token),
        guarded_server.head("POST", url, 10, token, "Content-Length: 11") + b"{}",
        guarded_server.head("POST", url, 10, token, "Transfer-Encoding: chunked") + b"zz\r\n",
        guarded_server.head("POST", url, 5 * 1024 * 1024, token) + b"x" * 1000,
        guarded_server.head("POST", url, 2, "ty_" + "x" * 56) + b"{}",
        guarded_server.head("GET", "/v1/tools/%ff%fe", None, token),
        guarded_server.head("BREW", url, None, token),
        *(guarded_server.invocation(token, body) for body in bodies),
    ]


def send_nonsense(guarded_server, count):
    """Send each kind in turn on a new connection; returns counts by response status, 0 for no response."""
    seen = Counter()
    kinds = nonsense(guarded_server)
    for number in range(count):
        with Line(guarded_server.address) as line:
            try:
                seen[line.ask(kinds[number % len(kinds)])[0]] += 1
            except OSError:
                seen[0] += 1
    return seen
