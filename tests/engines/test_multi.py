"""`MultiToolEngine`: one history, several ways of answering."""

import asyncio
import threading

import pytest
from waiting import until

from engines.engine_support import SOON, Hung, call, results_of
from toolyard import SessionBusyError, Sessions, SqliteStore, ToolCall, Tracer
from toolyard.calls.policy import Policy
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.bindings import PythonBinding
from toolyard.model.call import ToolResult
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.functions import function_tool


class Named(ToolEngine):
    """Answers with its name, and counts in its state."""

    def __init__(self, name, **settings):
        super().__init__(name=name, **settings)
        self.closed = 0

    def answer(self, invocation):
        invocation.state["n"] = invocation.state.get("n", 0) + 1
        return [self.name, len(invocation.history())]

    def close(self):
        self.closed += 1
        super().close()


def tool(namespace, source=None):
    return Tool("t", namespace, parameters={"type": "object"}, source=source)


def add(x: int) -> int:
    return x + 1


def registry():
    made = ToolRegistry([tool("a"), tool("b", "file"), tool("c", "file"), tool("d")])
    made.add(function_tool(add, namespace="py"))
    return made


def test_a_tool_goes_to_the_engine_of_its_namespace_then_source_then_binding_then_the_default():
    engine = MultiToolEngine(
        registry(),
        {"a": Named("one"), "b": Named("two")},
        sources={"file": Named("three")},
        bindings={PythonBinding: PythonToolEngine()},
        default=Named("four"),
    )
    engine.setup("s")
    results = engine.execute("s", [call("a::t"), call("b::t"), call("c::t"), call("py::add", x=1), call("d::t")])
    assert [result.result for result in results] == [["one", 0], ["two", 1], ["three", 2], 2, ["four", 4]]


def test_a_tool_nobody_answers_is_a_result_and_loses_nothing():
    engine = MultiToolEngine(registry(), {"a": Named("one")})
    engine.setup("s")
    first, second, third = engine.execute("s", [call("a::t"), call("d::t"), call("a::t")])
    assert (second.error_info.code, second.error_info.effect) == ("tool.no_engine", "none")
    assert "routed namespaces: a" in second.error_info.hint
    assert (first.result, third.result) == (["one", 0], ["one", 2])


async def test_history_is_shared_order_is_kept_and_state_is_each_engines_own():
    engine = MultiToolEngine(registry(), {"a": Named("one"), "b": Named("two"), "py": PythonToolEngine()})
    await engine.asetup("s")
    await engine.aexecute("s", [call("a::t"), call("py::add", x=1), call("b::t"), call("a::t")])
    assert results_of(engine) == [["one", 0], 2, ["two", 2], ["one", 3]]
    state = engine.get_session_state("s")
    assert (state["one"], state["two"]) == ({"n": 2}, {"n": 1})
    engine.setup("fork", fork_of="s")
    before = engine.state_hash("s")
    engine.execute("fork", [call("a::t")])
    engine.simulate("s", [call("a::t"), call("b::t")])
    assert engine.state_hash("s") == before
    assert engine.get_session_state("fork")["one"] == {"n": 3}
    assert engine.get_session_state("s")["one"] == {"n": 2}


def test_each_call_obeys_the_limits_of_the_engine_that_answers_it():
    hung = Hung()

    class Hanging(Named):
        def answer(self, invocation):
            return hung()

    engine = MultiToolEngine(
        registry(), {"a": Hanging("one", timeout=0.25, abandoned="hold"), "b": Named("two")}, abandoned="release"
    )
    engine.setup("s")
    assert engine.execute("s", [call("a::t")])[0].error_info.code == "tool.timeout"
    small = MultiToolEngine(registry(), {"a": Named("one", max_result_bytes=3), "b": Named("two")})
    small.setup("s")
    first, second = small.execute("s", [call("a::t"), call("b::t")])
    assert first.error_info.code == "tool.invalid_output"
    assert second.result == ["two", 1]
    hung.end.set()


def test_two_engines_of_one_name_would_mix_their_state_and_are_refused():
    with pytest.raises(ConfigError, match="two engines are both called 'same'"):
        MultiToolEngine(registry(), {"a": Named("same"), "b": Named("same")})
    one = Named("same")
    MultiToolEngine(registry(), {"a": one, "b": one}, default=one)


def test_engines_that_nobody_named_are_told_apart_and_keep_states_of_their_own():
    def t() -> int:
        return 1

    class Counting(ToolEngine):
        def answer(self, invocation):
            invocation.state["n"] = invocation.state.get("n", 0) + 1
            return [self.name, invocation.state["n"]]

    a, b = (PythonToolEngine(ToolRegistry([function_tool(t, namespace=name)])) for name in "ab")
    python = MultiToolEngine({"a": a, "b": b})
    python.setup("s")
    assert [result.result for result in python.execute("s", [call("a::t"), call("b::t")])] == [1, 1]
    inner = MultiToolEngine(engines={"b": Counting()}, name="inner")
    engine = MultiToolEngine(registry(), {"a": Counting(), "b": inner})
    engine.setup("s")
    told = [result.result for result in engine.execute("s", [call("a::t"), call("b::t"), call("b::t")])]
    assert told == [["engine", 1], ["engine-2", 1], ["engine-2", 2]]
    named = MultiToolEngine(registry(), {"a": Counting(), "b": Named("engine")})
    assert sorted(part.name for part in named.engines.values()) == ["engine", "engine-2"]


