"""`PythonToolEngine`: functions run where they should, and get what they ask for."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable

import pytest
from pydantic import BaseModel, computed_field

from engines.engine_support import SOON, Hung, call, registry_of, results_of
from toolyard import ConfigError, DefinitionError, Policy, SessionError, ToolCall
from toolyard.calls.budgets import Budget
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolContext
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.functions import function_tool


def made(*functions, **settings):
    engine = PythonToolEngine(registry_of(*functions), **settings)
    engine.setup("s")
    return engine


def where() -> int:
    return threading.get_ident()


async def where_later() -> int:
    await asyncio.sleep(0)
    return threading.get_ident()


def test_from_sync_code_a_sync_tool_runs_in_the_callers_thread():
    assert made(where).execute("s", [call("where")])[0].result == threading.get_ident()


def test_with_a_deadline_it_runs_elsewhere_since_nothing_can_interrupt_it_here():
    assert made(where).execute("s", [call("where")], timeout=SOON)[0].result != threading.get_ident()
    assert made(where, timeout=SOON).execute("s", [call("where")])[0].result != threading.get_ident()


def test_from_sync_code_async_tools_share_the_home_loop():
    engine = made(where_later)
    idents = {result.result for result in engine.execute("s", [call("where_later")] * 3)}
    assert len(idents) == 1
    assert threading.get_ident() not in idents


async def test_from_async_code_async_tools_run_on_this_loop_and_sync_ones_in_threads():
    engine = made(where, where_later)
    sync, task = await engine.aexecute("s", [call("where"), call("where_later")])
    assert sync.result != threading.get_ident()
    assert task.result == threading.get_ident()


def at_once(function):
    return function_tool(function, namespace="n", blocking=False)


async def test_a_sync_tool_that_returns_at_once_runs_on_the_callers_loop_and_needs_no_thread():
    def fails():
        raise ValueError("told as ever")

    engine = PythonToolEngine(ToolRegistry([at_once(where), at_once(fails)]))
    engine.setup("s")
    here, failed = await engine.aexecute("s", [call("where"), call("fails")])
    assert here.result == threading.get_ident()
    assert (failed.error_info.code, failed.error) == (
        "tool.execution_error",
        "n::fails failed: ValueError: told as ever",
    )
    assert (await engine.aexecute("s", [call("where")], timeout=SOON))[0].result == threading.get_ident()
    assert engine.threads.alive == 0


def test_with_a_deadline_it_stays_in_the_callers_thread_too():
    engine = PythonToolEngine(ToolRegistry([at_once(where)]))
    engine.setup("s")
    assert engine.execute("s", [call("where")], timeout=SOON)[0].result == threading.get_ident()
    assert engine.threads.alive == 0


async def test_a_routed_tool_that_returns_at_once_runs_on_the_loop_as_well():
    registry = ToolRegistry([at_once(where)])
    async with MultiToolEngine(registry, {"n": PythonToolEngine(registry)}) as engine:
        await engine.asetup("s")
        assert (await engine.aexecute("s", [call("where")]))[0].result == threading.get_ident()


async def test_callers_in_python_receive_progress_and_one_that_fails_to_take_it_fails_no_call(caplog):
    def count(ctx: ToolContext) -> str:
        ctx.report(1, total=2)
        ctx.log("half")
        return "done"

    told = []
    with made(count) as engine:
        results = engine.execute("s", [call("count")], notify=lambda *given: told.append(given))
        results += await engine.aexecute("s", [call("count")], notify=lambda *given: told.append(given))
        assert [(made_call.name, type(notice).__name__) for made_call, notice in told] == [
            (call("count").name, "Progress"),
            (call("count").name, "LogLine"),
        ] * 2
        results += engine.execute("s", [call("count")], notify=lambda one: None)
        for wrong in (5, asyncio.sleep):
            with pytest.raises(ConfigError, match="notify must be a plain function"):
                await engine.aexecute("s", [call("count")], notify=wrong)
    assert [result.result for result in results] == ["done"] * 3
    assert "notify or on_progress failed" in caplog.text


async def test_what_it_returns_to_be_awaited_is_awaited():
    engine = PythonToolEngine(
        ToolRegistry([function_tool(lambda: where_later(), namespace="n", name="x", blocking=False)])
    )
    engine.setup("s")
    assert (await engine.aexecute("s", [call("x")]))[0].result == threading.get_ident()


async def test_a_blocking_tool_does_not_block_the_loop():
    hung = Hung()

    def hang():
        return hung()

    engine = made(hang)
    task = asyncio.ensure_future(engine.aexecute("s", [call("hang")]))
    await asyncio.to_thread(hung.began.wait, SOON)
    # We are here: the loop runs although the tool does too.
    assert not task.done()
    hung.end.set()
    assert (await task)[0].result == "ended"


def test_a_tool_that_asks_gets_its_context():
    seen = []

    def curious(x: int, ctx: ToolContext) -> int:
        seen.append(ctx)
        return x

    engine = made(curious)
    engine.execute("s", [call("curious", "id", x=1)], context={"user": "ann"})
    engine.execute("s", [call("curious", x=1)])
    assert [(ctx.call_id, ctx.session_id, dict(ctx.context)) for ctx in seen] == [
        ("id", "s", {"user": "ann"}),
        (None, "s", {}),
    ]
    assert seen[0].tool.qualified_name == "n::curious"


class Query(BaseModel):
    text: str
    limit: int = 3


class Answer(BaseModel):
    found: list[str]


def test_models_go_in_and_come_out_as_json():
    def search(query: Query) -> Answer:
        assert isinstance(query, Query)
        return Answer(found=[query.text] * query.limit)

    engine = made(search)
    sync = engine.execute("s", [call("search", query={"text": "a"})])[0]
    assert sync.result == {"found": ["a", "a", "a"]}


def test_a_promised_model_must_be_given():
    def liar() -> Answer:
        return {"found": []}

    async def async_liar() -> Answer:
        return {"found": []}

    engine = made(liar, async_liar)
    for result in engine.execute("s", [call("liar"), call("async_liar")]):
        assert result.error_info.code == "tool.invalid_output"
        assert "promises Answer" in result.error


def test_integral_floats_become_integers():
    def kind(x: int) -> str:
        return type(x).__name__

    assert made(kind).execute("s", [call("kind", x=3.0)])[0].result == "int"


@pytest.mark.parametrize("verb", ["execute", "simulate"])
def test_arguments_a_tool_changes_are_its_own(verb):
    def greedy(items: list[str], options: dict[str, str]) -> int:
        items.append("mine")
        options.clear()
        return len(items)

    engine = made(greedy)
    sent = call("greedy", items=["a"], options={"k": "v"})
    assert getattr(engine, verb)("s", [sent])[0].result == 2
    assert sent.arguments == {"items": ["a"], "options": {"k": "v"}}
    if verb == "execute":
        recorded = engine.get_session_state("s")["tool_executions"][0]["tool_call"]
        assert recorded["arguments"] == sent.arguments


def test_a_default_a_tool_changes_is_new_for_every_call():
    def collect(items: list[int] = [1]) -> list[int]:  # noqa: B006 - that is the point
        items.append(2)
        return items

    engine = made(collect)
    assert [r.result for r in engine.execute("s", [call("collect")] * 3)] == [[1, 2]] * 3


def test_a_tool_without_a_function_is_told_apart():
    engine = PythonToolEngine(ToolRegistry([Tool("a", "n", parameters={"type": "object"})]))
    engine.setup("s")
    result = engine.execute("s", [call("a")])[0]
    assert (result.error_info.code, result.error_info.effect) == ("tool.no_engine", "none")


class Panic(BaseException):
    """No `Exception`, as what libraries in Rust raise."""


async def test_what_an_async_tool_raises_is_its_own_failure():
    async def cancelled():
        raise asyncio.CancelledError

    async def stop():
        raise KeyboardInterrupt

    async def leave():
        raise SystemExit

    async def panic():
        raise Panic

    async def panic_together():
        raise BaseExceptionGroup("together", [Panic(), ValueError()])

    async def exit_at_once():
        raise GeneratorExit

    async def exit_later():
        await asyncio.sleep(0)
        raise GeneratorExit

    tools = cancelled, stop, leave, panic, panic_together, exit_at_once, exit_later
    engine = made(*tools)
    calls = [call(tool.__name__) for tool in tools]
    for results in (await engine.aexecute("s", calls), await asyncio.to_thread(engine.execute, "s", calls)):
        assert [result.error_info.code for result in results] == ["tool.execution_error"] * 7
    assert len(results_of(engine)) == 14


async def test_a_sync_tool_in_a_thread_that_raises_what_stops_a_thread_fails_alone():
    def stop():
        raise KeyboardInterrupt

    engine = made(stop)
    result = (await engine.aexecute("s", [call("stop")]))[0]
    assert result.error_info.code == "tool.execution_error"
    assert not engine.sessions.find("s").gate.busy


def test_an_interrupt_while_an_async_tool_runs_lets_it_clean_up_on_its_own_loop():
    cleaned, done, main = [], threading.Event(), threading.main_thread().ident
    assert threading.get_ident() == main

    async def interrupting():
        try:
            # Once the caller waits for us; before that nobody knows what there is to cancel.
            await asyncio.sleep(0.05)
            signal.pthread_kill(main, signal.SIGINT)
            await asyncio.sleep(SOON)
        finally:
            cleaned.append(threading.get_ident() == main)
            done.set()

    engine = made(interrupting)
    with pytest.raises(KeyboardInterrupt):
        engine.execute("s", [call("interrupting")])
    assert done.wait(SOON)
    assert cleaned == [False]
    codes = [item["tool_output"]["error_info"]["code"] for item in engine.get_session_state("s")["tool_executions"]]
    assert codes == ["tool.interrupted"]
    assert not engine.sessions.find("s").gate.busy


def quick(n: int = 0) -> int:
    return n


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


@pytest.mark.parametrize("options", [{}, {"timeout": SOON}], ids=["short way", "in a thread"])
def test_an_iterator_is_gone_through_once_and_nothing_of_it_is_lost(options):
    with engine_of(numbers, mapped, endless, **options, max_result_bytes=10_000) as engine:
        assert one(engine, "numbers").result == [0, 1, 2]
        assert one(engine, "mapped").result == ["1", "2"]
        assert one(engine, "endless").error_info.code == "tool.invalid_output"


class Odd(BaseModel):
    @computed_field
    @property
    def later(self) -> int:
        raise LookupError("while it was written")


class Unreadable(list):
    def __iter__(self):
        raise LookupError("while it was read")


def half() -> Iterable[int]:
    yield 1
    raise LookupError("half way")


def divided():
    return {"rows": map({1: 1}.__getitem__, [1, 2])}


def odd() -> Odd:
    return Odd()


def odd_in_a_list():
    return [Odd()]


def unreadable() -> list[int]:
    return Unreadable([1])


def gone():
    yield 1
    raise SystemExit(3)


def panicking():
    yield 1
    raise Panic


class PanickingItems(list):
    def __iter__(self):
        raise Panic


def panicking_items() -> list[int]:
    return PanickingItems([1])


def panicking_rows():
    return {"rows": panicking()}


FAILING = [half, divided, odd, odd_in_a_list, unreadable, gone, panicking, panicking_items, panicking_rows]


@pytest.mark.parametrize("options", [{}, {"timeout": SOON}], ids=["short way", "in a thread"])
def test_what_an_answer_raises_while_it_is_gone_through_is_the_tools_own_failure_and_costs_no_other_call(options):
    with engine_of(*FAILING, quick, **options) as engine:
        results = engine.execute("s", [ToolCall(f"n::{fn.__name__}") for fn in [*FAILING, quick]])
        assert [result.error_info and result.error_info.code for result in results] == [
            *["tool.execution_error"] * len(FAILING),
            None,
        ]
        assert results[0].error == "n::half failed: LookupError: half way"
        assert len(engine.get_session_state("s")["tool_executions"]) == len(results)


async def test_what_an_answer_raises_is_its_failure_in_a_task_too():
    with engine_of(*FAILING) as engine:
        results = await engine.aexecute("s", [ToolCall(f"n::{fn.__name__}") for fn in FAILING])
        assert {result.error_info.code for result in results} == {"tool.execution_error"}


def test_a_generator_is_held_to_the_deadline():
    hung = Hung()

    def waiting():
        yield hung()

    with engine_of(waiting) as engine:
        assert engine.execute("s", [ToolCall("n::waiting")], timeout=0.05)[0].error_info.code == "tool.timeout"
        hung.end.set()


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
calls, end = [ToolCall("n::add", {"a": 1, "b": 2})], time.monotonic() + 60
while interrupts < 100 and time.monotonic() < end:
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
        [sys.executable, "-c", INTERRUPTED, *arguments], capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 100


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
