"""How often an engine is called, and how many of its calls run at once."""

import asyncio
import contextlib
import threading
import time

import pytest
from call_support import (
    SHORT,
    SOON,
    TINY,
    call,
    codes,
    engine_of,
    executions,
    hanging_engine,
    in_threads,
    is_free,
    registry_of,
    until,
)
from fault_support import Counted, plan

from toolyard.engines.base import ToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import Content, text
from toolyard.model.errors import CallTimeout, ToolFailed, Unavailable
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry


class FlakyEngine(ToolEngine):
    """Fails so many times, as told, and then answers."""

    def __init__(self, failures, effects=Effects.READ, **settings):
        tool = Tool("a", "n", parameters={"type": "object"}, effects=effects)
        super().__init__(ToolRegistry([tool]), retry_delay=0, **settings)
        self.failures = list(failures)
        self.seen = []
        self.setup("s")

    def answer(self, invocation):
        self.seen.append((invocation.attempt, invocation.idempotency_key))
        assert "tried" not in invocation.state, "what a failed try changed must be gone"
        invocation.state["tried"] = invocation.attempt
        if self.failures:
            raise self.failures.pop(0)
        return "ok"


class IdempotentEngine(FlakyEngine):
    idempotent = True


def make_unavailable(**details):
    return Unavailable("down", retryable=True, **details)


class TestRetries:
    def test_a_read_is_tried_again_and_says_how_often(self):
        engine = FlakyEngine([make_unavailable(), make_unavailable()], retries=2)
        result = engine.execute("s", [call("a")])[0]
        assert (result.result, result.metadata) == ("ok", {"attempts": 3})
        assert [attempt for attempt, _ in engine.seen] == [1, 2, 3]
        assert len(executions(engine)) == 1
        assert engine.get_session_state("s")["engine"] == {"tried": 3}

    async def test_a_task_tries_again_too(self):
        engine = FlakyEngine([make_unavailable()], retries=2)
        assert (await engine.aexecute("s", [call("a")]))[0].metadata == {"attempts": 2}

    def test_the_last_failure_is_the_answer_when_tries_run_out(self):
        engine = FlakyEngine([make_unavailable(), make_unavailable(), make_unavailable()], retries=1)
        result = engine.execute("s", [call("a")])[0]
        assert (result.error_info.code, result.metadata) == ("tool.unavailable", {"attempts": 2})

    def test_what_is_not_retryable_is_not_tried_again(self):
        engine = FlakyEngine([ToolFailed("no")], retries=5)
        assert engine.execute("s", [call("a")])[0].is_error
        assert len(engine.seen) == 1

    @pytest.mark.parametrize("effects", [Effects.WRITE, Effects.UNKNOWN])
    def test_what_may_change_the_world_is_not_tried_again(self, effects):
        engine = FlakyEngine([make_unavailable()], effects, retries=5)
        assert engine.execute("s", [call("a", "id")])[0].is_error
        assert len(engine.seen) == 1

    def test_except_where_a_repeat_is_harmless_and_the_call_has_an_id(self):
        engine = IdempotentEngine([make_unavailable()], Effects.WRITE, retries=5)
        assert engine.execute("s", [call("a", "id")])[0].result == "ok"
        assert len({key for _, key in engine.seen}) == 1
        bare = IdempotentEngine([make_unavailable()], Effects.WRITE, retries=5)
        assert bare.execute("s", [call("a")])[0].is_error

    def test_a_pause_asked_for_is_kept(self, monkeypatch):
        paused = []
        monkeypatch.setattr(time, "sleep", paused.append)
        FlakyEngine([make_unavailable(retry_after=7.5), make_unavailable()], retries=2).execute("s", [call("a")])
        assert paused == [7.5, 0]

    def test_pauses_grow(self, monkeypatch):
        paused = []
        monkeypatch.setattr(time, "sleep", paused.append)
        engine = FlakyEngine([make_unavailable()] * 3, retries=3)
        object.__setattr__(engine, "settings", type(engine.settings)(retries=3, retry_delay=0.5))
        engine.execute("s", [call("a")])
        assert paused == [0.5, 1.0, 2.0]

    def test_no_try_begins_after_the_deadline(self):
        engine = FlakyEngine([make_unavailable(retry_after=1000)], retries=3, timeout=SOON)
        assert engine.execute("s", [call("a")])[0].error_info.retry_after == 1000
        assert len(engine.seen) == 1


