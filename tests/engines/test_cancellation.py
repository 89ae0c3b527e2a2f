"""Cancelled at every single suspension: the session is free, nothing is held, and the history tells the truth."""

import asyncio
import itertools
import threading
import time

import pytest
from waiting import SOON

from conftest import chosen_way, ways_to_try
from engines.cancelling import AFTER, AGAIN, AT, cancelled_at
from toolyard import Effects, PythonToolEngine, ToolCall, ToolRegistry, function_tool
from toolyard.sessions.store.base import Key

pytestmark = pytest.mark.parametrize("how", [AT, AFTER, AGAIN])


@pytest.fixture
def tool(request):
    """Which of the tools is called."""
    return chosen_way(request)


EITHER = ways_to_try("blocking", "waiting")
# What a tool is changes what the engine does, and not what a store does: in a store either is called, by turns.
everywhere = pytest.mark.parametrize(
    ("anywhere", "tool"),
    [
        *(("memory", tool) for tool in ("blocking", "waiting")),
        *((store, tool) for store in ways_to_try("sqlite", "postgres") for tool in EITHER),
    ],
    indirect=True,
)

SETTINGS = {
    "plain": {},
    "gates": {"max_concurrent_calls": 1, "max_concurrent_calls_per_tool": 1},
    "deadline": {"timeout": 30.0},
    "retries": {"retries": 2, "retry_delay": 0.001},
}


class Bench:
    """An engine whose tools say which calls they ran."""

    def __init__(self, place, **settings):
        self.place = place
        self.ran = set()
        registry = ToolRegistry()
        for function in (self.blocking, self.waiting):
            registry.add(function_tool(function, namespace="t", effects=Effects.WRITE))
        self.engine = PythonToolEngine(registry, sessions=place.open_sessions(), simulate="live", **settings)

    def blocking(self, n: int) -> int:
        self.ran.add(n)
        time.sleep(0.002)
        return n

    async def waiting(self, n: int) -> int:
        self.ran.add(n)
        await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        return n

    def calls(self, tool, *numbers):
        return [ToolCall(f"t::{tool}", {"n": n}) for n in numbers]

    async def entries(self, session):
        state = await self.engine.aget_session_state(session)
        return [
            (entry["tool_call"]["arguments"]["n"], entry["tool_output"].get("error_info"))
            for entry in state["tool_executions"]
        ]

    async def check(self, session, numbers, outcome, fired):
        """Nothing is left behind, and the history has what ran and nothing else."""
        after = await self.engine.aexecute(session, self.calls("waiting", -1))
        assert after[0].result == -1
        found = await self.entries(session)
        assert found.pop() == (-1, None)
        unknown = [n for n, info in found if info is not None]
        assert [n for n, _ in found] == [n for n in numbers if n in self.ran]
        assert all((info["code"], info["effect"]) == ("tool.interrupted", "unknown") for _, info in found if info)
        if fired:
            assert outcome is asyncio.CancelledError
            # Only what was under way can be in doubt, and it is the last.
            assert unknown in ([], [n for n, _ in found][-1:])
        else:
            assert [result.result for result in outcome] == numbers
            assert not unknown and len(found) == len(numbers)
        self.check_free(session)

    def check_free(self, session):
        assert not self.engine.sessions.find(session).gate.busy
        for gate in self.engine.gates.of("t::blocking"):
            assert not gate.busy
        if self.place.kind != "memory":
            assert self.probe.try_hold(Key("", session))
            self.probe.release(Key("", session))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @property
    def probe(self):
        """Another store object on the same place, as another process has one."""
        if "_probe" not in self.__dict__:
            self._probe = self.place.open()
        return self._probe


@pytest.mark.parametrize("settings", SETTINGS)
@everywhere
async def test_a_call_cancelled_at_any_await_leaves_the_session_free_and_the_history_true(
    anywhere, tool, settings, how
):
    bench = Bench(anywhere, **SETTINGS[settings])
    for number in itertools.count(1):
        session, numbers = f"s{number}", [number * 10, number * 10 + 1]
        await bench.engine.asetup(session)
        work = bench.engine.aexecute(session, bench.calls(tool, *numbers))
        fired, outcome = await cancelled_at(work, number, how)
        await bench.check(session, numbers, outcome, fired)
        if not fired:
            break
    assert number > 2
    bench.engine.close()


