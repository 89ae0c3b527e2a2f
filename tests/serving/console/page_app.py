"""The console on a real server, with tools for its tests."""

import asyncio
import re
import socket
import threading
from contextlib import contextmanager

import uvicorn
from waiting import until

from serving.quick_server import QuickServer
from tests.insight.given_dataflow import dataflow_of
from toolyard import Effects, PythonToolEngine, ToolEnrichment, ToolRegistry, Toolyard, function_tool
from toolyard.app.blocks import ServerBlock
from toolyard.serving.app import create_app
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import ALL, Grant, Principal, Scopes
from toolyard.serving.keys import SignIns
from toolyard.serving.service import Service

HOSTILE = "<script>alert('hi')</script> \"quoted\" &amp; {{ 7 * 7 }}"
TOKEN = "ty_abcdefghijkl_" + "s" * 43
LOOKING = "ty_mnopqrstuvwx_" + "t" * 43


def split_bill(total: float, people: int, rounding: str = "none", note: str | None = None) -> list[float]:
    """Split a bill between people, to the cent.

    Args:
        total: What the bill says.
        people: How many pay.
    """
    share = round(total / people, 2)
    return [share] * people


def book_room(
    room: str, day: str, projector: bool, guests: list[str] | None = None, options: dict | None = None
) -> dict:
    """Book a meeting room for a day and invite the guests."""
    return {
        "room": room,
        "day": day,
        "projector": projector,
        "guests": guests,
        "options": options,
        "id": 9007199254740993,
    }


def fail(reason: str) -> str:
    """Always fails, which is what it is for."""
    raise RuntimeError(reason)


def sample_tools():
    """Tools of each kind: simple, with every control, overloaded, failing, hostile."""
    room = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "room": {"enum": ["Aspen", "Birch", "Cedar", "Douglas", "Elm"], "description": "Which room to book."},
            "day": {"type": "string", "format": "date", "description": "The day you need it."},
            "projector": {"type": "boolean", "description": "Have a projector put up."},
            "guests": {"type": "array", "items": {"type": "string"}, "description": "Addresses to invite."},
            "options": {"type": "object", "properties": {"chairs": {"type": "integer"}}, "description": "Set-up."},
        },
        "required": ["room", "day", "projector"],
    }
    bill = function_tool(split_bill, namespace="desk", effects=Effects.READ, tags=["money"])
    bill.parameters["properties"]["people"]["minimum"] = 1
    bill.parameters["properties"]["rounding"] = {
        "enum": ["none", "up"],
        "default": "none",
        "description": "“up” lets everybody pay the same, rounded up.",
    }
    return [
        bill,
        function_tool(book_room, namespace="desk", effects=Effects.WRITE, parameters=room, version="1.2.0"),
        function_tool(
            lambda text: {"text": text},
            namespace="core",
            name="echo",
            description="Say it back.",
            parameters={
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
            effects=Effects.READ,
        ),
        function_tool(fail, namespace="core"),
        function_tool(
            lambda city: {"city": city, "celsius": 7.5},
            namespace="weather api/v2",
            name="get weather",
            description="Current weather for a city.",
            parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        ),
        function_tool(
            lambda lat, lon: {"celsius": 8.0},
            namespace="weather api/v2",
            name="get weather",
            description="Current weather at a point.",
            parameters={
                "type": "object",
                "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                "required": ["lat", "lon"],
            },
        ),
        function_tool(
            lambda **given: given,
            namespace="hostile",
            name=HOSTILE,
            description=f"{HOSTILE}\n\n{HOSTILE}",
            tags=[HOSTILE],
            parameters={
                "type": "object",
                "properties": {
                    HOSTILE: {"type": "string", "description": HOSTILE, "default": HOSTILE},
                    "</textarea><b>": {"enum": [HOSTILE, "'\"><i>"], "description": HOSTILE},
                },
                "additionalProperties": False,
            },
        ),
    ]


class Edges(ToolEnrichment):
    """A fixed dataflow in which each tool feeds the next one, and in a circle the last one the first."""

    writes = ("dataflow",)

    def __init__(self, in_circle=False):
        self.in_circle = in_circle

    def enrich(self, snapshot):
        count = len(snapshot.tools)
        edges = [(place, (place + 1) % count, 0.9) for place in range(count if self.in_circle else count - 1)]
        return snapshot.tools, {"dataflow": dataflow_of(snapshot.tools, edges)}


class Keys:
    """Two keys: one for everything, one that may only list `desk`."""

    required = True

    def find(self, token):
        if token == TOKEN:
            return Principal("abcdefghijkl", "ops", ALL)
        if token == LOOKING:
            return Principal("mnopqrstuvwx", "visitor", Scopes((Grant("desk", frozenset({"list"})),)))
        raise HttpFault(401, "auth.invalid", "no such API key")

    def sign_ins(self):
        return SignIns(bytes(32))

    def sign_in(self, principal):
        return f"{principal.key_id}.note"

    def find_by_sign_in(self, note):
        for token in (TOKEN, LOOKING):
            if note == self.sign_in(self.find(token)):
                return self.find(token)
        raise HttpFault(401, "auth.missing", "sign in first")


def service_of(tools, *, keys=None, metrics=None, enrichments=()):
    registry = ToolRegistry(tools, enrichments=enrichments)
    yard = Toolyard(registry, PythonToolEngine(registry))
    service = Service(yard, ServerBlock(metrics=metrics is not None, log="off"))
    service.keys = service.keys if keys is None else keys
    return service


def form_token(client, path="/console/sign-in"):
    """The CSRF token of a form on that page, for the client's sign-in."""
    found = re.search(r'name="form_token" value="([^"]+)"', client.get(path, follow_redirects=True).text)
    assert found is not None, f"no form at {path}"
    return found[1]


def sign_in(client, token, after=""):
    data = {"key": token, "next": after, "form_token": form_token(client)}
    return client.post("/console/sign-in", data=data)


def app_of(service):
    """The application, with its console."""
    return create_app(service)


@contextmanager
def serve_app(app):
    """A real server on loopback; gives its URL."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = QuickServer(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([sock])))
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        sock.close()
