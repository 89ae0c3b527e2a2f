"""The real service on a loopback port in its own thread, and requests to it over real sockets."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from urllib.parse import quote

import uvicorn
from waiting import SOON, until

from serving.quick_server import QuickServer
from toolyard import Effects, Tool, ToolContext, function_tool
from toolyard.app.blocks import ServerBlock
from toolyard.app.config import read_anything
from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import ToolFailed
from toolyard.serving.app import create_app
from toolyard.serving.identity import read_scopes
from toolyard.serving.process.protocol import ConnectionLimit, DeadlineProtocol
from toolyard.serving.process.server import Server
from toolyard.serving.service import build_service

CORE = {"tools": [{"type": "domains", "domains": ["core"]}]}


class Answer:
    """A complete response."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))

    @property
    def error(self):
        """The error of an envelope, which must have no other field."""
        assert set(self.json) == {"error"}, self.body
        return self.json["error"]

    def __repr__(self):
        return f"{self.status} {self.body[:500]!r}"


class Served:
    """A running service, and methods to send requests to it."""

    def __init__(self, service, port, limit=None):
        self.service = service
        self.port = port
        self.limit = limit
        self.url = f"http://127.0.0.1:{port}"
        self.token = None

    def ask(self, method, path, body=None, headers=(), token=None):
        """Send one request; a body that is not bytes is sent as JSON."""
        sent = {"content-type": "application/json"} if body is not None else {}
        token = token or self.token
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        sent |= dict(headers)
        sent = {name: value for name, value in sent.items() if value is not None}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        try:
            line.request(method, path, body, sent)
            answer = line.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            line.close()

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.ask("POST", path, {} if body is None else body, **options)

    def invoke(self, name, args, path="", **options):
        """A call by `POST /v1/tools/{name}:invoke`."""
        extra = options.pop("extra", {})
        return self.post(f"/v1/tools/{quote(name, safe='')}:invoke{path}", {"args": args, **extra}, **options)

    def arp(self, invocation_id, name, args, extra=(), **options):
        """A call by ARP."""
        body = {"invocation_id": invocation_id, "tool_name": name, "args": args, **dict(extra)}
        return self.post("/arp/v1/tool-invocations", body, **options)

    def raw(self, data, *, finish=False):
        """Send raw bytes and read until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=SOON) as line:
            line.sendall(data)
            if finish:
                line.shutdown(socket.SHUT_WR)
            answer = http.client.HTTPResponse(line)
            answer.begin()
            return Answer(answer.status, answer.getheaders(), answer.read())

    def key(self, *scopes, name="someone", **options):
        """Create a key; returns its token."""
        key, token = self.service.keys.create(name, read_scopes(scopes), **options)
        assert key.id in token
        return token


class _Server(QuickServer, Server):
    """That of `toolyard serve`."""


@contextmanager
def served(config=CORE, *, tools=(), **options):
    """A service of a config with additional tools; `options` go to its server block."""
    block = ServerBlock(**{"log": "off", "metrics": False, "page": False, "shutdown_timeout": SOON, **options})
    with ExitStack() as stack:
        service = build_service(read_anything(config), block)
        stack.callback(service.yard.close)
        if tools:
            service.yard.tool_registry.add(*tools)
        limit = ConnectionLimit(block.max_connections)
        settings = uvicorn.Config(
            create_app(service),
            http=partial(DeadlineProtocol, block=block, limit=limit),
            loop="asyncio",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        server = _Server(settings, service, ready=lambda: None, hangups=[])
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive())
            assert server.started
            yield Served(service, listener.getsockname()[1], limit)
        finally:
            server.should_exit = True
            thread.join(SOON * 2)
            assert not thread.is_alive()


RAN = []
"""What the counting tool was called with."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def count(word: str) -> str:
    """Write down that it was called."""
    RAN.append(word)
    return word


def refuse(reason: str) -> str:
    """Always fails, and says why."""
    raise ToolFailed(f"no: {reason}")


def crash(secret: str) -> str:
    """Has a bug that shows what nobody should see."""
    raise RuntimeError(f"password is {secret}")


def context(ctx: ToolContext) -> dict:
    """What came along with the call."""
    return {
        "context": dict(ctx.context),
        "trace": dict(ctx.trace),
        "session_id": ctx.session_id,
        "call_id": ctx.call_id,
    }


def by_city(city: str) -> str:
    """Where a city is."""
    return f"in {city}"


def by_place(lat: float, lon: float) -> list[float]:
    """What is at a place."""
    return [lat, lon]


def size(value: str) -> int:
    """How long a text is."""
    return len(value)


def infinite() -> float:
    """Not a number JSON has."""
    return float("inf")


def desk_tools():
    """Tools that are plain, failing, overloaded, oddly named, in two namespaces, and not callable."""
    return list(_make_desk_tools())


@cache
def _make_desk_tools():
    # Cached, since deriving their schemas takes longer than starting a server.
    return [
        function_tool(add, namespace="desk", effects=Effects.READ, tags=["sums"], version="2.1.0"),
        function_tool(count, namespace="desk", tags=["sums", "effects"]),
        function_tool(refuse, namespace="desk"),
        function_tool(crash, namespace="desk"),
        function_tool(context, namespace="desk"),
        function_tool(infinite, namespace="desk"),
        function_tool(by_city, namespace="desk", name="where"),
        function_tool(by_place, namespace="desk", name="where"),
        function_tool(add, namespace="desk", name="twice"),
        function_tool(add, namespace="other", name="twice"),
        function_tool(size, namespace="wörk/shop", name="größe 100% / día"),
        Tool(
            "unanswered",
            "desk",
            "Nobody answers.",
            {"type": "object"},
            binding=ScriptBinding("nowhere", "unanswered.py"),
        ),
    ]
