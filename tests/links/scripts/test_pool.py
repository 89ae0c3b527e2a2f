import asyncio
import threading
import time

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from waiting import until

from conftest import examples
from toolyard import PythonToolEngine, ToolCall, ToolRegistry, function_tool
from toolyard.links.scripts import ScriptFailed
from toolyard.links.scripts.pool import PoolSlots
from toolyard.model.errors import CallTimeout, InvalidArguments, ToolFailed, Unavailable

from .conftest import is_alive, script, soon

pytestmark = pytest.mark.process

BASIC = script("""
    import os
    calls = 0

    def run(text="", ctx=None):
        return {"text": text, "call": ctx.call_id, "session": ctx.session_id, "trace": ctx.trace, "more": ctx.context}

    def pid():
        return os.getpid(), os.getcwd()

    def count():
        global calls
        calls += 1
        return calls

    async def later(n):
        import asyncio
        await asyncio.sleep(0)
        return n + 1

    def sleep(seconds):
        import time
        time.sleep(seconds)
        return "slept"

    def echo(value):
        return value

    def wrong():
        raise ValueError("no such town")

    def loud():
        import sys
        print("to stdout")
        print("to stderr", file=sys.stderr)
        os.write(1, b"raw\\n")
        return "ok"

    TOOLS = [{"handler": echo}, {"handler": lambda **more: sorted(more)}]
""")
OTHER = script("def run():\n    import os\n    return os.getpid()\n", "other.py")


def test_a_handler_gets_its_arguments_and_the_context_it_asks_for(pool):
    ctx = {"call_id": "c1", "session_id": "s1", "trace": {"t": 1}, "context": {"lang": "de"}}
    answer = pool.call(BASIC, "run", {"text": "hä"}, ctx=ctx, deadline=soon())
    assert answer.value == {"text": "hä", "call": "c1", "session": "s1", "trace": {"t": 1}, "more": {"lang": "de"}}


async def test_sync_and_async_handlers_answer_sync_and_async_callers(pool):
    assert pool.call(BASIC, "later", {"n": 1}, deadline=soon()).value == 2
    assert (await pool.acall(BASIC, "later", {"n": 2}, deadline=soon())).value == 3
    assert (await pool.acall(BASIC, "TOOLS[1]", {"b": 1, "a": 2}, deadline=soon())).value == ["a", "b"]


def test_what_is_printed_comes_with_the_answer(pool):
    answer = pool.call(BASIC, "loud", {}, deadline=soon())
    assert sorted(answer.stdout.split("\n")) == ["", "raw", "to stdout"]
    assert (answer.stderr, answer.truncated) == ("to stderr\n", False)
    assert pool.call(BASIC, "echo", {"value": 1}, deadline=soon()).stdout == ""


def test_an_exception_is_a_failure_with_its_trace_kept_apart_and_the_worker_goes_on(pool):
    before = pool.call(BASIC, "pid", {}, deadline=soon()).value
    with pytest.raises(ToolFailed, match="^script.py: ValueError: no such town$") as caught:
        pool.call(BASIC, "wrong", {}, deadline=soon())
    assert isinstance(caught.value, ScriptFailed)
    assert "raise ValueError" in caught.value.trace
    assert caught.value.info.effect == "unknown"
    assert caught.value.info.details == {"exception": "ValueError"}
    assert pool.call(BASIC, "pid", {}, deadline=soon()).value == before


@pytest.mark.parametrize("size", [0, 1, 4095, 65531, 65532, 65533, 6 << 20])
async def test_large_values_go_there_and_back(kept_pool, size):
    pool, value = kept_pool, "x" * size
    assert pool.call(BASIC, "echo", {"value": value}, deadline=soon()).value == value
    assert (await pool.acall(BASIC, "echo", {"value": [value]}, deadline=soon())).value == [value]


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ("lambda: object()", "a object that is not JSON"),
        ("lambda: float('nan')", "a float that is not JSON"),
        ("lambda: b'\\xff'", "a bytes that is not JSON"),
        ("lambda: ({}[n] for n in [1])", "a generator that is not JSON"),
        ("lambda: (exit() for n in [1])", "a generator that is not JSON"),
        (
            "lambda: ((_ for _ in ()).throw(type('E', (Exception,), {'__str__': lambda self: exit()})) for n in [1])",
            "an exception that cannot be shown",
        ),
        ("lambda: '\\ud800'", "a str that is not JSON"),
        ("3", "run is not a function"),
        ("lambda ctx: 1", "ctx is not an argument"),
    ],
)
def test_what_cannot_be_an_answer_is_a_failure_that_says_so(kept_pool, handler, words):
    code = script(f"run = {handler}\n")
    arguments = {"ctx": 1} if "ctx" in handler else {}
    with pytest.raises(ScriptFailed, match=words):
        kept_pool.call(code, "run", arguments, deadline=soon())