@everywhere
async def test_a_call_cancelled_in_line_behind_others_neither_runs_nor_blocks_the_line(anywhere, tool, how):
    """Behind one in its session, and behind one in another session for the engine's only place."""
    bench = Bench(anywhere, max_concurrent_calls=1)
    for number in itertools.count(1):
        session, numbers = f"s{number}", [number * 10]
        await bench.engine.asetup(session)
        await bench.engine.asetup(f"other{number}")
        first = [
            asyncio.ensure_future(bench.engine.aexecute(f"other{number}", bench.calls(tool, -2))),
            asyncio.ensure_future(bench.engine.aexecute(session, bench.calls(tool, -3))),
        ]
        await asyncio.sleep(0)
        fired, outcome = await cancelled_at(bench.engine.aexecute(session, bench.calls(tool, *numbers)), number, how)
        assert [[r.result for r in results] for results in await asyncio.gather(*first)] == [[-2], [-3]]
        if not fired:
            assert [result.result for result in outcome] == numbers
            assert await bench.entries(session) == [(-3, None), (numbers[0], None)]
            bench.check_free(session)
            break
        await bench.check(session, [-3, *numbers], outcome, fired)
    bench.engine.close()


@everywhere
async def test_a_cancelled_simulation_leaves_no_trace(anywhere, tool, how):
    bench = Bench(anywhere)
    await bench.engine.asetup("s")
    await bench.engine.aexecute("s", bench.calls(tool, 1))
    before = await bench.engine.astate_hash("s"), await bench.engine.aget_session_state("s")
    for number in itertools.count(1):
        fired, outcome = await cancelled_at(bench.engine.asimulate("s", bench.calls(tool, 7, 8)), number, how)
        # A blocking tool may still run; the next turn comes after it.
        assert [r.result for r in await bench.engine.asimulate("s", bench.calls("waiting", 9))] == [9]
        assert (await bench.engine.astate_hash("s"), await bench.engine.aget_session_state("s")) == before
        bench.check_free("s")
        assert (outcome is asyncio.CancelledError) == fired
        if not fired:
            break
    bench.engine.close()


async def test_a_cancelled_setup_leaves_no_session_and_a_cancelled_teardown_is_whole(anywhere, how):
    bench = Bench(anywhere)
    engine = bench.engine
    await engine.asetup("root")
    await engine.aexecute("root", bench.calls("waiting", 1))
    for begin in ({}, {"fork_of": "root"}):
        for number in itertools.count(1):
            fired, _ = await cancelled_at(engine.asetup("s", **begin), number, how)
            assert (await engine.aget_session_state("s") is None) == fired
            if not fired:
                break
        for number in itertools.count(1):
            fired, _ = await cancelled_at(engine.ateardown("s"), number, how)
            assert await engine.aget_session_state("s") is None
            if not fired:
                break
    assert [n for n, _ in await bench.entries("root")] == [1]
    bench.check_free("root")
    engine.close()


async def test_a_blocking_tool_keeps_the_session_until_its_thread_ends_or_lets_it_go_as_configured(anywhere, how):
    inside, let_go = threading.Event(), threading.Event()

    def stuck(n: int) -> int:
        inside.set()
        let_go.wait(SOON)
        return n

    for abandoned in ("hold", "release"):
        inside.clear(), let_go.clear()
        bench = Bench(anywhere, abandoned=abandoned)
        bench.engine.tool_registry.add(function_tool(stuck, namespace="t", effects=Effects.WRITE))
        session = f"s {abandoned}"
        await bench.engine.asetup(session)
        task = asyncio.ensure_future(bench.engine.aexecute(session, bench.calls("stuck", 1)))
        await asyncio.to_thread(inside.wait)
        task.cancel()
        if how == AGAIN:
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        next_one = asyncio.ensure_future(bench.engine.aexecute(session, bench.calls("waiting", 2)))
        done, _ = await asyncio.wait({next_one}, timeout=0.1 if abandoned == "hold" else 30)
        assert bool(done) == (abandoned == "release")
        let_go.set()
        assert [result.result for result in await next_one] == [2]
        assert [(n, info and info["effect"]) for n, info in await bench.entries(session)] == [(1, "unknown"), (2, None)]
        bench.engine.threads.close()
        bench.check_free(session)
    bench.engine.close()
