"""The code and the promises of seed 001 (engines and sessions), with only the import path changed."""

import asyncio
import inspect
import threading
import uuid
from types import SimpleNamespace

import pytest

from toolyard import (
    Effects,
    MultiToolEngine,
    PythonToolEngine,
    SessionError,
    SessionExistsError,
    Tool,
    ToolCall,
    ToolEngine,
    ToolRegistry,
    ToolResult,
    UnknownPluginError,
    UnknownSessionError,
    function_tool,
    get_tool_engine,
    register_tool_engine,
)
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

BUY = ToolCall("shop::buy", {"what": "tea"}, "c1")
FAIL = ToolCall("shop::fail", {})


def buy(what: str) -> str:
    return f"one {what}"


def fail() -> str:
    raise ValueError("sold out")


@pytest.fixture
def registry():
    return ToolRegistry([function_tool(function, namespace="shop") for function in (buy, fail)])


@pytest.fixture
def engine(registry):
    with PythonToolEngine(registry) as found:
        yield found


class Plain(ToolEngine):
    """An engine as an author writes it who has read only the seed: one method, two parameters."""

    def execute(self, session_id, tool_calls):
        return [ToolResult(call_id=call.call_id, name=call.name, result=call.arguments) for call in tool_calls]


class OwnSessions(ToolEngine):
    """As the seed's signatures have it, with state of its own."""

    def __init__(self, registry=None):
        super().__init__(registry)
        self.seen = {}

    def setup(self, session_id, *args, **kwargs):
        if session_id in self.seen:
            raise ValueError(session_id)
        self.seen[session_id] = []

    def execute(self, session_id, tool_calls):
        self.seen[session_id].extend(call.name for call in tool_calls)
        return [
            ToolResult(call_id=call.call_id, name=call.name, result=len(self.seen[session_id])) for call in tool_calls
        ]

    def simulate(self, session_id, tool_calls):
        kept = list(self.seen[session_id])
        try:
            return self.execute(session_id, tool_calls)
        finally:
            self.seen[session_id] = kept

    def teardown(self, session_id):
        self.seen.pop(session_id, None)

    def get_session_state(self, session_id):
        return {"seen": self.seen[session_id]} if session_id in self.seen else None


class Above(ToolEngine):
    """Overrides `execute` only to look at what passes, and lets the base do the work."""

    def __init__(self, registry=None, **settings):
        super().__init__(registry, **settings)
        self.passed = []

    def execute(self, session_id, tool_calls):
        self.passed.append(len(tool_calls))
        return super().execute(session_id, tool_calls)

    def answer(self, invocation):
        return f"answered {invocation.tool.name}"


def test_the_session_interface_is_the_seeds_and_every_method_has_its_a_twin():
    for name in ("setup", "execute", "simulate", "teardown", "get_session_state"):
        parameters = list(inspect.signature(getattr(ToolEngine, name)).parameters)
        assert parameters[:2] == ["self", "session_id"]
        assert inspect.iscoroutinefunction(getattr(ToolEngine, f"a{name}"))
        assert list(inspect.signature(getattr(ToolEngine, f"a{name}")).parameters) == parameters
    assert list(inspect.signature(ToolEngine.execute).parameters)[2] == "tool_calls"
    assert list(inspect.signature(ToolEngine.simulate).parameters)[2] == "tool_calls"


def test_setting_up_a_session_twice_is_a_value_error_that_leaves_the_first_alone(engine):
    engine.setup("s")
    engine.execute("s", [BUY])
    with pytest.raises(ValueError, match="'s'") as caught:
        engine.setup("s")
    assert isinstance(caught.value, SessionExistsError)
    assert len(engine.get_session_state("s")["tool_executions"]) == 1


def test_an_unknown_session_is_a_key_error_for_execute_and_simulate_and_none_for_its_state(engine):
    for method in (engine.execute, engine.simulate):
        with pytest.raises(KeyError, match="nobody") as caught:
            method("nobody", [BUY])
        assert isinstance(caught.value, UnknownSessionError)
    assert engine.get_session_state("nobody") is None


def test_teardown_ends_a_session_and_is_safe_on_one_already_removed(engine):
    engine.setup("s")
    engine.teardown("s")
    engine.teardown("s")
    engine.teardown("never there")
    assert engine.get_session_state("s") is None
    with pytest.raises(KeyError):
        engine.execute("s", [BUY])
    engine.setup("s")
    assert engine.get_session_state("s") == {"tool_executions": []}


