"""What an independent reviewer found, held fast."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from toolyard import (
    ConfigError,
    DefinitionError,
    MultiToolEngine,
    Policy,
    PythonToolEngine,
    SessionBusyError,
    SessionError,
    Sessions,
    SqliteStore,
    Tool,
    ToolCall,
    ToolEngine,
    ToolRegistry,
    ToolResult,
    Tracer,
    function_tool,
)
from toolyard.calls.policy import Budget


def engine_of(*functions, **options):
    engine = PythonToolEngine(ToolRegistry([function_tool(fn, namespace="n") for fn in functions]), **options)
    engine.setup("s")
    return engine


def one(engine, name, **arguments):
    return engine.execute("s", [ToolCall(f"n::{name}", arguments)])[0]


def numbers():
    return (n for n in range(3))


def mapped():
    return map(str, [1, 2])


def endless():
    while True:
        yield 1


@pytest.mark.parametrize("options", [{}, {"timeout": 20}], ids=["short way", "in a thread"])
def test_an_iterator_is_gone_through_once_and_nothing_of_it_is_lost(options):
    with engine_of(numbers, mapped, endless, **options, max_result_bytes=10_000) as engine:
        assert one(engine, "numbers").result == [0, 1, 2]
        assert one(engine, "mapped").result == ["1", "2"]
        assert one(engine, "endless").error_info.code == "tool.invalid_output"


INTERRUPTED = """
import signal, sys, threading, time
from toolyard import PythonToolEngine, Sessions, SqliteStore, ToolCall, ToolRegistry, function_tool

def add(a: int, b: int) -> int:
    return a + b

sessions = Sessions(SqliteStore(sys.argv[1])) if len(sys.argv) > 1 else Sessions()
engine = PythonToolEngine(ToolRegistry([function_tool(add, namespace="n")]), sessions=sessions)
engine.setup("s")
over = threading.Event()

def bother():
    while not over.wait(0.0005):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

armed, interrupts = [False], 0

def interrupt(number, frame):
    if armed[0]:
        armed[0] = False
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
thread = threading.Thread(target=bother)
thread.start()
calls, end = [ToolCall("n::add", {"a": 1, "b": 2})], time.monotonic() + 2
while time.monotonic() < end:
    try:
        armed[0] = True
        engine.execute("s", calls)
        armed[0] = False
    except KeyboardInterrupt:
        interrupts += 1
over.set()
thread.join()
assert not sessions.find("s").gate.busy, "the turn was never given back"
assert engine.execute("s", calls)[0].result == 3
print(interrupts)
"""


@pytest.mark.process
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "sqlite"])
def test_an_interrupt_at_any_moment_gives_the_turn_back(stored, tmp_path):
    arguments = [str(tmp_path / "s.db")] if stored else []
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 20


class Slow:
    def __init__(self):
        self.release = threading.Event()

    def __call__(self, n: int = 0) -> int:
        self.release.wait(30)
        return n


def quick(n: int = 0) -> int:
    return n


def routed(slow, **options):
    tools = ToolRegistry(
        [function_tool(slow.__call__, namespace="n", name="slow"), function_tool(quick, namespace="n")]
    )
    engine = MultiToolEngine(tools, {"n": PythonToolEngine(tools, **options)})
    engine.setup("s")
    return engine


def test_the_limits_of_the_engine_that_answers_hold_for_the_turn_too():
    slow = Slow()
    with routed(slow, timeout=0.25) as engine:
        assert one(engine, "slow").error_info.code == "tool.timeout"
        with pytest.raises(SessionBusyError):
            one(engine, "quick")
        slow.release.set()
        deadline = time.monotonic() + 20
        while engine.sessions.find("s").gate.busy:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert one(engine, "quick").result == 0


def test_released_a_session_goes_on_beside_the_call_that_overran():
    slow = Slow()
    with routed(slow, timeout=0.25, abandoned="release") as engine:
        calls = [ToolCall("n::slow"), ToolCall("n::quick", {"n": 1})]
        results = engine.execute("s", calls)
        assert [result.error_info and result.error_info.code for result in results] == ["tool.timeout", None]
        assert one(engine, "quick", n=2).result == 2
        slow.release.set()


@pytest.mark.parametrize("part", [{"policy": Policy(default="deny")}, {"tracer": Tracer()}, {"sessions": Sessions()}])
def test_an_engine_with_parts_of_its_own_is_not_taken_into_another_that_would_ignore_them(part):
    child = PythonToolEngine(ToolRegistry(), **part)
    with pytest.raises(ConfigError, match="would not be used here"):
        MultiToolEngine(ToolRegistry(), {"n": child})


class Bare(ToolEngine):
    """A constructor of its own that knows nothing of ours, as the seed's base class has none."""

    def __init__(self, client):
        self.client = client
        self.lives = []

    def setup(self, session_id, *args, **kwargs):
        self.lives.append(session_id)

    def execute(self, session_id, tool_calls):
        if session_id not in self.lives:
            raise KeyError(session_id)
        return [ToolResult(call.call_id, call.name, self.client) for call in tool_calls]

    def teardown(self, session_id):
        self.lives = [name for name in self.lives if name != session_id]