def test_an_answer_may_be_as_large_as_the_limit(pools):
    pool = pools("rlimits", max_answer_bytes=10)
    code = script("def run(n): return 'x' * n\n")
    assert pool.call(code, "run", {"n": 8}, deadline=soon()).value == "x" * 8
    with pytest.raises(ScriptFailed, match="returned 11 bytes, more than the 10 "):
        pool.call(code, "run", {"n": 9}, deadline=soon())


def test_an_exception_does_not_count_as_an_answer_however_long_its_text(pools):
    pool = pools("rlimits", max_answer_bytes=1)
    code = script("def run(): raise ValueError('\\x01' * 5000)\n")
    with pytest.raises(ScriptFailed, match="ValueError: \x01+$") as caught:
        pool.call(code, "run", {}, deadline=soon())
    assert "in run" in caught.value.trace


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("{1}", [1]),
        ("{'a': [frozenset({'b'})]}", {"a": [["b"]]}),
        ("(n * 2 for n in (1, 2))", [2, 4]),
        ("range(2)", [0, 1]),
        ("{'a': 1}.keys()", ["a"]),
        ("b'x'", "x"),
        ("__import__('collections').UserDict(a=1)", {"a": 1}),
        ("__import__('datetime').date(2024, 1, 2)", "2024-01-02"),
        ("__import__('decimal').Decimal('1.50')", "1.50"),
        ("__import__('uuid').UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
        ("__import__('pathlib').Path('a/b')", "a/b"),
        ("__import__('enum').Enum('E', 'A B').B", 2),
        ("__import__('dataclasses').make_dataclass('D', ['x'])({1})", {"x": [1]}),
    ],
)
def test_values_that_json_has_no_word_for_are_written_as_those_of_functions_are(kept_pool, value, written):
    assert kept_pool.call(script(f"run = lambda: {value}\n"), "run", {}, deadline=soon()).value == written
    function = function_tool(lambda: eval(value), namespace="f", name="f")
    with PythonToolEngine(ToolRegistry([function])) as engine:
        engine.setup("s")
        assert engine.execute("s", [ToolCall("f::f")])[0].result == written


def test_an_answer_may_be_deep(pools):
    code = script("run = lambda: (lambda f: f(f, 0))(lambda f, n: [f(f, n + 1)] if n < 900 else [])\n")
    assert str(pools("rlimits").call(code, "run", {}, deadline=soon()).value) == "[" * 901 + "]" * 901


@pytest.mark.parametrize("value", ["\ud800", object(), {1: object()}])
async def test_arguments_that_are_no_json_are_refused_and_cost_nobody_a_worker(pools, value):
    pool = pools("rlimits", workers=1)
    with pytest.raises(
        InvalidArguments,
        match="script.py: the arguments, or the context of the call, cannot be written as JSON",
    ) as caught:
        pool.call(BASIC, "echo", {"value": value}, deadline=soon())
    assert caught.value.info.effect == "none"
    with pytest.raises(InvalidArguments):
        await pool.acall(BASIC, "echo", {"value": value}, deadline=soon())
    assert pool.call(BASIC, "echo", {"value": 1}, deadline=soon()).value == 1


def test_two_files_of_the_same_bytes_are_two_scripts(pools):
    pool = pools("rlimits", workers=1)
    first, second = (script("def run():\n    return __file__, __name__\n", file) for file in ("alpha.py", "beta.py"))
    for code in (first, second, first):
        assert code.file in pool.call(code, "run", {}, deadline=soon()).value[0]


async def test_a_server_with_more_than_a_thousand_open_files_has_workers_all_the_same(pools):
    import os
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"this machine allows no more than {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        pool = pools("rlimits")
        for number in range(50):
            assert (await pool.acall(BASIC, "echo", {"value": number}, deadline=soon())).value == number
        assert pool.call(BASIC, "echo", {"value": 1}, deadline=soon()).value == 1
        assert [item.file for item in pool.declare([OTHER], deadline=soon())] == ["other.py"]
        await pool.aclose()
    finally:
        for fd in kept:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thread_that_is_interrupted_while_it_waits_leaves_its_place_to_the_next(pools):
    import signal

    def interrupt(*_):
        raise KeyboardInterrupt

    pool = pools("rlimits", workers=1)
    pool.call(BASIC, "pid", {}, deadline=soon())
    slow = threading.Thread(target=pool.call, args=(BASIC, "sleep", {"seconds": 1}), kwargs={"deadline": soon()})
    slow.start()
    until(lambda: not pool._slots.idle)
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)

    def hit():
        until(lambda: pool._slots.gate.line)
        signal.pthread_kill(main, signal.SIGUSR1)

    other = threading.Thread(target=hit)
    try:
        other.start()
        with pytest.raises(KeyboardInterrupt):
            pool.call(BASIC, "pid", {}, deadline=soon())
    finally:
        signal.signal(signal.SIGUSR1, before)
    slow.join()
    other.join()
    assert pool.call(BASIC, "echo", {"value": 1}, deadline=soon()).value == 1


