"""CPU cost of the call log and its events for an in-memory call, compared with the same call without them."""

from __future__ import annotations

import statistics
import time

from toolyard import PythonToolEngine, ToolCall, ToolRegistry, function_tool
from toolyard.calls.journal import CallLogOptions

CALLS, ROUNDS, GOAL = 2_000, 15, 20.0


def add(x: int) -> int:
    """One more."""
    return x + 1


def run() -> bool:
    """Measure CPU microseconds per call in interleaved rounds, and print them."""
    engines = []
    for logged in (False, True):
        registry = ToolRegistry()
        registry.add(function_tool(add, namespace="n"))
        engine = PythonToolEngine(registry)
        if logged:
            engine.keep_journal(CallLogOptions())
        engines.append(engine)
    rounds = [[_time_calls(engine) for engine in engines] for _ in range(ROUNDS)]
    plain, logged_us = (statistics.median(column) for column in zip(*rounds, strict=True))
    cost = statistics.median(with_log - without for without, with_log in rounds)
    print(f"call_log: a call {plain:.1f} us, logged {logged_us:.1f} us: {cost:.1f} us more (goal: {GOAL:g})")
    for engine in engines:
        engine.close()
    return cost <= GOAL


def _time_calls(engine: PythonToolEngine) -> float:
    engine.setup("s")
    call = [ToolCall("n::add", {"x": 1})]
    begin = time.process_time()
    for _ in range(CALLS):
        engine.execute("s", call)
    spent = time.process_time() - begin
    engine.teardown("s")
    return spent / CALLS * 1e6
