"""Timed calls of `w::quick` in the session `mine`: the latency other callers see while the engine is busy."""

from __future__ import annotations

import asyncio
import time

from toolyard import PythonToolEngine, ToolCall

SYNC_CALLS, ASYNC_CALLS = 4_000, 500


def sync_block(engine: PythonToolEngine) -> list[float]:
    """Durations in seconds of calls from this thread."""
    samples = []
    for number in range(SYNC_CALLS):
        call = [ToolCall("w::quick", {"n": number})]
        begin = time.perf_counter()
        engine.execute("mine", call)
        samples.append(time.perf_counter() - begin)
    return samples


def async_block(engine: PythonToolEngine) -> list[float]:
    """Durations in seconds of calls from a task."""

    async def block() -> list[float]:
        samples = []
        for number in range(ASYNC_CALLS):
            call = [ToolCall("w::quick", {"n": number})]
            begin = time.perf_counter()
            await engine.aexecute("mine", call)
            samples.append(time.perf_counter() - begin)
        return samples

    return asyncio.run(block())