class ConcurrencyCounter:
    def __init__(self):
        self.lock, self.inside, self.most = threading.Lock(), 0, 0

    def __enter__(self):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *error):
        with self.lock:
            self.inside -= 1


def limited_engine(**settings):
    counters = {"one": ConcurrencyCounter(), "two": ConcurrencyCounter(), "all": ConcurrencyCounter()}

    def work(name):
        with counters[name], counters["all"]:
            time.sleep(0.002)
            if counters["all"].most % 5 == 4:
                raise ValueError("some fail")

    def one():
        work("one")

    def two():
        work("two")

    async def three():
        with counters["all"]:
            await asyncio.sleep(0.002)

    engine = engine_of(one, two, three, **settings)
    for number in range(24):
        engine.setup(str(number))
    return engine, counters


class TestLimits:
    def test_no_more_than_allowed_run_at_once_across_threads_and_tasks(self):
        engine, counters = limited_engine(max_concurrent_calls=3, max_concurrent_calls_per_tool={"n::one": 1})

        def calls(number):
            return [call(name) for name in (("one", "two") if number % 2 else ("two", "three"))]

        async def tasks():
            await asyncio.gather(*(engine.aexecute(str(number), calls(number)) for number in range(12)))

        work = [lambda n=n: engine.execute(str(n), calls(n)) for n in range(12, 24)]
        in_threads(lambda: asyncio.run(tasks()), *work)
        assert counters["one"].most == 1
        assert counters["all"].most <= 3
        assert all(len(executions(engine, str(number))) == 2 for number in range(24))
        gates = (*engine.gates.of("n::one"), *engine.gates.of("n::two"))
        assert not any(gate.busy for gate in gates)

    def test_who_waits_past_the_deadline_is_unavailable_and_was_not_begun(self):
        hung, engine = hanging_engine(max_concurrent_calls=1)
        engine.setup("t")
        busy = threading.Thread(target=lambda: engine.execute("s", [call("hang")]))
        busy.start()
        assert hung.began.wait(SOON)
        result = engine.execute("t", [call("quick", x=1)], timeout=TINY)[0]
        assert (result.error_info.code, result.error_info.effect) == ("tool.unavailable", "none")
        assert "max_concurrent_calls" in result.error_info.hint
        hung.end.set()
        busy.join(SOON)
        assert engine.execute("t", [call("quick", x=1)])[0].result == 1

    def test_a_call_left_behind_keeps_its_place_until_it_ends(self):
        hung, engine = hanging_engine(max_concurrent_calls=1, abandoned="release")
        engine.execute("s", [call("hang")], timeout=SHORT)
        engine.setup("t")
        assert engine.execute("t", [call("quick", x=1)], timeout=TINY)[0].error_info.code == "tool.unavailable"
        hung.end.set()
        until(lambda: not engine.gates.of("n::hang")[0].busy)
        assert engine.execute("t", [call("quick", x=1)])[0].result == 1

    @pytest.mark.parametrize("failure", [ValueError("x"), KeyboardInterrupt(), SystemExit(1), CallTimeout("x")])
    def test_places_are_given_back_whatever_the_tool_raises(self, failure):
        def fail():
            raise failure

        engine = engine_of(fail, max_concurrent_calls=1, max_concurrent_calls_per_tool=1)
        with contextlib.suppress(KeyboardInterrupt):
            engine.execute("s", [call("fail")])
        assert not any(gate.busy for gate in engine.gates.of("n::fail"))
        assert is_free(engine)

    async def test_a_cancelled_wait_for_a_place_leaves_none_taken(self):
        hung, engine = hanging_engine(max_concurrent_calls=1)
        engine.setup("t")
        first = asyncio.ensure_future(engine.aexecute("s", [call("hang")]))
        await asyncio.to_thread(hung.began.wait, SOON)
        second = asyncio.ensure_future(engine.aexecute("t", [call("quick", x=1)]))
        await asyncio.sleep(0.01)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        hung.end.set()
        assert (await first)[0].result == "ended"
        assert not engine.gates.of("n::hang")[0].busy
        assert executions(engine, "t") == []
        assert is_free(engine, "t")


