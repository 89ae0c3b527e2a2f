"""40 threads and 400 tasks on two loops in one session: nothing acknowledged is lost, and never two inside."""

import asyncio
import random
import threading
import time
from collections import defaultdict

import pytest

from conftest import SOAK
from toolyard import Effects, PythonToolEngine, ToolCall, ToolRegistry, function_tool
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

THREADS = 40
TASKS = 400
LOOPS = 2


class Crowd:
    """Callers of one session, and tools that see who is inside with them."""

    def __init__(self, *stores, seed="", **settings):
        self.seed = seed
        self.lock = threading.Lock()
        self.inside = 0
        self.most_inside = 0
        self.ran = set()
        self.simulated = set()
        self.told = defaultdict(list)
        self.given_up = defaultdict(list)
        self.troubles = []
        registry = ToolRegistry()
        for function in (self.blocking, self.waiting):
            registry.add(function_tool(function, namespace="t", effects=Effects.WRITE))
        self.engines = [
            PythonToolEngine(registry, sessions=Sessions(store), simulate="live", **settings) for store in stores
        ]
        self.engine = self.engines[0]
        self.engine.setup("s")

    def enter(self, who, n):
        with self.lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            self.ran.add((who, n))

    def leave(self):
        with self.lock:
            self.inside -= 1

    def blocking(self, who: str, n: int) -> int:
        self.enter(who, n)
        try:
            time.sleep(0.0002 if n % 2 else 0)
            return n
        finally:
            self.leave()

    async def waiting(self, who: str, n: int) -> int:
        self.enter(who, n)
        try:
            await asyncio.sleep(0.0002 if n % 2 else 0)
            return n
        finally:
            self.leave()

    def batch(self, rng, who, n):
        """One to three calls; numbers go on from n."""
        names = [rng.choice(["t::blocking", "t::waiting"]) for _ in range(rng.choice([1, 1, 2, 3]))]
        return [ToolCall(name, {"who": who, "n": n + index}) for index, name in enumerate(names)]

    def thread(self, number):
        rng, who, n = random.Random(f"{self.seed} thread {number}"), f"thread {number}", 0
        engine = self.engines[number % len(self.engines)]
        try:
            for _ in range(4):
                calls = self.batch(rng, who, n)
                simulated = rng.random() < 0.3
                results = (engine.simulate if simulated else engine.execute)("s", calls)
                self.answered(who, calls, results, simulated)
                n += len(calls)
        except BaseException as error:  # a thread's failure must reach the test
            self.troubles.append(error)

    async def task(self, number):
        rng, who, n = random.Random(f"{self.seed} task {number}"), f"task {number}", 0
        engine = self.engines[number // 2 % len(self.engines)]
        for _ in range(2):
            calls = self.batch(rng, who, n)
            n += len(calls)
            choice = rng.random()
            if choice < 0.3:
                self.answered(who, calls, await engine.asimulate("s", calls), True)
            elif choice < 0.7:
                self.answered(who, calls, await engine.aexecute("s", calls), False)
            else:
                await self.cancelled(engine, rng, who, calls)

    async def cancelled(self, engine, rng, who, calls):
        """Cancelled in line, inside, or just too late."""
        task = asyncio.ensure_future(engine.aexecute("s", calls))
        try:
            await asyncio.wait_for(asyncio.shield(task), rng.choice([0, 0.001, 0.05, 0.5]))
        except TimeoutError:
            task.cancel()
        await asyncio.wait({task})
        if task.cancelled():
            self.given_up[who].extend(call.arguments["n"] for call in calls)
        else:
            self.answered(who, calls, task.result(), False)

    def answered(self, who, calls, results, simulated):
        assert [result.result for result in results] == [call.arguments["n"] for call in calls], results
        if simulated:
            self.simulated |= {(who, call.arguments["n"]) for call in calls}
        else:
            self.told[who].extend(call.arguments["n"] for call in calls)

    def loop(self, number):
        async def all_of_them():
            await asyncio.gather(*(self.task(task) for task in range(number, TASKS, LOOPS)))
            assert asyncio.all_tasks() == {asyncio.current_task()}

        try:
            asyncio.run(all_of_them())
        except BaseException as error:
            self.troubles.append(error)

    def run(self):
        threads = [threading.Thread(target=self.thread, args=(number,)) for number in range(THREADS)]
        threads += [threading.Thread(target=self.loop, args=(number,)) for number in range(LOOPS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.troubles:
            raise self.troubles[0]


KINDS = ["memory with limits", "sqlite from two sides", *(("memory", "sqlite") if SOAK else ())]


@pytest.mark.parametrize("kind", KINDS)
def test_one_session_serves_forty_threads_and_four_hundred_tasks_one_at_a_time(kind, tmp_path):
    path = tmp_path / "sessions.db"
    sides = {"sqlite": 1, "sqlite from two sides": 2}.get(kind)
    stores = [None] if sides is None else [SqliteStore(path) for _ in range(sides)]
    crowd = Crowd(*stores, **({"max_concurrent_calls": 8, "timeout": 60.0} if kind == "memory with limits" else {}))
    crowd.run()
    # Whatever a cancelled caller left running is over when the next one has had its turn.
    crowd.engine.execute("s", [ToolCall("t::blocking", {"who": "last", "n": 0})])
    state = crowd.engine.get_session_state("s")
    check(crowd, state)
    for engine in crowd.engines:
        assert engine.get_session_state("s") == state
        assert engine.state_hash("s") == crowd.engine.state_hash("s")
    if sides is not None:
        again = PythonToolEngine(sessions=Sessions(SqliteStore(path)))
        assert again.get_session_state("s") == state
        again.close()
    for engine in crowd.engines:
        engine.close()


def check(crowd, state):
    assert crowd.most_inside == 1
    found, unknown = defaultdict(list), 0
    for entry in state["tool_executions"]:
        arguments, info = entry["tool_call"]["arguments"], entry["tool_output"].get("error_info")
        found[arguments["who"]].append(arguments["n"])
        unknown += info is not None
        assert info is None or info["effect"] == "unknown"
    assert found.pop("last") == [0]
    for who in crowd.told.keys() | found.keys():
        acknowledged, given_up = crowd.told[who], crowd.given_up[who]
        assert found[who] == sorted(set(found[who])), "each caller's in order, none twice"
        assert set(acknowledged) <= set(found[who]), "acknowledged and lost"
        extra = set(found[who]) - set(acknowledged)
        assert extra <= set(given_up), "neither acknowledged nor cancelled"
        assert all((who, n) in crowd.ran for n in extra), "recorded and never ran"
    executed = {(who, n) for who, n in crowd.ran - crowd.simulated if who != "last"}
    assert executed == {(who, n) for who, numbers in found.items() for n in numbers}, "what ran is what is recorded"
    # The crowd did all that it was meant to: both kinds of cancelled batch, and many that were not.
    given_up = sum(map(len, crowd.given_up.values()))
    assert given_up > 0 and sum(map(len, crowd.told.values())) > 500
    assert not crowd.engine.sessions.find("s").gate.busy
