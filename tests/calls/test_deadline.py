"""Letting an engine answer: deadlines, tries and limits, and what is left behind."""

import asyncio
import contextlib
import threading
import time

import pytest
from call_support import SOON, Hung, call, codes, engine_of, executions, in_threads, invocation_of, until

from toolyard.calls import drive as module
from toolyard.engines.base import ToolEngine
from toolyard.model.errors import CallTimeout, SessionBusyError, ToolFailed, Unavailable
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry

SHORT = 0.25
"""Long enough for a thread to begin on a busy machine, which these tests count on."""
TINY = 0.02


def free(engine, session="s"):
    return not engine.sessions.find(session).gate.busy


def hanging(**settings):
    hung = Hung()

    def hang():
        return hung()

    def quick(x: int) -> int:
        return x

    return hung, engine_of(hang, quick, **settings)


class TestDeadline:
    def test_a_sync_tool_that_overruns_its_deadline_holds_the_session_until_it_ends(self):
        hung, engine = hanging()
        first, second = engine.execute("s", [call("hang"), call("quick", x=1)], timeout=SHORT)
        assert (first.error_info.code, first.error_info.effect) == ("tool.timeout", "unknown")
        assert second.error_info.code == "tool.unavailable"
        assert not free(engine)
        with pytest.raises(SessionBusyError):
            engine.execute("s", [call("quick", x=1)], timeout=TINY)
        with pytest.raises(SessionBusyError):
            engine.simulate("s", [call("quick", x=1)], timeout=TINY)
        hung.end.set()
        until(lambda: free(engine))
        assert engine.execute("s", [call("quick", x=1)])[0].result == 1
        assert codes(engine) == ["tool.timeout", "tool.unavailable", None]

    def test_with_release_the_session_goes_on_without_it(self):
        hung, engine = hanging(abandoned="release")
        result = engine.execute("s", [call("hang")], timeout=SHORT)[0]
        assert result.error_info.code == "tool.timeout"
        assert free(engine)
        assert engine.execute("s", [call("quick", x=1)], timeout=SOON)[0].result == 1
        hung.end.set()
        assert codes(engine) == ["tool.timeout", None]

    async def test_the_same_holds_for_a_task(self):
        hung, engine = hanging()
        results = await engine.aexecute("s", [call("hang"), call("quick", x=1)], timeout=SHORT)
        assert [result.error_info.code for result in results] == ["tool.timeout", "tool.unavailable"]
        with pytest.raises(SessionBusyError):
            await engine.aexecute("s", [call("quick", x=1)], timeout=TINY)
        hung.end.set()
        assert (await engine.aexecute("s", [call("quick", x=1)], timeout=SOON))[0].result == 1

    def test_many_hung_calls_take_no_thread_from_others(self):
        hung, engine = hanging(threads=2, timeout=SHORT)
        for number in range(6):
            engine.setup(str(number))
            assert engine.execute(str(number), [call("hang")])[0].error_info.code == "tool.timeout"
        assert engine.execute("s", [call("quick", x=1)], timeout=SOON)[0].result == 1
        hung.end.set()
        until(lambda: engine.threads.alive <= 2)

    def test_a_call_that_gets_no_thread_in_time_was_never_begun(self):
        hung, engine = hanging(threads=1)
        engine.setup("t")
        busy = threading.Thread(target=lambda: engine.execute("s", [call("hang")], timeout=SOON))
        busy.start()
        assert hung.began.wait(SOON)
        result = engine.execute("t", [call("quick", x=1)], timeout=TINY)[0]
        assert (result.error_info.code, result.error_info.effect) == ("tool.timeout", "none")
        assert "all threads are busy" in result.error
        assert free(engine, "t")
        hung.end.set()
        busy.join(SOON)

    def test_an_async_tool_is_cancelled_at_its_deadline_and_may_clean_up(self):
        cleaned = []

        async def slow():
            try:
                await asyncio.sleep(SOON)
            finally:
                await asyncio.sleep(0)
                cleaned.append(1)

        engine = engine_of(slow)
        assert engine.execute("s", [call("slow")], timeout=SHORT)[0].error_info.code == "tool.timeout"
        assert cleaned == [1]
        assert free(engine)

    async def test_an_async_tool_that_will_not_end_holds_the_session(self):
        end = asyncio.Event()

        async def stubborn():
            while not end.is_set():
                try:
                    await end.wait()
                except asyncio.CancelledError:
                    continue
            return 1

        engine = engine_of(stubborn)
        result = (await engine.aexecute("s", [call("stubborn")], timeout=SHORT))[0]
        assert result.error_info.code == "tool.timeout"
        assert not free(engine)
        with pytest.raises(SessionBusyError):
            await engine.aexecute("s", [call("stubborn")], timeout=SHORT)
        end.set()
        assert (await engine.aexecute("s", [call("stubborn")], timeout=SOON))[0].result == 1

    def test_a_tools_own_timeout_error_is_a_failure_of_the_tool(self):
        def impatient():
            raise TimeoutError("mine")

        engine = engine_of(impatient)
        assert engine.execute("s", [call("impatient")], timeout=SOON)[0].error_info.code == "tool.execution_error"

    def test_an_answer_that_comes_at_the_last_moment_counts(self, monkeypatch):
        """Waiting is over, and when one looks the answer is there."""
        engine = engine_of(Hung, effects="read")

        class Late:
            def result(self, timeout=None):
                if timeout is not None:
                    raise TimeoutError
                return "there"

            def done(self):
                return True

            def cancelled(self):
                return False

        def quick():
            return None

        monkeypatch.setattr(module, "_start_thread", lambda engine, invocation: Late())
        assert module.answer_in_thread(engine, invocation_of(quick, deadline=time.monotonic())) == "there"