@pytest.mark.parametrize(
    ("kind", "code", "effect", "retryable"),
    [
        ("network_error", "tool.unavailable", "none", True),
        ("rate_limit", "tool.unavailable", "none", True),
        ("timeout", "tool.timeout", "none", True),
        ("auth", "tool.execution_error", "none", False),
        ("not_found", "tool.execution_error", "none", False),
    ],
)
def test_an_error_comes_in_place_of_the_call_and_is_recorded(kind, code, effect, retryable):
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": kind, "message": "so there"})) as engine:
        (result,) = engine.execute("s", [call("look", "c1")])
        assert counted.calls == 0
        info = result.error_info
        assert (info.code, info.message, info.effect, info.retryable) == (code, "so there", effect, retryable)
        assert result.metadata == {"fault": {"type": kind, "rule": 0}}
        assert executions(engine)[0]["tool_output"]["metadata"] == {"fault": {"type": kind, "rule": 0}}


def test_a_rate_limit_says_when_to_come_back():
    with engine_of(Counted().tool(), faults=plan({"type": "rate_limit", "retry_after": 7})) as engine:
        assert engine.execute("s", [call("look")])[0].error_info.retry_after == 7.0
    with engine_of(Counted().tool(), faults=plan({"type": "rate_limit"})) as engine:
        assert engine.execute("s", [call("look")])[0].error_info.retry_after == 1.0


@pytest.mark.parametrize(
    ("kind", "effect"), [("network_error", "unknown"), ("timeout", "unknown"), ("schema_violation", "done")]
)
def test_an_answer_can_be_lost_after_the_tool_was_called(kind, effect):
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": kind, "after_call": True})) as engine:
        (result,) = engine.execute("s", [call("look")])
        assert (counted.calls, result.error_info.effect) == (1, effect)
    reading = Counted()
    with engine_of(reading.tool(), effects="read", faults=plan({"type": kind, "after_call": True})) as engine:
        assert engine.execute("s", [call("look")])[0].error_info.effect == "none"


def test_an_unparseable_result_is_a_garbled_piece_of_the_real_one():
    counted = Counted({"city": "Oslo"})
    with engine_of(counted.tool(), faults=plan({"type": "unparseable_result"})) as engine:
        results = engine.execute("s", [call("look") for _ in range(20)])
    assert counted.calls == 20
    for result in results:
        piece = result.result.removeprefix("<garbled: ").removesuffix(">")
        assert not result.is_error and piece and '{"city":"Oslo"}'.startswith(piece)
    assert len({result.result for result in results}) > 1


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}),
        ({"items": [1, 2, 3, 4]}, {"items": [1, 2]}),
        ([1, 2, 3], [1]),
        ("abcdef", "abc"),
        ({}, {}),
        (7, None),
        (Content([text("abcd")]), "ab"),
    ],
)
def test_a_partial_result_is_the_first_half(whole, part):
    with engine_of(Counted(whole).tool(), faults=plan({"type": "partial_result"})) as engine:
        result = engine.execute("s", [call("look")])[0]
        assert (result.result, result.metadata) == (part, {"fault": {"type": "partial_result", "rule": 0}})


