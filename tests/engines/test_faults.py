"""What tools, engines and models do wrong, and the moments at which it happens: always a result, never a stuck session."""

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest
from hypothesis import given, strategies as st
from waiting import SOON

from toolyard import Effects, PythonToolEngine, SessionError, Tool, ToolCall, ToolEngine, ToolRegistry, function_tool
from toolyard.loop.threads import Threads
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

HALF = "\ud800"
"""Half of a surrogate pair: Python text that UTF-8 cannot carry."""

ODD = {
    "digits": 10**5000,
    "text": HALF,
    "object with text": {"a": HALF},
    "list": [10**5000],
    "key": {HALF: 1},
    "object": object(),
    "set": {1, HALF},
}
WAYS = {"quick": {}, "limits": {"retries": 1}, "deadline": {"timeout": 30.0}}


def engine_of(*functions, effects=Effects.WRITE, **settings):
    tools = [function_tool(function, namespace="t", effects=effects) for function in functions]
    engine = PythonToolEngine(ToolRegistry(tools), **settings)
    engine.setup("s")
    return engine


def fine() -> int:
    return 1


def everywhere(engine, *calls):
    """The results of both doors, which are equal."""
    results = engine.execute("s", calls)
    assert asyncio.run(engine.aexecute("s", calls)) == results
    assert len(engine.get_session_state("s")["tool_executions"]) == 2 * len(calls)
    engine.close()
    return results


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ODD)
def test_an_answer_that_json_cannot_carry_is_an_error_and_the_batch_goes_on(way, kind):
    def odd():
        return ODD[kind]

    results = everywhere(engine_of(odd, fine, **WAYS[way]), ToolCall("t::odd"), ToolCall("t::fine"))
    assert results[0].error_info.code == "tool.invalid_output"
    assert results[1].result == 1


@pytest.mark.parametrize("way", WAYS)
def test_words_that_utf8_cannot_carry_are_recorded_with_escapes(way):
    def fails():
        raise ValueError(f"no {HALF}")

    calls = [
        ToolCall("t::fails"),
        ToolCall(f"t::{HALF}"),
        ToolCall("t::fine", {}, HALF),
        ToolCall("t::fine", {HALF: 1}),
    ]
    results = everywhere(engine_of(fails, fine, **WAYS[way]), *calls, ToolCall("t::fine"))
    codes = [result.error_info and result.error_info.code for result in results]
    assert codes == ["tool.execution_error", "tool.not_found", "tool.invalid_args", "tool.invalid_args", None]
    assert "no \\ud800" in results[0].error


@pytest.mark.parametrize("stop", [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit])
def test_what_a_tool_throws_in_a_thread_of_the_engine_stops_nobody_else(stop):
    def stops():
        raise stop

    engine = engine_of(stops, fine, timeout=30.0)
    results = everywhere(engine, ToolCall("t::stops"), ToolCall("t::fine"))
    assert results[0].error_info.code == "tool.execution_error"
    assert results[1].result == 1


