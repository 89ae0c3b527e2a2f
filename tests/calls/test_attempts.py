"""How often an engine is called, and how many of its calls run at once."""

import asyncio
import contextlib
import threading
import time

import pytest
from call_support import SHORT, SOON, TINY, call, engine_of, executions, hanging_engine, in_threads, is_free, until

from toolyard.engines.base import ToolEngine
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