def test_execute_appends_each_call_with_its_output_and_failures_too(engine):
    engine.setup("s")
    results = engine.execute("s", [BUY, FAIL, ToolCall("shop::nothing"), ToolCall("shop::buy", {"what": 3})])
    codes = [result.error_info.code if result.error_info else None for result in results]
    assert codes == [None, "tool.execution_error", "tool.not_found", "tool.invalid_args"]
    assert (results[0].result, results[0].call_id, results[0].name) == ("one tea", "c1", "shop::buy")
    assert "sold out" in results[1].error
    executions = engine.get_session_state("s")["tool_executions"]
    assert [entry.keys() for entry in executions] == [{"tool_call", "tool_output"}] * 4
    assert [ToolResult.from_dict(entry["tool_output"]) for entry in executions] == results
    assert ToolCall.from_dict(executions[0]["tool_call"]) == BUY


def test_earlier_results_are_visible_to_later_calls_of_the_batch(registry):
    class Looking(ToolEngine):
        def answer(self, invocation):
            return [entry.tool_output.result for entry in invocation.history()]

    engine = Looking(registry)
    engine.setup("s")
    assert [result.result for result in engine.execute("s", [BUY, BUY])] == [[], [[]]]
    assert [result.result for result in engine.simulate("s", [BUY, BUY])] == [[[], [[]]], [[], [[]], [[], [[]]]]]
    assert len(engine.get_session_state("s")["tool_executions"]) == 2


def test_simulate_answers_like_execute_and_leaves_the_session_identical(engine):
    engine.setup("s")
    engine.execute("s", [BUY])
    before = engine.get_session_state("s"), engine.state_hash("s")
    candidates = [[BUY], [FAIL, BUY]]
    simulated = [engine.simulate("s", calls) for calls in candidates]
    assert (engine.get_session_state("s"), engine.state_hash("s")) == before
    assert [engine.execute("s", calls) for calls in candidates] == simulated


def test_the_runtime_usage_of_the_seed_works_as_written(registry):
    task = SimpleNamespace(tool_engine=PythonToolEngine(registry))
    tool_calls = [BUY]

    session_id = str(uuid.uuid4())
    task.tool_engine.setup(session_id)

    try:
        results = task.tool_engine.execute(session_id, tool_calls)  # list[ToolResult]
    finally:
        task.tool_engine.teardown(session_id)

    assert isinstance(results, list) and isinstance(results[0], ToolResult)
    assert task.tool_engine.get_session_state(session_id) is None


