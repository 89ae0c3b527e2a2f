"""L. lm: a thousand concurrent sessions compared with the bare client, and prompts of long histories."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import orjson

from benchmarks.harness import Row, measure, show
from benchmarks.lm_server import CONTENT
from toolyard import Invocation, LMToolEngine, Tool, ToolCall, ToolEngine, ToolRegistry
from toolyard.engines.lm import INSTRUCTION, Prompts, _tool_head
from toolyard.links.lm import Message

SESSIONS = 1_000
CALLS = 4
ROUNDS = 2
SHARE = 0.9
ENTRIES = (1_000, 10_000)
WRITTEN = "LIMIT orjson.dumps of these messages, 10,000 entries"
TOOL = Tool(
    "get_weather",
    "w",
    "The weather of a place, now or in some days.",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
    {
        "type": "object",
        "properties": {
            "temp": {"type": "number"},
            "sky": {"type": "string"},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["temp", "sky"],
    },
)


def run() -> bool:
    """Measure and print."""
    good = _prompts()
    with _server() as url:
        return asyncio.run(_sessions(url)) and good


async def _sessions(url: str) -> bool:
    """Compare medians of wall time, since most of it is waiting; rows run in turn."""
    rates: dict[str, list[float]] = {}
    limits = httpx2.Limits(max_connections=SESSIONS, max_keepalive_connections=SESSIONS)
    block: Any = {"type": "openai", "model_id_or_path": "bench", "base_url": url, "max_concurrent": SESSIONS}
    engine = LMToolEngine(ToolRegistry([TOOL]), lm_config=block)
    async with httpx2.AsyncClient(base_url=url, limits=limits, trust_env=False, timeout=60) as client:
        bodies = _bodies()
        # The first row is slow because its pool scans all connections for each request.
        rows: dict[str, Callable[[int], Awaitable[None]]] = {
            "bare httpx2.AsyncClient": partial(_bare, client, bodies),
            "bare LMClient, without sessions, history and checks": partial(_asked, engine, bodies),
            "LMToolEngine.aexecute, a session each": partial(_session, engine),
        }
        for _ in range(ROUNDS + 1):
            for name, one in rows.items():
                begin = time.perf_counter()
                await asyncio.gather(*(one(number) for number in range(SESSIONS)))
                rates.setdefault(name, []).append(SESSIONS * CALLS / (time.perf_counter() - begin))
    await engine.aclose()
    medians = {name: statistics.median(values[1:]) for name, values in rates.items()}
    bare, _, ours = medians.values()
    print(f"\n## L. lm: {SESSIONS:,} sessions at once, {CALLS} calls each, a server that thinks for 50 ms\n")
    print("| row | calls/s (median) | x of the bare client | goal |")
    print("|---|---:|---:|---:|")
    for name, rate in medians.items():
        print(f"| {name} | {rate:,.0f} | {rate / bare:.2f} | {f'>= {SHARE}' if rate is ours else ''} |")
    return ours >= SHARE * bare


def _bodies() -> list[dict[str, Any]]:
    """The request bodies that the engine sends for the calls of a session."""
    head, (response_format, *_) = _tool_head(TOOL), Prompts()._answer_format(TOOL)
    messages = [{"role": "system", "content": INSTRUCTION}]
    bodies = []
    for turn in range(CALLS):
        messages.append({"role": "user", "content": f'{head}{{"city":"Rome 1-{turn}"}}}}'})
        bodies.append({"model": "bench", "messages": list(messages), "response_format": response_format})
        messages.append({"role": "assistant", "content": CONTENT})
    return bodies


async def _bare(client: httpx2.AsyncClient, bodies: list[dict[str, Any]], number: int) -> None:
    for body in bodies:
        response = await client.post("/v1/chat/completions", json=body)
        json.loads(response.raise_for_status().json()["choices"][0]["message"]["content"])


async def _asked(engine: LMToolEngine, bodies: list[dict[str, Any]], number: int) -> None:
    client = engine._client
    for body in bodies:
        messages = tuple(Message(message["role"], message["content"]) for message in body["messages"])
        json.loads((await client.complete(client.request(messages, body["response_format"]))).text)


async def _session(engine: LMToolEngine, number: int) -> None:
    session = f"s{number}"
    await engine.asetup(session)
    for turn in range(CALLS):
        (result,) = await engine.aexecute(session, [ToolCall("w::get_weather", {"city": f"Rome {number}-{turn}"})])
        if result.error is not None:
            raise SystemExit(f"the engine did not answer as it should: {result}")
    await engine.ateardown(session)


class _Still(ToolEngine):
    """Returns immediately, to fill histories; keeps the last invocation for the prompt."""

    last: Invocation

    def answer(self, invocation: Invocation) -> Any:
        self.last = invocation
        return {"temp": 21.5, "sky": "clear", "notes": ["mild"]}


def _prompts() -> bool:
    registry = ToolRegistry([TOOL])
    engine = _Still(registry)
    every, some = Prompts(), Prompts(max_tokens=16_000)
    invocations = {}
    for count in ENTRIES:
        engine.setup(str(count))
        engine.execute(str(count), [ToolCall("w::get_weather", {"city": f"Rome {n}"}) for n in range(count)])
        invocations[count] = engine.last
    small, large = (invocations[count] for count in ENTRIES)
    messages = [{"role": message.role, "content": message.content} for message in every.build(registry, large).messages]
    rows = [
        Row(WRITTEN, lambda: orjson.dumps(messages), calls=ENTRIES[1]),
        Row(
            f"prompt, {ENTRIES[1]:,} entries (each)", lambda: every.build(registry, large), 1, WRITTEN, 5.0, ENTRIES[1]
        ),
        Row(f"prompt, {ENTRIES[0]:,} entries (each)", lambda: every.build(registry, small), 10, calls=ENTRIES[0]),
        Row("prompt, 10,000 entries and a budget of 16,000 tokens (whole)", lambda: some.build(registry, large), 10),
    ]
    growth = rows[1]
    measure(rows, 15)
    good = show("L. lm: prompts of long histories", rows)
    ratio = growth.median / rows[2].median
    print(f"\n10,000 entries cost {ratio:.2f} x of 1,000, each (goal <= 1.5)")
    engine.close()
    return good and ratio <= 1.5


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.lm_server"]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