def test_a_warm_worker_is_used_again_and_replaced_after_its_number_of_calls(pools):
    pool = pools("rlimits", calls_per_worker=3)
    seen = [pool.call(BASIC, "count", {}, deadline=soon()).value for _ in range(7)]
    assert seen == [1, 2, 3, 1, 2, 3, 1]


def test_with_one_call_for_each_worker_nothing_is_carried_over(pools):
    pool = pools("rlimits", calls_per_worker=1)
    assert [pool.call(BASIC, "count", {}, deadline=soon()).value for _ in range(3)] == [1, 1, 1]


def test_each_script_has_a_worker_of_its_own_and_the_least_used_makes_room(pools):
    pool = pools("rlimits", workers=2)
    first = pool.call(BASIC, "pid", {}, deadline=soon()).value
    pool.call(OTHER, "run", {}, deadline=soon())
    assert pool.call(BASIC, "pid", {}, deadline=soon()).value == first
    pool.call(script("run = lambda: 1"), "run", {}, deadline=soon())
    assert pool.call(BASIC, "pid", {}, deadline=soon()).value == first
    edited = script(BASIC.source.decode() + "\n# edited\n")
    assert pool.call(edited, "count", {}, deadline=soon()).value == 1


def test_a_call_waits_for_a_worker_no_longer_than_its_deadline_and_has_done_nothing(pools):
    pool = pools("rlimits", workers=1)
    pool.call(BASIC, "pid", {}, deadline=soon())
    slow = threading.Thread(target=pool.call, args=(BASIC, "sleep", {"seconds": 2}), kwargs={"deadline": soon()})
    slow.start()
    while pool._slots.idle:
        time.sleep(0.001)
    with pytest.raises(CallTimeout, match="all 1 workers were busy") as caught:
        pool.call(BASIC, "count", {}, deadline=soon(0.05))
    assert caught.value.info.effect == "none"
    slow.join()
    assert pool.call(BASIC, "count", {}, deadline=soon()).value == 1


async def test_those_who_wait_are_served_in_their_order(pools):
    pool = pools("rlimits", workers=1)
    done = []

    async def one(number):
        await pool.acall(BASIC if number % 2 else OTHER, "pid" if number % 2 else "run", {}, deadline=soon())
        done.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(one(number))
            await asyncio.sleep(0)
    assert done == list(range(8))


def test_many_threads_share_few_workers_and_each_gets_its_own_answer(pools):
    pool = pools("rlimits", workers=3)
    got: dict[int, int] = {}

    def work(number):
        for step in range(20):
            value = pool.call(BASIC, "echo", {"value": number * 100 + step}, deadline=soon()).value
            assert value == number * 100 + step
        got[number] = 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8


async def test_a_cancelled_call_ends_its_worker_and_the_next_finds_another(pools):
    pool = pools("rlimits", workers=1)
    before = (await pool.acall(BASIC, "pid", {}, deadline=soon())).value
    task = asyncio.create_task(pool.acall(BASIC, "sleep", {"seconds": 600}, deadline=soon(600)))
    await asyncio.to_thread(until, lambda: not pool._slots.idle)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await pool.acall(BASIC, "pid", {}, deadline=soon())).value != before


