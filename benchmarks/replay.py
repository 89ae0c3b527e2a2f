"""Replaying calls: the cost of a call must not depend on the length of the cassette."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from benchmarks.harness import Row, measure, show
from toolyard import PythonToolEngine, ReplayToolEngine, ToolCall, ToolRegistry, function_tool
from toolyard.calls.faults import FaultPlan

SIZES = (100, 10_000, 100_000)
BATCH = 200


def look(place: str) -> dict[str, str]:
    """Look somewhere."""
    return {"place": place}


def _calls(size: int) -> list[ToolCall]:
    step = size / BATCH
    return [ToolCall("n::look", {"place": f"place {int(number * step)}"}) for number in range(BATCH)]


def _tape(folder: Path, size: int, registry: ToolRegistry) -> Path:
    path, defined = folder / f"{size}.jsonl", registry.get("n::look")[0].definition_hash
    entries = (
        {
            "name": "n::look",
            "arguments": {"place": f"place {number}"},
            "result": {"place": f"place {number}"},
            "definition_hash": defined,
            "when": "2026-01-01T00:00:00.000+00:00",
            "duration": 0.1,
        }
        for number in range(size)
    )
    path.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    return path


def _simulated(engine: ReplayToolEngine | PythonToolEngine, calls: list[ToolCall]) -> None:
    # `simulate`, so that the history does not grow.
    for result in engine.simulate("s", calls):
        if result.is_error:
            raise RuntimeError(result.error)


def _order(engine: ReplayToolEngine, count: int) -> None:
    """Repeat the same call in one session: its position is counted, not searched for."""
    engine.setup("long")
    for _ in range(count // BATCH):
        engine.execute("long", [ToolCall("n::look", {"place": "again"})] * BATCH)
    engine.teardown("long")


def run() -> bool:
    registry = ToolRegistry([function_tool(look, namespace="n")])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = []
        for size in SIZES:
            engine = ReplayToolEngine(registry, cassette=_tape(folder, size, registry))
            engine.setup("s")
            first = size == SIZES[0]
            rows.append(
                Row(
                    f"replay from {size:,} recordings",
                    lambda engine=engine, size=size: _simulated(engine, _calls(size)),
                    repeat=5,
                    calls=BATCH,
                    limit=None if first else f"replay from {SIZES[0]:,} recordings",
                    goal=None if first else 1.5,
                )
            )
        for count in (1_000, 8_000):
            path = folder / f"order-{count}.jsonl"
            path.write_text('{"name":"n::look","arguments":{"place":"again"},"result":1}\n' * count)
            engine = ReplayToolEngine(registry, cassette=path)
            rows.append(
                Row(
                    f"the same call {count:,} times, in order",
                    lambda engine=engine, count=count: _order(engine, count),
                    calls=count,
                    limit=None if count == 1_000 else "the same call 1,000 times, in order",
                    goal=None if count == 1_000 else 1.5,
                )
            )
        rows += _with_plans(registry)
        measure(rows, 7)
        return show("Replay and faults", rows)


def _with_plans(registry: ToolRegistry) -> list[Row]:
    """The cost of fault plans that never fire, for calls that do not take the short path anyway."""
    never = [{"type": "auth", "probability": 0.0}, {"type": "timeout", "tool": "other::*"}]
    bare = PythonToolEngine(registry, max_concurrent_calls=8)
    planned = PythonToolEngine(registry, max_concurrent_calls=8, faults=FaultPlan(never))
    rows = []
    for title, engine, limit in (("no plan", bare, None), ("a plan that never fires", planned, "no plan")):
        engine.setup("s")
        rows.append(
            Row(
                title,
                lambda engine=engine: _simulated(engine, _calls(100)),
                repeat=5,
                calls=BATCH,
                limit=limit,
                goal=None if limit is None else 1.5,
            )
        )
    return rows