def test_also_if_one_of_them_is_inside_another_that_routes():
    inner = MultiToolEngine(engines={"b": Named("same")}, name="inner")
    with pytest.raises(ConfigError, match="two engines are both called 'same'"):
        MultiToolEngine(registry(), {"a": Named("same"), "b": inner})


def test_engines_that_route_can_be_nested():
    inner = MultiToolEngine(engines={"b": Named("two")}, default=Named("three"), name="inner")
    engine = MultiToolEngine(registry(), {"a": Named("one")}, default=inner)
    engine.setup("s")
    results = engine.execute("s", [call("a::t"), call("b::t"), call("d::t")])
    assert [result.result for result in results] == [["one", 0], ["two", 1], ["three", 2]]
    assert sorted(engine.get_session_state("s")) == ["one", "three", "tool_executions", "two"]


async def test_closing_closes_all_of_them():
    one, two = Named("one"), Named("two")
    inner = MultiToolEngine(engines={"b": two}, name="inner")
    with MultiToolEngine(registry(), {"a": one}, default=inner) as engine:
        engine.setup("s")
    assert (one.closed, two.closed) == (1, 1)
    async with MultiToolEngine(registry(), {"a": one}, default=inner):
        pass
    assert (one.closed, two.closed) == (2, 2)


class SeedStyled(ToolEngine):
    """The older style, with sessions of its own."""

    def __init__(self, name):
        super().__init__(ToolRegistry([tool("a")]), name=name)
        self.lives = []

    def setup(self, session_id, **options):
        self.lives.append(("setup", session_id))
        super().setup(session_id, **options)

    def teardown(self, session_id, **options):
        self.lives.append(("teardown", session_id))
        super().teardown(session_id, **options)

    def execute(self, session_id, tool_calls):
        if "fail" in tool_calls[0].arguments:
            return [ToolResult(c.call_id, c.name, error="it failed") for c in tool_calls]
        super().execute(session_id, tool_calls)
        return [ToolResult(c.call_id, c.name, "seed") for c in tool_calls]

    def answer(self, invocation):
        return 1


@pytest.mark.parametrize("nested", [False, True])
async def test_an_engine_in_the_older_style_takes_part_with_a_session_of_its_own(nested):
    seed = SeedStyled("seed")
    routed = {"a": MultiToolEngine(engines={"a": seed}, name="inner") if nested else seed}
    engine = MultiToolEngine(registry(), {**routed, "b": Named("two")})
    engine.setup("s")
    results = engine.execute("s", [call("a::t"), call("b::t"), call("a::t", fail=True)])
    assert [result.result for result in results] == ["seed", ["two", 1], None]
    assert results[2].error == "it failed"
    assert (await engine.aexecute("s", [call("a::t")]))[0].result == "seed"
    before = len(seed.get_session_state("s")["tool_executions"])
    assert engine.simulate("s", [call("a::t")])[0].result == "seed"
    assert len(seed.get_session_state("s")["tool_executions"]) == before
    engine.teardown("s")
    assert seed.lives == [("setup", "s"), ("teardown", "s")]


def test_a_session_that_one_of_them_cannot_begin_is_begun_by_none():
    class Refusing(SeedStyled):
        def setup(self, session_id, **options):
            raise RuntimeError("no")

    first = SeedStyled("first")
    engine = MultiToolEngine(registry(), {"a": first, "b": Refusing("second")})
    with pytest.raises(RuntimeError):
        engine.setup("s")
    assert engine.get_session_state("s") is None
    assert first.lives == [("setup", "s"), ("teardown", "s")]


async def test_the_python_engine_among_others_runs_functions_where_they_belong():
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x

    made = registry()
    made.add(function_tool(later, namespace="py"))
    engine = MultiToolEngine(made, {"py": PythonToolEngine()}, default=Named("rest"))
    engine.setup("s")
    calls = [call("py::add", x=1), call("py::later", x=5), call("d::t")]
    assert [r.result for r in await engine.aexecute("s", calls, timeout=SOON)] == [2, 5, ["rest", 2]]
    assert [r.result for r in await asyncio.to_thread(engine.execute, "s", calls)] == [2, 5, ["rest", 5]]


def quick(n: int = 0) -> int:
    return n


def one(engine, name, **arguments):
    return engine.execute("s", [ToolCall(f"n::{name}", arguments)])[0]


class Slow:
    def __init__(self):
        self.release = threading.Event()

    def __call__(self, n: int = 0) -> int:
        self.release.wait(SOON)
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
        until(lambda: not engine.sessions.find("s").gate.busy)
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