@pytest.mark.parametrize("stop", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("timeout", [None, 30.0])
def test_an_async_engine_whose_own_work_was_cancelled_has_failed_and_nobody_else_is_cancelled(stop, timeout):
    class Engine(ToolEngine):
        async def answer(self, invocation):
            raise stop

    engine = Engine(ToolRegistry([Tool("x", "t")]), timeout=timeout)
    engine.setup("s")
    results = everywhere(engine, ToolCall("t::x"), ToolCall("t::x"))
    assert [result.error_info.code for result in results] == ["tool.execution_error"] * 2


def test_state_that_json_cannot_carry_is_the_engines_error_and_nothing_of_it_is_kept():
    class Engine(ToolEngine):
        def answer(self, invocation):
            invocation.state["n"] = invocation.state.get("n", 0) + 1
            if invocation.arguments.get("bad"):
                invocation.state["object"] = object()
            return invocation.state["n"]

    engine = Engine(ToolRegistry([Tool("x", "t", parameters={"type": "object"})]), name="mine")
    engine.setup("s")
    calls = [ToolCall("t::x"), ToolCall("t::x", {"bad": True}), ToolCall("t::x")]
    results = engine.execute("s", calls)
    assert [result.result for result in results] == [1, None, 2]
    assert (results[1].error_info.code, results[1].error_info.effect) == ("tool.execution_error", "done")
    assert engine.get_session_state("s")["mine"] == {"n": 2}


def test_equal_state_gives_an_equal_hash_however_it_came_about():
    class Engine(ToolEngine):
        def answer(self, invocation):
            invocation.state["x"] = 1
            del invocation.state["x"]

    engine = Engine(ToolRegistry([Tool("x", "t")]))
    engine.setup("s")
    engine.execute("s", [ToolCall("t::x")])
    engine.setup("copy", initial_state=engine.get_session_state("s"))
    assert engine.get_session_state("copy") == engine.get_session_state("s")
    assert engine.state_hash("copy") == engine.state_hash("s")


def test_after_a_call_overran_its_deadline_the_same_thread_waits_for_the_session_and_goes_on():
    let_go = threading.Event()

    def stuck() -> int:
        let_go.wait(SOON)
        return 1

    engine = engine_of(stuck, fine)
    assert engine.execute("s", [ToolCall("t::stuck")], timeout=0.01)[0].error_info.code == "tool.timeout"
    threading.Timer(0.05, let_go.set).start()
    assert engine.execute("s", [ToolCall("t::fine")])[0].result == 1
    engine.close()


@pytest.mark.parametrize("door", ["execute", "simulate"])
def test_a_tool_with_a_deadline_that_calls_into_its_own_session_is_told_at_once(door):
    def inner() -> int:
        return getattr(engine, door)("s", [ToolCall("t::fine")])[0].result

    engine = engine_of(inner, fine)
    for timeout in (None, 30.0):
        result = engine.execute("s", [ToolCall("t::inner")], timeout=timeout)[0]
        assert "would wait for itself" in result.error
    assert engine.execute("s", [ToolCall("t::fine")])[0].result == 1
    engine.close()


def test_an_answer_that_comes_at_the_very_moment_of_the_deadline_is_the_answer(monkeypatch):
    class Late(Future):
        def result(self, timeout=None):
            value = super().result(SOON)
            if timeout is None:
                return value
            raise TimeoutError

    engine = engine_of(fine, timeout=30.0)
    monkeypatch.setattr("toolyard.loop.threads.Future", Late)
    assert engine.execute("s", [ToolCall("t::fine")])[0].result == 1
    engine.close()


def test_a_stubborn_coroutine_keeps_the_session_until_it_ends():
    may_end, ended = threading.Event(), []

    async def stubborn() -> int:
        try:
            await asyncio.sleep(SOON)
        except asyncio.CancelledError:
            await asyncio.to_thread(may_end.wait, SOON)
            ended.append(True)
            raise

    def look() -> bool:
        return bool(ended)

    engine = engine_of(stubborn, look)
    results = engine.execute("s", [ToolCall("t::stubborn"), ToolCall("t::look")], timeout=0.01)
    assert [result.error_info.code for result in results] == ["tool.timeout", "tool.unavailable"]
    may_end.set()
    assert engine.execute("s", [ToolCall("t::look")])[0].result is True
    engine.close()


def test_a_job_handed_in_while_a_thread_is_just_taking_another_finds_a_thread_of_its_own():
    threads = Threads(4)
    took, go_on, hung = threading.Event(), threading.Event(), threading.Event()
    threads.submit(int).result(SOON)
    while not threads._idle:
        time.sleep(0.001)
    lock = threads._lock

    class Slow:
        """Stops the worker between taking its job and saying that it is no longer idle."""

        def __enter__(self):
            if threading.current_thread().name == "toolyard-worker" and not go_on.is_set():
                took.set()
                go_on.wait(SOON)
            return lock.__enter__()

        def __exit__(self, *error):
            return lock.__exit__(*error)

    threads._lock = Slow()
    threads.submit(lambda: hung.wait(SOON))
    took.wait(SOON)
    second = threads.submit(lambda: "answered")
    go_on.set()
    try:
        assert second.result(10) == "answered"
    finally:
        hung.set()
        threads.close()


async def test_a_store_that_is_slow_to_set_up_a_session_does_not_stop_the_loop(tmp_path):
    sessions = Sessions(SqliteStore(tmp_path / "sessions.db"))
    engine = PythonToolEngine(ToolRegistry([function_tool(fine, namespace="t")]), sessions=sessions)
    engine.setup("s")
    inside, let_go = threading.Event(), threading.Event()

    def slow_setup():
        with sessions._change:
            inside.set()
            let_go.wait(SOON)

    thread = threading.Thread(target=slow_setup)
    thread.start()
    await asyncio.to_thread(inside.wait)
    state = asyncio.ensure_future(engine.aget_session_state("s"))
    # If the loop were waiting for the lock, this would never come.
    threading.Timer(5, let_go.set).start()
    await asyncio.wait({state}, timeout=0.05)
    assert not let_go.is_set()
    let_go.set()
    assert await state == {"tool_executions": []}
    thread.join()
    engine.close()


def test_waiting_for_a_session_that_is_busy_past_the_deadline_raises_and_runs_nothing():
    let_go, inside = threading.Event(), threading.Event()

    def stuck() -> int:
        inside.set()
        let_go.wait(SOON)
        return 1

    engine = engine_of(stuck, fine)
    thread = threading.Thread(target=engine.execute, args=("s", [ToolCall("t::stuck")]))
    thread.start()
    inside.wait(SOON)
    with pytest.raises(SessionError, match="busy"):
        engine.execute("s", [ToolCall("t::fine")], timeout=0.01)
    let_go.set()
    thread.join()
    assert len(engine.get_session_state("s")["tool_executions"]) == 1
    engine.close()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    answer=json_values,
    arguments=st.dictionaries(st.sampled_from(["n", "text", "other"]), json_values),
    named=st.booleans(),
)
def test_the_short_way_and_the_long_way_give_equal_results_and_equal_histories(answer, arguments, named):
    def give(n: int = 3, text: str = "x") -> object:
        return [n, text, answer] if named else answer

    engines = [engine_of(give, simulate="live"), engine_of(give, retries=1), engine_of(give, timeout=30.0)]
    call = ToolCall("t::give", arguments, "c1" if named else None)
    first, *others = [engine.execute("s", [call]) for engine in engines]
    for engine, results in zip(engines[1:], others, strict=True):
        assert results == first
        assert engine.state_hash("s") == engines[0].state_hash("s")
    assert engines[0].simulate("s", [call]) == first
    for engine in engines:
        engine.close()