async def test_a_call_cancelled_while_it_waits_gives_its_place_to_the_next(pools):
    pool = pools("rlimits", workers=1)
    await pool.acall(BASIC, "pid", {}, deadline=soon())
    running = asyncio.create_task(pool.acall(BASIC, "sleep", {"seconds": 0.3}, deadline=soon()))
    await asyncio.to_thread(until, lambda: not pool._slots.idle)
    waiting = [asyncio.create_task(pool.acall(BASIC, "echo", {"value": n}, deadline=soon())) for n in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    assert (await waiting[2]).value == 2
    assert (await running).value == "slept"


def test_threads_or_processes_left_behind_cost_the_worker_its_place(pools):
    pool = pools("rlimits", workers=1)
    code = script("""
        import os, threading, time, subprocess, _thread
        from multiprocessing.util import spawnv_passfds
        def raw_thread():
            _thread.start_new_thread(time.sleep, (600,))
            return os.getpid()
        def raw_process():
            spawnv_passfds(b"/bin/sleep", [b"sleep", b"600"], [])
            return os.getpid()
        def thread():
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
            return os.getpid()
        def process():
            subprocess.Popen(["sleep", "600"])
            return os.getpid()
        class Pid:
            def isoformat(self):
                thread()
                return os.getpid()
        def while_it_is_written():
            return Pid()
        def pid():
            return os.getpid()
    """)
    for handler in ("thread", "process", "raw_thread", "raw_process", "while_it_is_written"):
        pid = pool.call(code, handler, {}, deadline=soon()).value
        assert pool.call(code, "pid", {}, deadline=soon()).value != pid


def test_only_named_variables_of_the_environment_are_seen(pools, monkeypatch):
    monkeypatch.setenv("TEST_WORKER_SECRET", "s3cr3t")
    monkeypatch.setenv("TEST_WORKER_REGION", "north")
    pool = pools("rlimits", env=("TEST_WORKER_REGION",))
    seen = pool.call(script("import os\ndef run():\n    return dict(os.environ)\n"), "run", {}, deadline=soon()).value
    assert seen["TEST_WORKER_REGION"] == "north"
    assert "s3cr3t" not in str(seen)
    assert seen["HOME"] == seen["TMPDIR"]


def test_scripts_may_import_installed_packages_unless_told_otherwise(pools, level):
    code = script("def run():\n    import msgspec, numbers\n    return msgspec.json.encode([1]).decode()\n")
    assert pools(level).call(code, "run", {}, deadline=soon()).value == "[1]"
    with pytest.raises(ScriptFailed, match="No module named 'msgspec'"):
        pools(level, imports="stdlib").call(code, "run", {}, deadline=soon())


async def test_a_closed_pool_says_so_and_closes_twice(pools):
    pool = pools("rlimits")
    assert pool.call(BASIC, "count", {}, deadline=soon()).value == 1
    await pool.aclose()
    pool.close()
    await pool.aclose()
    with pytest.raises(Unavailable, match="closed"):
        pool.call(BASIC, "count", {}, deadline=soon())
    with pytest.raises(Unavailable, match="closed"):
        await pool.acall(BASIC, "count", {}, deadline=soon())


async def test_closing_ends_calls_that_run_and_that_wait(pools):
    pool = pools("rlimits", workers=1)
    await pool.acall(BASIC, "pid", {}, deadline=soon())
    tasks = [asyncio.create_task(pool.acall(BASIC, "sleep", {"seconds": 600}, deadline=soon(600))) for _ in range(2)]
    await asyncio.to_thread(until, lambda: pool._slots.gate.line)
    # The second waits for the place of the first, which a busy machine may still be handing over.
    await asyncio.sleep(0.5)
    await pool.aclose()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [ScriptFailed, Unavailable]


def test_a_lost_fork_server_is_replaced(pools):
    pool = pools("rlimits")
    pid, _ = pool.call(BASIC, "pid", {}, deadline=soon()).value
    pool._supervisor._fork_server._process.kill()
    until(lambda: not is_alive(pid))
    assert pool.call(BASIC, "echo", {"value": 5}, deadline=soon()).value == 5


class FakeWorker:
    def __init__(self, key):
        self.key = key


class SlotsMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: no slot is lost, and there are never more workers than slots."""

    def __init__(self):
        super().__init__()
        self.size = 3
        self.slots = PoolSlots(self.size)
        self.entered = 0
        self.held: list = []

    @rule()
    def enter(self):
        if self.slots.gate.enter_at_once():
            self.entered += 1

    @rule(key=st.sampled_from("abcd"))
    def find(self, key):
        if self.entered:
            self.entered -= 1
            known = [worker for worker in self.slots.idle if worker.key == key]
            found = self.slots.find(key)
            assert found is (known[-1] if known else found)
            self.held.append(found if found is not None and found.key == key else FakeWorker(key))

    @rule(which=st.integers(0, 2), keep=st.booleans())
    def release(self, which, keep):
        if which < len(self.held):
            worker = self.held.pop(which)
            self.slots.release(worker if keep else None)

    @rule()
    def clear(self):
        assert {worker.key for worker in self.slots.remove_idle()} <= set("abcd")

    @invariant()
    def slots_add_up(self):
        assert self.entered + len(self.held) + len(self.slots.gate.free) == self.size
        assert len(self.held) + len(self.slots.idle) <= self.size


SlotsMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestSlots = SlotsMachine.TestCase


def test_a_worker_of_another_script_makes_room_only_where_there_is_none():
    slots = PoolSlots(2)
    for key in "ab":
        assert slots.gate.enter_at_once() and slots.find(key) is None
    one, two = FakeWorker("a"), FakeWorker("b")
    slots.release(one)
    assert slots.gate.enter_at_once() and slots.find("c") is one
    slots.release(None)
    slots.release(two)
    assert slots.gate.enter_at_once() and slots.find("c") is None
