"""soak_cost.py: how long the loop is held, and how much memory is taken, by values that once stalled or ended a server.

Each case runs in a process of its own. First values alone, in one thread: weighed, judged, listed, bound. Then requests to
the application, and answers of its tools, while another task of its loop looks at the clock of the process all the time:
what it misses is how long the loop was held. Exit code 1 if a request holds it for over 50 ms of processor time, or takes
over 50 MB. Run it on a machine that does nothing else.
"""

import asyncio
import contextlib
import dataclasses
import gc
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from schema.hostile import CASES, CODES, FILTER, filtered, nested
from toolyard import Effects, InvalidArguments, PythonToolEngine, Tool, ToolCall, ToolRegistry, Toolyard, function_tool
from toolyard.schema.compile import compile_schema
from toolyard.serving import asgi

MILLISECONDS, MEGABYTES = 50, 50


def timed(work):
    begun = time.process_time()
    result = work()
    return (time.process_time() - begun) * 1000, result


def run(name):
    schema, value = CASES[name]
    compiled = compile_schema(schema)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weighing, _ = timed(lambda: compiled.weight)
    verdict, is_valid = timed(lambda: compiled.accepts(value))
    listing, found = timed(lambda: compiled.violations(value))
    binding = bind(schema, value) if isinstance(value, dict) else 0.0
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    told = "valid" if is_valid else str(found[0])[-70:]
    print(
        f"{name:45s} weighed {weighing:5.1f} judged {verdict:5.1f} listed {listing:5.1f} bound {binding:5.1f} ms "
        f"{grown:5.1f} MB  {told}",
        flush=True,
    )
    return True


def bind(schema, value):
    registry = ToolRegistry([Tool("t", "ns", "", {"type": "object", **schema})])

    def attempt():
        with contextlib.suppress(InvalidArguments):
            registry.bind(ToolCall("ns::t", value))

    attempt()  # compiles the schema, and warms everything else
    return timed(attempt)[0]


def holding(schema):
    return {"type": "object", "properties": {"v": schema}}


INTEGERS = holding({"type": "array", "items": {"type": "integer"}})
OBJECTS = holding({"type": "array", "items": {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}})
NUMBERS = holding({"type": "array", "items": {"type": "number", "minimum": 0}})
LONG_PATTERN = holding({"type": "string", "pattern": "(a|b)*a(a|b){5000}c"})
PATTERNS = CASES["properties and patternProperties"][0]
REQUESTS = {
    "a filter with a wrong leaf, 12 deep": (FILTER, filtered(12, "x")),
    "a filter with a wrong leaf, 45 deep": (FILTER, filtered(45, "x")),
    "95,000 wrong codes": (CODES, {"codes": ["x"] * 95_000}),
    "95,000 codes, the last wrong": (CODES, {"codes": ["c1"] * 94_999 + ["x"]}),
    "recursive oneOf": (CASES["oneOf twice itself"][0], nested(90, {})),
    "patternProperties, 90 deep": (PATTERNS, nested(90, "x")),
    "95,000 integers": (INTEGERS, {"v": list(range(95_000))}),
    "95,000 integers as text": (INTEGERS, {"v": ["1"] * 95_000}),
    "4,900 integers as text": (INTEGERS, {"v": ["1"] * 4_900}),
    "95,000 integers as 1.0": (INTEGERS, {"v": [1.0] * 95_000}),
    "95,000 numbers below the minimum": (NUMBERS, {"v": [-1.5] * 95_000}),
    "31,000 objects": (OBJECTS, {"v": [{"a": 1, "b": "x"}] * 31_000}),
    "31,000 wrong objects": (OBJECTS, {"v": [{"a": 1, "b": 2}] * 31_000}),
    "95,000 lists": (holding({}), {"v": [[]] * 95_000}),
    "4 MB of text": (holding({"type": "string", "pattern": "^(a|b|ab)*$"}), {"v": "ab" * 1_900_000}),
    "90,000 keys, and one of idempotency": (holding({}), {"v": {f"{hash(f'{n}'):x}": n for n in range(90_000)}}),
    "40,000 letters, a long pattern": (LONG_PATTERN, {"v": "ab" * 20_000}),
}
"""Schemas, and arguments within the limits of a server."""
ANSWERS = {
    "780 KB of wrong codes": (CODES, {"codes": ["wrong"] * 95_000}),
    "a filter with a wrong leaf": (FILTER, filtered(90, "x")),
    "8 MB of text": ({}, {"v": "a" * 8_000_000}),
    "250,000 objects": (OBJECTS, {"v": [{}] * 250_000}),
    "4,000,000 numbers": ({}, [1] * 4_000_000),
}
"""Output schemas, and answers that a service gives."""


def serve(name):
    """One request while the loop is watched; True if it was held for no longer than it may be."""
    is_answer = name in ANSWERS
    schema, value = ANSWERS[name] if is_answer else REQUESTS[name]
    tool = function_tool(lambda **_: value if is_answer else 1, namespace="ns", name="t", effects=Effects.READ)
    given = {"output_parameters": schema} if is_answer else {"parameters": schema}
    registry = ToolRegistry([dataclasses.replace(tool, **given)])
    body = json.dumps({"args": {} if is_answer else value}).encode()
    with Toolyard(registry, PythonToolEngine(registry)) as yard:
        return asyncio.run(watch(asgi(yard), name, body))


async def watch(app, name, body):
    async with app.router.lifespan_context(app):
        await ask(app, "GET", "/v1/tools", b"")
        # As the process of a server does.
        gc.collect()
        gc.freeze()
        held, before = [0.0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        watching = asyncio.create_task(look_at_clock(held))
        await asyncio.sleep(0.01)
        held[0], begun = 0.0, time.process_time()
        status, answer = await ask(app, "POST", "/v1/tools/ns::t:invoke", body)
        took = time.process_time() - begun
        await asyncio.sleep(0.01)
        watching.cancel()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    good = held[0] * 1000 <= MILLISECONDS and grown <= MEGABYTES
    print(
        f"{name:45s} held {held[0] * 1000:6.1f} of {took * 1000:6.1f} ms {grown:5.1f} MB  "
        f"{status} {answer[-60:].decode(errors='replace')}{'' if good else '  MISSED'}",
        flush=True,
    )
    return good


async def look_at_clock(held):
    last = time.process_time()
    while True:
        await asyncio.sleep(0.0005)
        now = time.process_time()
        held[0], last = max(held[0], now - last), now


async def ask(app, method, path, body):
    """Status and body of an answer."""
    pieces, answer = [body[at : at + 65536] for at in range(0, len(body), 65536)] or [b""], []
    # The body is hashed, too.
    headers = {
        "idempotency-key": "k",
        "host": "localhost",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }

    async def receive():
        await asyncio.sleep(0 if pieces else 3600)
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message):
        answer.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "state": {},
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
    }
    await app(scope, receive, send)
    return answer[0]["status"], b"".join(message.get("body", b"") for message in answer)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(not (run if sys.argv[1] in CASES else serve)(sys.argv[1]))
    results = [
        subprocess.run([sys.executable, __file__, name], check=False, stderr=subprocess.DEVNULL).returncode
        for name in (*CASES, *REQUESTS, *ANSWERS)
    ]
    sys.exit(any(results))