def test_many_conversations_run_concurrently_in_a_thread_pool(engine):
    found = {}

    def converse(name):
        engine.setup(name)
        try:
            for _ in range(20):
                engine.execute(name, [BUY])
            found[name] = len(engine.get_session_state(name)["tool_executions"])
        finally:
            engine.teardown(name)

    threads = [threading.Thread(target=converse, args=(f"talk {n}",)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"talk {n}": 20 for n in range(10)}
    assert len(engine.sessions) == 0


def test_a_subclass_that_overrides_only_execute_is_honoured_by_simulate_and_the_a_twins(registry):
    engine = Plain(registry)
    engine.setup("s")

    async def both():
        return await engine.aexecute("s", [BUY]), await engine.asimulate("s", [BUY])

    for results in (engine.execute("s", [BUY]), engine.simulate("s", [BUY]), *asyncio.run(both())):
        assert results == [ToolResult(call_id="c1", name="shop::buy", result={"what": "tea"})]
    engine.close()


def test_a_subclass_with_sessions_of_its_own_keeps_them_through_every_door(registry):
    engine = OwnSessions(registry)

    async def converse():
        await engine.asetup("a")
        results = await engine.aexecute("a", [BUY]) + await engine.asimulate("a", [BUY])
        state = await engine.aget_session_state("a")
        await engine.ateardown("a")
        return [result.result for result in results], state, await engine.aget_session_state("a")

    engine.setup("s")
    assert [engine.execute("s", [BUY])[0].result, engine.simulate("s", [BUY])[0].result] == [1, 2]
    assert engine.get_session_state("s") == {"seen": ["shop::buy"]}
    assert asyncio.run(converse()) == ([1, 2], {"seen": ["shop::buy"]}, None)
    engine.close()


def test_an_execute_that_goes_up_to_the_base_records_when_executing_and_not_when_simulating(registry):
    engine = Above(registry)
    engine.setup("s")
    assert engine.execute("s", [BUY])[0].result == "answered buy"
    before = engine.state_hash("s")
    assert engine.simulate("s", [BUY, FAIL])[1].result == "answered fail"
    assert asyncio.run(engine.asimulate("s", [BUY]))[0].result == "answered buy"
    assert engine.state_hash("s") == before
    asyncio.run(engine.aexecute("s", [BUY]))
    assert engine.passed == [1, 2, 1, 1]
    assert len(engine.get_session_state("s")["tool_executions"]) == 2
    engine.close()


def test_what_is_asked_for_beside_the_calls_reaches_an_execute_that_takes_it(registry):
    class Told(ToolEngine):
        def execute(self, session_id, tool_calls, **options):
            told.append(options)
            return super().execute(session_id, tool_calls, **options)

        def answer(self, invocation):
            return invocation.context.get("who")

    told, engine = [], Told(registry)
    engine.setup("s", owner="ann")
    options = {"timeout": 5.0, "owner": "ann", "context": {"who": "ann"}}
    doors = [engine.execute, engine.simulate]
    results = [door("s", [BUY], **options)[0].result for door in doors]
    results += [asyncio.run(door("s", [BUY], **options))[0].result for door in (engine.aexecute, engine.asimulate)]
    assert results == ["ann"] * 4 and told == [options] * 4
    assert len(engine.get_session_state("s", owner="ann")["tool_executions"]) == 2
    engine.close()


def test_a_subclass_that_overrides_only_the_a_twins_is_honoured_by_the_sync_doors(registry):
    class Later(ToolEngine):
        async def aexecute(self, session_id, tool_calls):
            return [ToolResult(call_id=call.call_id, name=call.name, result="executed") for call in tool_calls]

        async def asimulate(self, session_id, tool_calls):
            return [ToolResult(call_id=call.call_id, name=call.name, result="simulated") for call in tool_calls]

    engine = Later(registry)
    engine.setup("s")
    assert (engine.execute("s", [BUY])[0].result, engine.simulate("s", [BUY])[0].result) == ("executed", "simulated")
    multi = MultiToolEngine(registry, {"shop": engine})
    multi.setup("m")
    assert (multi.execute("m", [BUY])[0].result, multi.simulate("m", [BUY])[0].result) == ("executed", "simulated")
    multi.close()


@pytest.mark.parametrize("kind", [Plain, OwnSessions, Above])
def test_multi_routes_by_namespace_to_engines_of_either_style_in_one_history(registry, kind):
    registry.add(Tool("ask", "desk", effects=Effects.READ))
    multi = MultiToolEngine(registry, {"shop": PythonToolEngine(registry), "desk": kind(registry, **named(kind))})
    multi.setup("s")
    ask = ToolCall("desk::ask", {}, "c2")
    results = multi.execute("s", [BUY, ask, FAIL, BUY])
    assert [result.name for result in results] == ["shop::buy", "desk::ask", "shop::fail", "shop::buy"]
    assert results[0].result == "one tea" and results[1].error is None and results[2].is_error
    before = multi.state_hash("s")
    simulated = multi.simulate("s", [ask, BUY])
    assert [result.error for result in simulated] == [None, None]
    assert multi.state_hash("s") == before
    names = [entry["tool_call"]["name"] for entry in multi.get_session_state("s")["tool_executions"]]
    assert names == ["shop::buy", "desk::ask", "shop::fail", "shop::buy"]

    async def also():
        return await multi.aexecute("s", [ask, BUY])

    assert [result.error for result in asyncio.run(also())] == [None, None]
    multi.teardown("s")
    multi.setup("s")
    multi.close()


def named(kind):
    return {"name": "desk"} if kind is Above else {}


def test_a_namespace_without_an_engine_is_a_result_that_says_so(registry):
    multi = MultiToolEngine(registry, {"desk": PythonToolEngine(registry)})
    multi.setup("s")
    assert multi.execute("s", [BUY])[0].error_info.code == "tool.no_engine"
    multi.close()


def test_engines_are_registered_and_made_by_name(registry):
    name = f"mine {uuid.uuid4()}"

    @register_tool_engine(name)
    class Mine(ToolEngine):
        def __init__(self, registry=None, *, greeting="hello", **settings):
            super().__init__(registry, **settings)
            self.greeting = greeting

        def answer(self, invocation):
            return self.greeting

    engine = get_tool_engine(name, registry=registry, greeting="good day")
    assert type(engine) is Mine and engine.tool_registry is registry
    engine.setup("s")
    assert engine.execute("s", [BUY])[0].result == "good day"
    with pytest.raises(ValueError):
        register_tool_engine(name)(type("Other", (ToolEngine,), {}))
    with pytest.raises(ValueError, match="greeting"):
        get_tool_engine(name, registry=registry, greting="misspelt")


def test_the_built_in_engines_are_found_by_the_seeds_names(registry):
    assert type(get_tool_engine("python", registry=registry)) is PythonToolEngine
    assert type(get_tool_engine("multi", registry=registry, engines={})) is MultiToolEngine
    with pytest.raises(UnknownPluginError, match="python"):
        get_tool_engine("pyton", registry=registry)


def test_an_async_answer_serves_both_doors(registry):
    class Slow(ToolEngine):
        async def answer(self, invocation):
            await asyncio.sleep(0)
            return invocation.arguments["what"]

    engine = Slow(registry)
    engine.setup("s")
    assert engine.execute("s", [BUY])[0].result == "tea"
    assert engine.simulate("s", [BUY])[0].result == "tea"
    assert asyncio.run(engine.aexecute("s", [BUY]))[0].result == "tea"
    engine.close()


class Persona(ToolEngine):
    """Answers with what its session was set up with."""

    def answer(self, invocation):
        return invocation.setup


def told(engine, session_id):
    return engine.execute(session_id, [BUY])[0].result


def test_setup_takes_what_a_subclass_may_want_and_keeps_it_with_the_session_and_its_forks(registry):
    engine = Persona(registry)
    engine.setup("plain")
    engine.setup("s", 1, [2], persona="ann", seed=3)
    asyncio.run(engine.asetup("later", persona="eve"))
    engine.setup("fork", fork_of="s", seed=4)
    assert told(engine, "plain") == {}
    assert told(engine, "s") == {"persona": "ann", "seed": 3}
    assert told(engine, "later") == {"persona": "eve"}
    assert told(engine, "fork") == {"persona": "ann", "seed": 4}
    state = engine.get_session_state("s")
    assert state["setup"] == {"*args": [1, [2]], "persona": "ann", "seed": 3}
    engine.setup("restored", initial_state=state, seed=5)
    assert told(engine, "restored") == {"persona": "ann", "seed": 5}
    engine.close()


def test_what_a_session_was_set_up_with_is_stored_with_it_and_with_its_forks(registry, tmp_path):
    for ask in ("s", "fork"):
        with Persona(registry, sessions=Sessions(SqliteStore(tmp_path / "sessions.db"))) as engine:
            if ask == "s":
                engine.setup("s", persona="ann", seed=3)
                engine.execute("s", [BUY])
                engine.setup("fork", fork_of="s", seed=4)
            assert told(engine, "s")["seed"] == 3
            assert told(engine, "fork") == {"persona": "ann", "seed": 4}


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"initial_stat": {}}, "did you mean 'initial_state'"),
        ({"fork": "s"}, "did you mean 'fork_of'"),
        ({"at": 3}, "'at'"),
        ({"client": object()}, "'client' of setup is not JSON"),
    ],
)
def test_a_keyword_that_cannot_be_kept_or_was_meant_otherwise_begins_no_session(registry, keywords, said):
    with Persona(registry) as engine:
        with pytest.raises(SessionError, match=said):
            engine.setup("s", **keywords)
        assert engine.get_session_state("s") is None


