"""D. Calls in sessions: execute and simulate compared with dispatch and a bare log, and memory use of sessions."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness import Row, measure, show
from benchmarks.material import CALL, SCHEMA
from toolyard import (
    Effects,
    Policy,
    PythonToolEngine,
    Sessions,
    SqliteStore,
    ToolCall,
    ToolRegistry,
    ToolResult,
    Tracer,
    function_tool,
)
from toolyard.calls.policy import Budget, Rule
from toolyard.calls.sinks import JsonlSink

ADD = {"a": 1, "b": 2}
FLAT = {"city": "Paris", "days": 3, "unit": "celsius"}
BARE_LOG = "a bare log: dispatch, encode, append, truncate"
DISPATCH = "dispatch"
DISPATCH_THREE = "dispatch, three parameters, an object out"
DISPATCH_NESTED = "dispatch, five nested parameters"
SESSIONS, ENTRIES = 10_000, 20


def add(a: int, b: int) -> int:
    """The smallest tool there is: what is measured is the way to it."""
    return a + b


def forecast(city: str, days: int, unit: str) -> dict[str, Any]:
    """Three typed parameters, a small object out."""
    return {"city": city, "days": days, "sunny": True}


def nested(city: str, days: int, unit: str, tags: list[str], place: dict[str, float]) -> dict[str, Any]:
    """The five parameters of section A."""
    return {"city": city, "days": days, "sunny": True}


async def later(city: str, days: int, unit: str) -> dict[str, Any]:
    """The same, awaited."""
    return {"city": city, "days": days, "sunny": True}


def registry() -> ToolRegistry:
    return ToolRegistry(
        [
            function_tool(add, namespace="w", effects=Effects.READ),
            function_tool(forecast, namespace="w", effects=Effects.READ),
            function_tool(later, namespace="w", effects=Effects.READ),
            function_tool(nested, namespace="w", effects=Effects.READ, parameters=SCHEMA),
        ]
    )


def run() -> bool:
    """Measure and print."""
    tools = registry()
    with tempfile.TemporaryDirectory() as folder:
        executes = _execute_rows(tools, Path(folder))
        measure(executes, 15)
    simulates = _simulate_rows(tools)
    measure(simulates, 15)
    good = [show("D. execute", executes), show("D. simulate", simulates), _weigh_sessions(tools)]
    return all(good)


def _execute_rows(tools: ToolRegistry, folder: Path) -> list[Row]:
    plain = _engine(tools)
    full = _engine(
        tools,
        timeout=30.0,
        max_concurrent_calls=8,
        retries=2,
        output_check="strict",
        policy=Policy([Rule("allow", "w::*")], default="deny", budgets=[Budget(10**9)]),
        tracer=Tracer([JsonlSink(folder / "calls.jsonl")]),
    )
    watched = _engine(
        tools,
        policy=Policy([Rule("allow", "w::*")], default="deny"),
        tracer=Tracer([JsonlSink(folder / "watched.jsonl")]),
    )
    stored = _engine(tools, sessions=Sessions(SqliteStore(folder / "sessions.db")))
    two = [ToolCall("w::add", ADD)]
    one, five, awaited = [ToolCall("w::forecast", FLAT)], [ToolCall("w::nested", CALL)], [ToolCall("w::later", FLAT)]
    named = [ToolCall("w::forecast", FLAT, "call_1")]
    return [
        Row(DISPATCH, lambda: tools.dispatch("w::add", ADD), 5_000),
        Row("execute", lambda: plain.execute("s", two), 5_000, DISPATCH),
        Row(DISPATCH_THREE, lambda: tools.dispatch("w::forecast", FLAT), 5_000),
        Row("execute, three parameters, an object out", lambda: plain.execute("s", one), 5_000, DISPATCH_THREE),
        Row("execute, a call with an id", lambda: plain.execute("s", named), 2_000, DISPATCH_THREE),
        Row(DISPATCH_NESTED, lambda: tools.dispatch("w::nested", CALL), 5_000),
        Row("execute, five nested parameters", lambda: plain.execute("s", five), 5_000, DISPATCH_NESTED),
        Row("execute, policy and a JSONL trace", lambda: watched.execute("s", one), 500, DISPATCH_THREE),
        Row(
            "execute, all limits, policy, trace (deadline: in a thread)",
            lambda: full.execute("s", one),
            100,
            DISPATCH_THREE,
        ),
        Row("execute, SQLite, durability normal", lambda: stored.execute("s", one), 200, DISPATCH_THREE),
        Row("execute, an async tool on the home loop", lambda: plain.execute("s", awaited), 100, DISPATCH_THREE),
    ]


def _engine(tools: ToolRegistry, **options: Any) -> PythonToolEngine:
    engine = PythonToolEngine(tools, **options)
    engine.setup("s")
    return engine


def _simulate_rows(tools: ToolRegistry) -> list[Row]:
    calls = [ToolCall("w::forecast", FLAT)]
    engines = {}
    for entries in (10, 10_000):
        engines[entries] = _engine(tools)
        for _ in range(entries):
            engines[entries].execute("s", calls)
    log: list[bytes] = [b"x" * 200] * 10_000

    def bare() -> None:
        mark = len(log)
        call = calls[0]
        value = tools.dispatch("w::forecast", FLAT)
        result = ToolResult(call.call_id, call.name, value)
        log.append(msgspec.json.encode((call, result)))
        del log[mark:]

    return [
        Row(BARE_LOG, bare, 2_000),
        Row("simulate, 10 entries", lambda: engines[10].simulate("s", calls), 2_000, BARE_LOG, 5.0),
        Row(
            "simulate, 10,000 entries", lambda: engines[10_000].simulate("s", calls), 2_000, "simulate, 10 entries", 1.2
        ),
        Row("setup(fork_of) and teardown, 10,000 entries", lambda: _fork(engines[10_000]), 1_000, BARE_LOG),
    ]


def _fork(engine: PythonToolEngine) -> None:
    engine.setup("fork", fork_of="s")
    engine.teardown("fork")


def _weigh_sessions(tools: ToolRegistry) -> bool:
    """Resident memory of many open sessions, less the JSON of their calls and results."""
    engine = PythonToolEngine(tools)
    calls = [ToolCall("w::forecast", {**FLAT, "days": day}, f"call_{day}") for day in range(ENTRIES)]
    engine.setup("probe")
    results = engine.execute("probe", calls)
    pairs = zip(calls, results, strict=True)
    written = sum(len(msgspec.json.encode((call.to_dict(), result.to_dict()))) for call, result in pairs)
    del results
    gc.collect()
    before = _resident()
    for number in range(SESSIONS):
        engine.setup(f"session-{number}")
        engine.execute(f"session-{number}", calls)
    gc.collect()
    apiece = (_resident() - before) / SESSIONS
    above = apiece - written
    good = above <= 5_000
    print(f"\n## D. {SESSIONS:,} open sessions with {ENTRIES} entries each\n")
    print("| resident a session | its calls and results as JSON | above that | goal | |\n|---:|---:|---:|---:|---|")
    print(f"| {apiece:,.0f} B | {written:,} B | {above:,.0f} B | <= 5,000 B | {'' if good else 'MISSED'} |")
    return good


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