async def test_an_engine_that_never_called_our_constructor_works_alone_and_among_others():
    engine = Bare("hi")
    engine.setup("s")
    assert engine.simulate("s", [ToolCall("n::a")])[0].result == "hi"
    assert (await engine.aexecute("s", [ToolCall("n::a")]))[0].result == "hi"
    with MultiToolEngine(ToolRegistry([Tool("a", "n")]), {"n": engine}) as multi:
        multi.setup("t")
        assert multi.execute("t", [ToolCall("n::a")])[0].result == "hi"
    assert engine.client == "hi"


def test_a_stored_session_goes_on_in_an_engine_that_kept_nothing_of_it(tmp_path):
    tools = ToolRegistry([Tool("a", "n")])
    for _ in range(2):
        sessions = Sessions(SqliteStore(tmp_path / "s.db"))
        with MultiToolEngine(tools, {"n": Bare("hi")}, sessions=sessions) as multi:
            if multi.get_session_state("s") is None:
                multi.setup("s")
            assert multi.execute("s", [ToolCall("n::a")])[0].result == "hi"
            last = multi.get_session_state("s")
    assert len(last["tool_executions"]) == 2


async def test_a_call_whose_first_sender_gave_up_in_line_still_runs_once_for_the_others():
    ran, gate = [], asyncio.Event()

    async def wait() -> int:
        await gate.wait()
        return 0

    async def pay(amount: int) -> int:
        ran.append(amount)
        return len(ran)

    with engine_of(wait, pay) as engine:
        busy = asyncio.ensure_future(engine.aexecute("s", [ToolCall("n::wait")]))
        await asyncio.sleep(0)
        call = [ToolCall("n::pay", {"amount": 1}, "c1")]
        first, second = (asyncio.ensure_future(engine.aexecute("s", call)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        third = asyncio.ensure_future(engine.aexecute("s", call))
        await asyncio.sleep(0)
        gate.set()
        await busy
        assert [(await each)[0].result for each in (second, third)] == [1, 1]
        assert not engine.sessions.find("s").flights
    assert ran == [1]


def test_an_error_has_limits_too_and_says_what_was_left_out():
    def loud() -> None:
        raise ValueError("x" * 5_000_000)

    with engine_of(loud) as engine:
        result = one(engine, "loud")
        assert len(result.error) < 5_000
        assert "the first 4,000 shown" in result.error


def test_reading_beside_a_teardown_gives_the_whole_state_or_none():
    with engine_of(quick) as engine:
        calls, seen, over = [ToolCall("n::quick")] * 50, set(), threading.Event()

        def read():
            while not over.is_set():
                state = engine.get_session_state("r")
                seen.add(None if state is None else len(state["tool_executions"]))

        initial = {"tool_executions": []}
        engine.execute("s", calls)
        initial = engine.get_session_state("s")
        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(200):
            engine.setup("r", initial_state=initial)
            engine.teardown("r")
        over.set()
        for reader in readers:
            reader.join()
    assert seen <= {None, 50}


def test_a_fork_inherits_the_numbers_its_budgets_need():
    with engine_of(quick, policy=Policy(budgets=[Budget(3)])) as engine:
        engine.execute("s", [ToolCall("n::quick")] * 2)
        engine.setup("f", fork_of="s")
        assert engine.sessions.find("f").counts == {"n::quick": 2}
        codes = [r.error_info and r.error_info.code for r in engine.execute("f", [ToolCall("n::quick")] * 2)]
        assert codes == [None, "tool.denied"]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e300, "3", True])
def test_a_time_limit_that_is_none_is_the_programs_mistake(timeout):
    with engine_of(quick) as engine:
        for ask in (engine.execute, engine.simulate):
            with pytest.raises(DefinitionError, match="timeout must be"):
                ask("s", [ToolCall("n::quick")], timeout=timeout)


def test_a_denied_call_is_told_under_the_name_of_the_tool_that_was_meant():
    tool = function_tool(quick, namespace="n").replace(aliases=["fast"])
    with PythonToolEngine(ToolRegistry([tool]), policy=Policy(default="deny")) as engine:
        engine.setup("s")
        results = engine.execute("s", [ToolCall(name) for name in ("n::fast", "quick", "n::quick")])
    assert [result.name for result in results] == ["n::quick"] * 3


@pytest.mark.parametrize("session_id", ["", "a\0b", "\ud800"])
def test_an_id_that_not_every_store_could_keep_is_refused_by_all(session_id):
    with engine_of(quick) as engine, pytest.raises(SessionError):
        engine.setup(session_id)


def test_a_sync_method_on_the_home_loop_raises_and_names_the_twin():
    async def inner() -> str:
        engine.setup("other")
        return engine.execute("other", [ToolCall("n::later")])[0].result

    async def later() -> int:
        return 1

    with engine_of(inner, later) as engine:
        result = one(engine, "inner")
        assert "await aexecute instead" in result.error