def test_engines_with_sessions_of_their_own_are_set_up_with_the_same(registry):
    class Own(OwnSessions):
        def setup(self, session_id, *args, **kwargs):
            super().setup(session_id)
            given.append((session_id, args, kwargs))

    given = []
    multi = MultiToolEngine({"shop": Own(registry)})
    multi.setup("s", 1, persona="ann")
    multi.setup("fork", fork_of="s")
    assert multi.execute("s", [BUY])[0].result == 1
    assert given == [("s", (1,), {"persona": "ann"}), ("fork", (1,), {"persona": "ann"})]
    multi.close()


def test_multi_is_made_of_namespaces_and_engines_alone():
    shop, desk = ToolRegistry([Tool("buy", "shop"), Tool("ask", "desk")]), ToolRegistry([Tool("ask", "desk")])
    with MultiToolEngine({"shop": Plain(shop), "desk": Above(desk, name="desk")}) as multi:
        assert [tool.qualified_name for tool in multi.tool_registry] == ["shop::buy", "desk::ask"]
        multi.setup("s")
        results = multi.execute("s", [BUY, ToolCall("desk::ask")])
        assert [result.result for result in results] == [{"what": "tea"}, "answered ask"]
    with MultiToolEngine({"shop": Plain(shop), "desk": Above(shop, name="desk")}) as multi:
        assert multi.tool_registry is shop


def test_an_engine_answers_the_namespaces_it_is_for_and_knows_no_others(registry):
    registry.add(Tool("ask", "desk", effects=Effects.READ))
    ask = ToolCall("desk::ask")
    with Persona(registry, namespaces=["desk"]) as engine:
        engine.setup("s")
        for run in (engine.execute, engine.simulate):
            asked, bought = run("s", [ask, BUY])
            assert (asked.error, bought.error_info.code) == (None, "tool.not_found")
        assert list(engine.namespaces) == ["desk"]
    scoped = MultiToolEngine(registry, default=Persona(registry, namespaces=["shop"]))
    scoped.setup("s")
    assert [result.is_error for result in scoped.execute("s", [BUY, ask])] == [False, True]
    scoped.close()
