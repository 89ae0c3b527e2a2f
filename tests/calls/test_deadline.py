"""Letting an engine answer until its deadline, and what is left behind."""

import asyncio
import threading
import time

import pytest
from call_support import SHORT, SOON, TINY, Hung, call, codes, engine_of, hanging_engine, invocation_of, is_free, until

from toolyard.calls import waits as module
from toolyard.model.errors import SessionBusyError


class TestDeadline:
    def test_a_sync_tool_that_overruns_its_deadline_holds_the_session_until_it_ends(self):
        hung, engine = hanging_engine()
        first, second = engine.execute("s", [call("hang"), call("quick", x=1)], timeout=SHORT)
        assert (first.error_info.code, first.error_info.effect) == ("tool.timeout", "unknown")
        assert second.error_info.code == "tool.unavailable"
        assert not is_free(engine)
        with pytest.raises(SessionBusyError):
            engine.execute("s", [call("quick", x=1)], timeout=TINY)
        with pytest.raises(SessionBusyError):
            engine.simulate("s", [call("quick", x=1)], timeout=TINY)
        hung.end.set()
        until(lambda: is_free(engine))
        assert engine.execute("s", [call("quick", x=1)])[0].result == 1
        assert codes(engine) == ["tool.timeout", "tool.unavailable", None]

    @pytest.mark.parametrize(("effects", "effect", "advises"), [("read", "none", False), ("unknown", "unknown", True)])
    def test_only_what_may_have_taken_effect_is_to_be_looked_into(self, effects, effect, advises):
        async def sleep():
            await asyncio.sleep(SOON)

        engine = engine_of(sleep, effects=effects)
        info = engine.execute("s", [call("sleep")], timeout=TINY)[0].error_info
        assert (info.code, info.effect, bool(info.hint)) == ("tool.timeout", effect, advises)

    def test_with_release_the_session_goes_on_without_it(self):
        hung, engine = hanging_engine(abandoned="release")
        result = engine.execute("s", [call("hang")], timeout=SHORT)[0]
        assert result.error_info.code == "tool.timeout"
        assert is_free(engine)
        assert engine.execute("s", [call("quick", x=1)], timeout=SOON)[0].result == 1
        hung.end.set()
        assert codes(engine) == ["tool.timeout", None]

    async def test_the_same_holds_for_a_task(self):
        hung, engine = hanging_engine()
        results = await engine.aexecute("s", [call("hang"), call("quick", x=1)], timeout=SHORT)
        assert [result.error_info.code for result in results] == ["tool.timeout", "tool.unavailable"]
        with pytest.raises(SessionBusyError):
            await engine.aexecute("s", [call("quick", x=1)], timeout=TINY)
        hung.end.set()
        assert (await engine.aexecute("s", [call("quick", x=1)], timeout=SOON))[0].result == 1

    def test_many_hung_calls_take_no_thread_from_others(self):
        hung, engine = hanging_engine(threads=2, timeout=SHORT)
        for number in range(6):
            engine.setup(str(number))
            assert engine.execute(str(number), [call("hang")])[0].error_info.code == "tool.timeout"
        assert engine.execute("s", [call("quick", x=1)], timeout=SOON)[0].result == 1
        hung.end.set()
        until(lambda: engine.threads.alive <= 2)

    def test_a_call_that_gets_no_thread_in_time_was_never_begun(self):
        hung, engine = hanging_engine(threads=1)
        engine.setup("t")
        busy = threading.Thread(target=lambda: engine.execute("s", [call("hang")], timeout=SOON))
        busy.start()
        assert hung.began.wait(SOON)
        result = engine.execute("t", [call("quick", x=1)], timeout=TINY)[0]
        assert (result.error_info.code, result.error_info.effect) == ("tool.timeout", "none")
        assert "all threads are busy" in result.error
        assert is_free(engine, "t")
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
        assert is_free(engine)

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
        assert not is_free(engine)
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