class Flaky(ToolEngine):
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


class Idempotent(Flaky):
    idempotent = True


def down(**details):
    return Unavailable("down", retryable=True, **details)


class TestRetries:
    def test_a_read_is_tried_again_and_says_how_often(self):
        engine = Flaky([down(), down()], retries=2)
        result = engine.execute("s", [call("a")])[0]
        assert (result.result, result.metadata) == ("ok", {"attempts": 3})
        assert [attempt for attempt, _ in engine.seen] == [1, 2, 3]
        assert len(executions(engine)) == 1
        assert engine.get_session_state("s")["engine"] == {"tried": 3}

    async def test_a_task_tries_again_too(self):
        engine = Flaky([down()], retries=2)
        assert (await engine.aexecute("s", [call("a")]))[0].metadata == {"attempts": 2}

    def test_the_last_failure_is_the_answer_when_tries_run_out(self):
        engine = Flaky([down(), down(), down()], retries=1)
        result = engine.execute("s", [call("a")])[0]
        assert (result.error_info.code, result.metadata) == ("tool.unavailable", {"attempts": 2})

    def test_what_is_not_retryable_is_not_tried_again(self):
        engine = Flaky([ToolFailed("no")], retries=5)
        assert engine.execute("s", [call("a")])[0].is_error
        assert len(engine.seen) == 1

    @pytest.mark.parametrize("effects", [Effects.WRITE, Effects.UNKNOWN])
    def test_what_may_change_the_world_is_not_tried_again(self, effects):
        engine = Flaky([down()], effects, retries=5)
        assert engine.execute("s", [call("a", "id")])[0].is_error
        assert len(engine.seen) == 1

    def test_except_where_a_repeat_is_harmless_and_the_call_has_an_id(self):
        engine = Idempotent([down()], Effects.WRITE, retries=5)
        assert engine.execute("s", [call("a", "id")])[0].result == "ok"
        assert len({key for _, key in engine.seen}) == 1
        bare = Idempotent([down()], Effects.WRITE, retries=5)
        assert bare.execute("s", [call("a")])[0].is_error

    def test_a_pause_asked_for_is_kept(self, monkeypatch):
        paused = []
        monkeypatch.setattr(time, "sleep", paused.append)
        Flaky([down(retry_after=7.5), down()], retries=2).execute("s", [call("a")])
        assert paused == [7.5, 0]

    def test_pauses_grow(self, monkeypatch):
        paused = []
        monkeypatch.setattr(time, "sleep", paused.append)
        engine = Flaky([down()] * 3, retries=3)
        object.__setattr__(engine, "settings", type(engine.settings)(retries=3, retry_delay=0.5))
        engine.execute("s", [call("a")])
        assert paused == [0.5, 1.0, 2.0]

    def test_no_try_begins_after_the_deadline(self):
        engine = Flaky([down(retry_after=1000)], retries=3, timeout=SOON)
        assert engine.execute("s", [call("a")])[0].error_info.retry_after == 1000
        assert len(engine.seen) == 1


class Counter:
    def __init__(self):
        self.lock, self.inside, self.most = threading.Lock(), 0, 0

    def __enter__(self):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *error):
        with self.lock:
            self.inside -= 1


def limited(**settings):
    counters = {"one": Counter(), "two": Counter(), "all": Counter()}

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
        engine, counters = limited(max_concurrent_calls=3, max_concurrent_calls_per_tool={"n::one": 1})

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
        hung, engine = hanging(max_concurrent_calls=1)
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
        hung, engine = hanging(max_concurrent_calls=1, abandoned="release")
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
        assert free(engine)

    async def test_a_cancelled_wait_for_a_place_leaves_none_taken(self):
        hung, engine = hanging(max_concurrent_calls=1)
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
        assert free(engine, "t")
