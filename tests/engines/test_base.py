"""`ToolEngine`: sessions on the outside, one method to override on the inside."""

import asyncio

import pytest

from engines.engine_support import SOON, call, results_of
from toolyard.calls.policy import Policy, Rule
from toolyard.engines.base import ToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolResult
from toolyard.model.errors import ConfigError, SessionError, SessionExistsError, SyncInAsyncError, UnknownSessionError
from toolyard.model.tool import Effects, Tool
from toolyard.plugins import ENGINES, get_tool_engine, register_tool_engine
from toolyard.registry import ToolRegistry


def echo_registry(effects=Effects.UNKNOWN):
    return ToolRegistry([Tool("echo", "n", parameters={"type": "object"}, effects=effects)])


class Echo(ToolEngine):
    def answer(self, invocation):
        return invocation.arguments


class AsyncEcho(ToolEngine):
    async def answer(self, invocation):
        await asyncio.sleep(0)
        return invocation.arguments


class Returning(ToolEngine):
    """Sync, but what it returns has to be awaited."""

    def answer(self, invocation):
        async def later():
            return invocation.arguments

        return later()


@pytest.mark.parametrize("kind", [Echo, AsyncEcho, Returning])
async def test_one_method_makes_an_engine_sync_or_async_for_callers_of_both_kinds(kind):
    engine = kind(echo_registry())
    engine.setup("s")
    assert (await asyncio.to_thread(engine.execute, "s", [call("echo", x=1)]))[0].result == {"x": 1}
    assert (await engine.aexecute("s", [call("echo", x=2)]))[0].result == {"x": 2}
    assert (await engine.asimulate("s", [call("echo", x=3)]))[0].result == {"x": 3}
    assert engine.simulate("s", [call("echo", x=3)], timeout=SOON)[0].result == {"x": 3}
    assert results_of(engine) == [{"x": 1}, {"x": 2}]


def test_an_engine_that_overrides_nothing_says_so():
    engine = ToolEngine(echo_registry())
    engine.setup("s")
    result = engine.execute("s", [call("echo")])[0]
    assert (result.error_info.code, result.error_info.hint) == ("tool.no_engine", "override answer(invocation)")


async def test_the_life_of_a_session_in_both_twins():
    engine = Echo(echo_registry())
    await engine.asetup("s")
    with pytest.raises(SessionExistsError):
        engine.setup("s")
    with pytest.raises(ValueError):
        await engine.asetup("s")
    await engine.aexecute("s", [call("echo", x=1)])
    await engine.asetup("fork", fork_of="s")
    assert await engine.astate_hash("fork") == engine.state_hash("s")
    assert await engine.aget_session_state("fork") == engine.get_session_state("s")
    await engine.ateardown("s")
    engine.teardown("s")
    assert engine.get_session_state("s") is None
    assert await engine.aget_session_state("s") is None
    for verb in ("execute", "simulate"):
        with pytest.raises(UnknownSessionError):
            getattr(engine, verb)("s", [])
        with pytest.raises(KeyError):
            await getattr(engine, f"a{verb}")("s", [])
    assert results_of(engine, "fork") == [{"x": 1}]


def test_owners_are_kept_apart_on_every_method():
    engine = Echo(echo_registry())
    engine.setup("s", owner="ann")
    engine.execute("s", [call("echo", x=1)], owner="ann")
    for verb in ("execute", "simulate"):
        with pytest.raises(KeyError):
            getattr(engine, verb)("s", [])
        with pytest.raises(KeyError):
            getattr(engine, verb)("s", [], owner="bob")
    assert engine.get_session_state("s", owner="bob") is None
    engine.teardown("s", owner="bob")
    assert len(engine.get_session_state("s", owner="ann")["tool_executions"]) == 1
    assert engine.state_hash("s", owner="ann")


def test_a_simulation_leaves_the_hash_and_the_state_as_they_were():
    class Counting(ToolEngine):
        def answer(self, invocation):
            invocation.state["n"] = invocation.state.get("n", 0) + 1
            return [invocation.state["n"], len(invocation.history())]

    engine = Counting(echo_registry())
    engine.setup("s")
    engine.execute("s", [call("echo")])
    before = engine.state_hash("s"), engine.get_session_state("s")
    assert [r.result for r in engine.simulate("s", [call("echo")] * 3)] == [[2, 1], [3, 2], [4, 3]]
    assert (engine.state_hash("s"), engine.get_session_state("s")) == before


@pytest.mark.parametrize("name", ["", "tool_executions"])
def test_a_name_that_would_hide_the_history_is_refused(name):
    with pytest.raises(ConfigError, match="cannot be called"):
        Echo(name=name)


def test_a_misspelt_option_is_refused():
    with pytest.raises(TypeError, match="time_out"):
        Echo(time_out=5)


