"""E. Hung tools: how one hung tool, and fifty hung calls, affect other calls."""

from __future__ import annotations

import asyncio
import gc
import statistics
import threading
import time
from collections.abc import Callable

from benchmarks.quick_calls import async_block, sync_block
from toolyard import PythonToolEngine, ToolCall, ToolRegistry, function_tool

BLOCKS = 40
GOAL = 1.2


def quick(n: int) -> int:
    """What everybody else calls."""
    return n + 1


class Hung:
    """A tool that does not return until it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def __call__(self, n: int) -> int:
        """Wait to be released."""
        self.release.wait()
        return n


def run() -> bool:
    """Measure in interleaved blocks, with and without the hung calls; print the 99th percentiles."""
    print(f"\n## E. p99 of other calls while calls hang ({BLOCKS} interleaved blocks)\n")
    print("| caller | hung calls | p99 without | p99 with | ratio | goal | |")
    print("|---|---:|---:|---:|---:|---:|---|")
    rows = [
        _row("sync, in its own thread", 1, sync_block),
        _row("sync, in its own thread", 50, sync_block),
        _row("async, tool in the engine's threads", 1, async_block),
        _row("async, tool in the engine's threads", 50, async_block),
    ]
    return all(rows)


Block = Callable[[PythonToolEngine], list[float]]


def _row(caller: str, count: int, block: Block) -> bool:
    hung = Hung()
    tool = function_tool(quick, namespace="w")
    stuck = function_tool(hung.__call__, namespace="w", name="stuck")
    with PythonToolEngine(ToolRegistry([tool, stuck])) as engine:
        engine.setup("mine")
        block(engine)
        without, with_hung = [], []
        for number in range(BLOCKS):
            for samples, busy in (
                ((without, False), (with_hung, True)) if number % 2 else ((with_hung, True), (without, False))
            ):
                threads = _hang(engine, count) if busy else []
                # Collect the garbage of starting the hung callers, so that the timed calls do not pay for it.
                gc.collect()
                time.sleep(0.1)
                for _ in range(50):
                    engine.execute("mine", [ToolCall("w::quick", {"n": 0})])
                samples.append(_p99(block(engine)))
                hung.release.set()
                for thread in threads:
                    thread.join()
                hung.release.clear()
    before, after = statistics.median(without), statistics.median(with_hung)
    # Adjacent blocks run under the same machine load, so compare them in pairs.
    ratio = statistics.median(busy / calm for busy, calm in zip(with_hung, without, strict=True))
    good = ratio <= GOAL
    cells = [caller, str(count), f"{before * 1e6:.1f} us", f"{after * 1e6:.1f} us", f"{ratio:.2f}"]
    print(f"| {' | '.join(cells)} | <= {GOAL} | {'' if good else 'MISSED'} |")
    return good


def _hang(engine: PythonToolEngine, count: int) -> list[threading.Thread]:
    """Start hanging calls, each in its own session, half from threads and half on the engine's threads."""
    entered = threading.Semaphore(0)

    def call(number: int) -> None:
        session = f"stuck-{number}"
        engine.setup(session)
        entered.release()
        if number % 2:
            engine.execute(session, [ToolCall("w::stuck", {"n": 1})])
        else:
            asyncio.run(engine.aexecute(session, [ToolCall("w::stuck", {"n": 1})]))
        engine.teardown(session)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for _ in threads:
        entered.acquire()
    return threads


def _p99(samples: list[float]) -> float:
    return statistics.quantiles(samples, n=100)[98]
