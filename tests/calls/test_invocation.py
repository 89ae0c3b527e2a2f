"""`Invocation`: what an engine is told."""

import time

from call_support import call, invocation_of

from toolyard.engines.base import ToolEngine
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry


def add(x: int, y: int = 2) -> int:
    return x + y


def test_arguments_are_repaired_filled_in_and_its_own():
    sent = {"x": "1"}
    invocation = invocation_of(add, sent)
    assert invocation.arguments == {"x": 1, "y": 2}
    invocation.arguments["x"] = 9
    assert sent == {"x": "1"}


def test_remaining_time_never_falls_below_nothing():
    assert invocation_of(add, {"x": 1}).remaining is None
    assert invocation_of(add, {"x": 1}, deadline=time.monotonic() - 5).remaining == 0.0
    assert 0 < invocation_of(add, {"x": 1}, deadline=time.monotonic() + 1000).remaining <= 1000


def test_an_idempotency_key_is_the_same_for_every_try_and_differs_for_every_other_call():
    def key(arguments, **options):
        return invocation_of(add, arguments, **options).idempotency_key

    same = key({"x": 1}, call_id="a")
    assert same == key({"x": 1}, call_id="a", attempt=2)
    assert len({same, key({"x": 2}, call_id="a"), key({"x": 1}, call_id="b")}) == 3
    assert key({"x": 1}) is None


def test_a_tool_that_asks_is_told_who_calls_it():
    invocation = invocation_of(add, {"x": 1}, call_id="id")
    ctx = invocation.tool_context()
    assert (ctx.call_id, ctx.session_id, ctx.tool, ctx.context) == ("id", "s", invocation.tool, {})


def test_an_engine_sees_history_keeps_state_and_gets_the_callers_context():
    seen = []

    class Counting(ToolEngine):
        def answer(self, invocation):
            invocation.state["count"] = invocation.state.get("count", 0) + 1
            seen.append([entry.tool_output.result for entry in invocation.history()])
            return [invocation.state["count"], invocation.context.get("who"), invocation.mode]

    engine = Counting(ToolRegistry([Tool("a", "n", parameters={"type": "object"})]), name="mine")
    engine.setup("s")
    engine.setup("t")
    first, second = engine.execute("s", [call("a"), call("a")], context={"who": "me"})
    assert (first.result, second.result) == ([1, "me", "execute"], [2, "me", "execute"])
    assert engine.simulate("s", [call("a")])[0].result == [3, None, "simulate"]
    assert engine.execute("s", [call("a")])[0].result[0] == 3
    assert engine.execute("t", [call("a")])[0].result[0] == 1
    assert engine.get_session_state("s")["mine"] == {"count": 3}
    assert [len(history) for history in seen] == [0, 1, 2, 2, 0]


def test_state_of_a_call_that_fails_is_not_kept():
    class Failing(ToolEngine):
        def answer(self, invocation):
            invocation.state["a"] = 1
            if invocation.arguments:
                raise ValueError("no")
            return dict(invocation.state)

    engine = Failing(ToolRegistry([Tool("a", "n", parameters={"type": "object"})]))
    engine.setup("s")
    engine.execute("s", [call("a", x=1)])
    assert "engine" not in engine.get_session_state("s")
    assert engine.execute("s", [call("a")])[0].result == {"a": 1}


def test_state_that_json_cannot_carry_fails_its_call_and_no_other():
    class Broken(ToolEngine):
        def answer(self, invocation):
            if invocation.arguments:
                invocation.state["broken"] = float("nan")
            return 1

    engine = Broken(ToolRegistry([Tool("a", "n", parameters={"type": "object"})]))
    engine.setup("s")
    results = engine.execute("s", [call("a"), call("a", x=1), call("a")])
    assert [result.is_error for result in results] == [False, True, False]
    assert "state 'broken' of engine 'engine' is not JSON" in results[1].error