def test_closing_ends_sessions_and_threads_and_can_be_done_twice():
    with Echo(echo_registry()) as engine:
        engine.setup("s")
        engine.execute("s", [call("echo")], timeout=SOON)
    assert engine.get_session_state("s") is None
    engine.close()
    engine.setup("s")
    with pytest.raises(SessionError, match="closed"):
        engine.execute("s", [call("echo")], timeout=SOON)
    assert not engine.sessions.find("s").gate.busy


async def test_an_engine_is_an_async_context_too():
    async with AsyncEcho(echo_registry()) as engine:
        await engine.asetup("s")
        await engine.aexecute("s", [call("echo")])
    assert engine.get_session_state("s") is None


class SeedExecute(ToolEngine):
    """The older style: `execute` is overridden, and may ask the one it overrides."""

    def execute(self, session_id, tool_calls):
        inner = super().execute(session_id, tool_calls)
        return [ToolResult(r.call_id, r.name, {"wrapped": r.result}) for r in inner]

    def answer(self, invocation):
        return invocation.arguments


class SeedAexecute(ToolEngine):
    async def aexecute(self, session_id, tool_calls):
        inner = await super().aexecute(session_id, tool_calls)
        return [ToolResult(r.call_id, r.name, {"wrapped": r.result}) for r in inner]

    def answer(self, invocation):
        return invocation.arguments


@pytest.mark.parametrize("kind", [SeedExecute, SeedAexecute])
async def test_an_engine_that_overrides_execute_is_honoured_by_every_method(kind):
    engine = kind(echo_registry())
    engine.setup("s")
    for verb in ("execute", "simulate"):
        sync = await asyncio.to_thread(getattr(engine, verb), "s", [call("echo", x=1)])
        task = await getattr(engine, f"a{verb}")("s", [call("echo", x=1)])
        assert sync[0].result == task[0].result == {"wrapped": {"x": 1}}
    assert len(engine.get_session_state("s")["tool_executions"]) == 2, "simulations leave no entry"


@pytest.mark.parametrize("kind", [SeedExecute, SeedAexecute])
async def test_a_policy_is_not_given_to_an_execute_that_would_go_past_it(kind):
    strict = Policy([Rule("deny", "*")])
    with pytest.raises(ConfigError, match=r"past the policy; override answer\(invocation\)"):
        kind(echo_registry(), policy=strict)
    assert kind(echo_registry(), policy=Policy()).policy is None, "nothing to go past"

    class Asking(kind):
        executes_by_super = True

    engine = Asking(echo_registry(), policy=strict)
    engine.setup("s")
    await engine.aexecute("s", [call("echo", x=1)])
    [entry] = engine.get_session_state("s")["tool_executions"]
    assert entry["tool_output"]["error_info"]["code"] == "tool.denied"


async def test_the_home_loop_does_not_wait_for_itself():
    engine = AsyncEcho(echo_registry())
    engine.setup("s")
    engine.setup("t")
    seen = []

    class Calling(ToolEngine):
        async def answer(self, invocation):
            try:
                engine.execute("t", [call("echo")])
            except SyncInAsyncError as error:
                seen.append(str(error))
            return (await engine.aexecute("s", [call("echo", x=1)]))[0].result

    outer = Calling(echo_registry())
    outer.setup("s")
    result = (await asyncio.to_thread(outer.execute, "s", [call("echo")]))[0]
    assert result.result == {"x": 1}
    assert "await aexecute" in seen[0]
    assert not engine.sessions.find("t").gate.busy


def test_an_engine_is_registered_and_made_by_name():
    @register_tool_engine("test-echo")
    class Mine(Echo):
        type_name = "test-echo"

    try:
        made = get_tool_engine("test-echo", registry=echo_registry(), timeout=5)
        assert isinstance(made, Mine)
        assert (made.name, made.settings.timeout) == ("test-echo", 5)
        assert get_tool_engine("python").name == "python"
        assert get_tool_engine("multi").name == "multi"
    finally:
        ENGINES._known.pop("test-echo", None)


def test_an_engine_says_what_it_is():
    assert repr(Echo(echo_registry(), name="mine")) == "Echo(name='mine', tools=1)"


def test_an_engine_that_stands_before_another_has_sessions_of_its_own():
    class Logged(ToolEngine):
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            if name == "inner":
                raise AttributeError(name)
            return getattr(self.inner, name)

        def execute(self, session_id, tool_calls, **options):
            return self.inner.execute(session_id, tool_calls, **options)

    with PythonToolEngine(ToolRegistry()) as inner:
        outer = Logged(inner)
        assert outer.sessions is not inner.sessions
        outer.discreet = True
        assert not inner.discreet
