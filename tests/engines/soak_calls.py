"""soak_calls.py [CALLS]: a million calls by every door; memory, descriptors, tasks and threads must stay flat.

`run(calls)` does the same for a benchmark and returns what was measured.
"""

import asyncio
import gc
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolyard import Effects, PythonToolEngine, ToolCall, ToolRegistry, function_tool
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

CALLERS = 4
SAMPLES = 25
WARM = 0.2
"""The part of the run that may still grow: caches fill, threads start, the allocator settles."""
SLACK_SHARE, SLACK_MB = 0.05, 8.0
"""How much memory may grow after that."""


def add(a: int, b: int) -> int:
    return a + b


def slow(a: int) -> int:
    time.sleep(0.02)
    return a


async def later(a: int) -> dict:
    await asyncio.sleep(0)
    return {"a": a}


def registry():
    return ToolRegistry(
        [function_tool(function, namespace="t", effects=Effects.WRITE) for function in (add, slow, later)]
    )


class Soak:
    """The engines, and rounds of everything that can be done with them."""

    def __init__(self, folder):
        tools = registry()
        self.plain = PythonToolEngine(tools, threads=CALLERS)
        self.limited = PythonToolEngine(tools, threads=CALLERS, timeout=10.0, max_concurrent_calls=CALLERS, retries=1)
        self.stored = PythonToolEngine(tools, sessions=Sessions(SqliteStore(Path(folder) / "soak.db")), threads=CALLERS)

    def close(self):
        for engine in (self.plain, self.limited, self.stored):
            engine.close()

    def cycle(self, name, number):
        """From a thread: about 600 calls in sessions that come and go. Says how many."""
        plain, made = self.plain, 0
        plain.setup(name)
        for n in range(500):
            plain.execute(name, [ToolCall("t::add", {"a": n, "b": number})])
        made += 500
        plain.execute(name, [ToolCall("t::later", {"a": 1}, f"{name}-{number}"), ToolCall("t::add", {"a": "no"})])
        plain.setup(f"{name} fork", fork_of=name)
        for n in range(20):
            plain.simulate(name, [ToolCall("t::add", {"a": n, "b": 1}), ToolCall("t::nothing")])
            plain.execute(f"{name} fork", [ToolCall("t::add", {"a": n, "b": 2})])
        made += 62
        plain.teardown(name)
        assert len(plain.get_session_state(f"{name} fork")["tool_executions"]) == 522
        plain.teardown(f"{name} fork")
        made += self._with_deadlines(name, number) + self._in_a_file(name)
        return made

    def _with_deadlines(self, name, number):
        engine = self.limited
        engine.setup(name)
        for n in range(20):
            assert engine.execute(name, [ToolCall("t::add", {"a": n, "b": 1})])[0].result == n + 1
        if number % 8 == 0:
            late = engine.execute(name, [ToolCall("t::slow", {"a": 1})], timeout=0.001)[0]
            # On a busy machine it may have come before anybody looked at the clock, or its turn came too late.
            assert late.error_info is None or late.error_info.code in ("tool.timeout", "tool.unavailable"), late
            engine.execute(name, [ToolCall("t::later", {"a": 1})])
        engine.teardown(name)
        return 20

    def _in_a_file(self, name):
        engine = self.stored
        engine.setup(name)
        for n in range(4):
            engine.execute(name, [ToolCall("t::add", {"a": n, "b": 1})])
        engine.setup(f"{name} fork", fork_of=name)
        engine.simulate(f"{name} fork", [ToolCall("t::add", {"a": 1, "b": 1})])
        engine.teardown(name)
        engine.teardown(f"{name} fork")
        return 5

    async def acycle(self, number):
        """From an event loop: tasks in one session, some of them cancelled."""
        made = 0
        for engine in (self.plain, self.limited, self.stored):
            name = f"loop {number}"
            await engine.asetup(name)
            tasks = [
                asyncio.ensure_future(engine.aexecute(name, [ToolCall(tool, {"a": n})]))
                for n in range(10)
                for tool in ("t::later", "t::add")
            ]
            await asyncio.sleep(0)
            for task in tasks[::7]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await engine.asimulate(name, [ToolCall("t::later", {"a": 1})])
            await engine.ateardown(name)
            made += len(tasks) + 1
        return made


def measure(tasks):
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "rss_mb": round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1),
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": tasks,
    }


def run(calls, show=lambda line: None):
    """Make at least that many calls and say whether everything stayed flat: `flat`, `reasons` and the `samples`."""
    samples, made, number = [], 0, 0
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner, ThreadPoolExecutor(CALLERS) as callers:
        soak = Soak(folder)
        try:
            while made < calls:
                goal = calls * (len(samples) + 1) / SAMPLES
                while made < goal:
                    number += 1
                    rounds = [callers.submit(soak.cycle, f"thread {n}", number) for n in range(CALLERS)]
                    if number % 4 == 0:
                        made += runner.run(soak.acycle(number))
                    made += sum(done.result() for done in rounds)
                samples.append({"calls": made, **measure(runner.run(_tasks()))})
                show(samples[-1])
        finally:
            soak.close()
    reasons = not_flat(samples)
    return {"calls": made, "flat": not reasons, "reasons": reasons, "samples": samples}


async def _tasks():
    return len(asyncio.all_tasks()) - 1


def not_flat(samples):
    """Why a run is not flat; empty if it is."""
    warm = [sample for sample in samples if sample["calls"] >= samples[-1]["calls"] * WARM]
    first, last = warm[0]["rss_mb"], warm[-1]["rss_mb"]
    reasons = []
    if last > first * (1 + SLACK_SHARE) + SLACK_MB:
        reasons.append(f"memory grew from {first} to {last} MB")
    for what in ("fds", "threads", "tasks"):
        # Threads that are busy with what was left behind may be missing, or there, at one sample or another.
        if max(sample[what] for sample in warm[len(warm) // 2 :]) > max(
            sample[what] for sample in warm[: len(warm) // 2]
        ):
            reasons.append(f"{what} grew: {[sample[what] for sample in warm]}")
    return reasons


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    done = run(calls, show=lambda sample: print(sample, flush=True))
    print(f"{done['calls']:,} calls, {'flat' if done['flat'] else 'NOT FLAT: ' + '; '.join(done['reasons'])}")
    sys.exit(not done["flat"])


if __name__ == "__main__":
    main()