def test_a_stale_read_is_the_last_answer_to_the_same_call():
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": "stale_read", "after": 1})) as engine:
        results = engine.execute("s", [call("look", place=place) for place in ("a", "b", "a", "a")])
        assert [result.result["seen"] for result in results] == [1, 2, 1, 1]
        assert [bool(result.metadata) for result in results] == [False, False, True, True]
        assert counted.calls == 4
    writing = Counted()
    with engine_of(writing.tool(), effects="write", faults=plan({"type": "stale_read"})) as engine:
        results = engine.execute("s", [call("look"), call("look")])
        assert [result.result["seen"] for result in results] == [1, 2] and results[1].metadata == {}


def test_latency_delays_the_answer_and_changes_nothing_else(monkeypatch):
    slept = []
    monkeypatch.setattr("toolyard.calls.waits.time.sleep", slept.append)
    with engine_of(Counted().tool(), faults=plan({"type": "latency", "seconds": 600})) as engine:
        result = engine.execute("s", [call("look")])[0]
        assert slept == [600]
        assert result.result == {"place": "here", "seen": 1}
        assert result.metadata["fault"]["type"] == "latency"


@pytest.mark.parametrize("kind", ["latency", "not_found"])
def test_who_waits_past_the_deadline_times_out_and_is_not_called(kind):
    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": kind, "seconds": 60})) as engine:
        (result,) = engine.execute("s", [call("look")], timeout=0.05)
        assert (result.error_info.code, result.error_info.effect) == ("tool.timeout", "none")
        assert counted.calls == 0


def test_a_wrong_answer_is_not_checked_and_a_late_one_is():
    def look() -> dict:
        """Look."""
        return {"n": "no number"}

    options = {"output_parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    for kind, ok in (("unparseable_result", True), ("partial_result", True), ("latency", False)):
        rule = {"type": kind, **({"seconds": 0} if kind == "latency" else {})}
        with PythonToolEngine(registry_of(look, **options), output_check="strict", faults=plan(rule)) as engine:
            engine.setup("s")
            (result,) = engine.execute("s", [call("look")])
            assert (not result.is_error) == ok
            assert "output_violations" not in result.metadata


def test_a_tool_that_fails_by_itself_has_no_fault_to_show():
    def look() -> int:
        """Look."""
        raise ToolFailed("by itself")

    for kind, shown in (("unparseable_result", False), ("partial_result", False), ("latency", True)):
        rule = {"type": kind, **({"seconds": 0} if kind == "latency" else {})}
        with engine_of(look, faults=plan(rule)) as engine:
            (result,) = engine.execute("s", [call("look")])
            assert result.error == "by itself" and ("fault" in result.metadata) == shown


def test_refused_calls_meet_no_fault():
    with engine_of(Counted().tool(), faults=plan({"type": "auth"})) as engine:
        engine.execute("s", [call("nothing"), call("look", wrong=1)])
        assert codes(engine) == ["tool.not_found", "tool.invalid_args"]


def test_a_real_retry_does_not_undo_a_fault():
    counted = Counted()
    faults = plan({"type": "network_error"})
    with engine_of(counted.tool(), effects="read", retries=3, retry_delay=0, faults=faults) as engine:
        (result,) = engine.execute("s", [call("look")])
        assert result.error_info.code == "tool.unavailable" and counted.calls == 0 and "attempts" not in result.metadata


async def test_a_call_that_is_cancelled_while_it_is_kept_waiting_was_never_made():
    import asyncio

    counted = Counted()
    with engine_of(counted.tool(), faults=plan({"type": "latency", "seconds": 600})) as engine:
        task = asyncio.ensure_future(engine.aexecute("s", [call("look")]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counted.calls == 0 and executions(engine) == []


def test_a_fault_is_in_the_trace_as_the_error_it_is():
    from call_support import Listener

    from toolyard.calls.tracer import Tracer

    listener = Listener()
    with engine_of(Counted().tool(), tracer=Tracer([listener]), faults=plan({"type": "rate_limit"})) as engine:
        engine.execute("s", [call("look")])
    assert [event.code for event in listener.events] == ["tool.unavailable"]
