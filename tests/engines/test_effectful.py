"""A simulation has no effect: what may have one is answered by something else, and the result says by what."""

import asyncio

import pytest

from toolyard import (
    MultiToolEngine,
    PythonToolEngine,
    ReplayToolEngine,
    Tool,
    ToolCall,
    ToolEngine,
    ToolRegistry,
    ToolResult,
)
from toolyard.calls.batch import CallRequest
from toolyard.model.call import ToolContext
from toolyard.model.errors import DefinitionError, Denied
from toolyard.model.tool import Effects
from toolyard.registry.function_call import simulating
from toolyard.registry.functions import function_tool

SIMULATED = {"simulated_by": "schema simulator"}


class Dreamer:
    """May simulate everything and execute nothing, or only what is in some namespaces."""

    can_list_all = True

    def __init__(self, *namespaces):
        self.namespaces = namespaces

    def can_see(self, tool):
        return True

    can_list = can_see

    def can_call(self, mode, tool):
        return mode == "simulate" or tool.namespace in self.namespaces


class Bank:
    """Tools of each kind, and what they did."""

    def __init__(self):
        self.done = []
        self.engine = None
        kinds = {"read": Effects.READ, "write": Effects.WRITE, "unknown": Effects.UNKNOWN}
        self.registry = ToolRegistry(
            [
                function_tool(function, namespace=namespace, name=f"{name}{suffix}", effects=effects)
                for namespace in ("bank", "shop")
                for name, effects in kinds.items()
                for function, suffix in ((self.act, ""), (self.aact, "_async"))
            ]
        )

    def act(self, amount: int = 1) -> int:
        self.done.append(amount)
        return amount

    async def aact(self, amount: int = 1) -> int:
        self.done.append(amount)
        return amount


@pytest.fixture(params=["python", "multi", "replay", "fork"])
def bank(request, tmp_path):
    bank = Bank()
    engine = PythonToolEngine(bank.registry)
    if request.param == "multi":
        engine = MultiToolEngine(bank.registry, {"bank": engine}, default=PythonToolEngine(bank.registry, name="rest"))
    if request.param == "replay":
        engine = ReplayToolEngine(bank.registry, cassette=tmp_path / "tape.jsonl", mode="auto", engine=engine)
    engine.setup("s")
    if request.param == "fork":
        engine.setup("old")
        engine.teardown("s")
        engine.setup("s", fork_of="old")
    bank.engine = engine
    yield bank
    engine.close()


def calls(*names):
    return [ToolCall(f"bank::{name}{suffix}", {"amount": 7}) for name in names for suffix in ("", "_async")]


@pytest.mark.parametrize("way", ["simulate", "asimulate", "arun in a session", "arun alone"])
def test_what_writes_is_never_run_by_a_simulation_and_the_result_says_who_answered(bank, way):
    batch = calls("write", "read", "unknown")
    if way == "simulate":
        results = bank.engine.simulate("s", batch)
    elif way == "asimulate":
        results = asyncio.run(bank.engine.asimulate("s", batch))
    else:
        session = "s" if "session" in way else None
        results = asyncio.run(bank.engine.arun(CallRequest(calls=batch, session_id=session, mode="simulate")))
    assert [result.metadata for result in results] == [SIMULATED] * 2 + [{}] * 4
    assert all(type(result.result) is int for result in results), "what stands in keeps to the output schema"
    assert bank.done == [7] * 4
    assert bank.engine.get_session_state("s")["tool_executions"] == []


@pytest.mark.parametrize("scope", [Dreamer(), Dreamer("shop")])
def test_what_says_nothing_of_its_effects_is_run_only_for_who_may_also_execute_it(bank, scope):
    batch = [*calls("unknown", "write", "read"), ToolCall("shop::unknown", {"amount": 9})]
    results = asyncio.run(bank.engine.arun(CallRequest(calls=batch, session_id="s", mode="simulate", scope=scope)))
    runs_last = bool(scope.namespaces)
    assert [result.metadata for result in results] == [SIMULATED] * 4 + [{}] * 2 + [{} if runs_last else SIMULATED]
    assert bank.done == [7, 7] + [9] * runs_last


def test_live_opts_back_in_for_who_may_also_execute_alone():
    bank = Bank()
    engine = PythonToolEngine(bank.registry, simulate="live")
    assert [result.metadata for result in simulate(engine, *calls("write"))] == [{}, {}]
    assert bank.done == [7, 7]
    request = CallRequest(calls=calls("write"), mode="simulate", scope=Dreamer())
    assert [result.metadata for result in asyncio.run(engine.arun(request))] == [SIMULATED] * 2
    assert bank.done == [7, 7]


def simulate(engine, *batch):
    engine.setup("s")
    return engine.simulate("s", batch)


def test_what_is_named_to_stand_in_answers_and_may_not_run_it_either():
    class Fake(ToolEngine):
        def answer(self, invocation):
            return 42

    bank = Bank()
    [faked] = simulate(PythonToolEngine(bank.registry, simulate_with=Fake(name="fake")), calls("write")[0])
    assert (faked.result, faked.metadata) == (42, {"simulated_by": "fake"})
    again = PythonToolEngine(bank.registry, name="again")
    [made_up] = simulate(PythonToolEngine(bank.registry, simulate_with=again), calls("write")[0])
    assert made_up.metadata == SIMULATED and bank.done == []


def test_a_tool_that_simulates_itself_is_called_and_told_the_mode():
    told = []

    def pay(amount: int, ctx: ToolContext) -> str:
        told.append(ctx.mode)
        return f"would pay {amount}"

    engine = PythonToolEngine(
        ToolRegistry([function_tool(pay, namespace="bank", effects=Effects.WRITE, simulates=True)])
    )
    [result] = simulate(engine, ToolCall("bank::pay", {"amount": 1}))
    assert (result.result, result.metadata) == ("would pay 1", {"simulated_by": "the tool itself"})
    engine.execute("s", [ToolCall("bank::pay", {"amount": 1})])
    assert told == ["simulate", "execute"]
    with pytest.raises(DefinitionError, match="takes no ctx"):
        function_tool(Bank().act, namespace="bank", simulates=True)


@pytest.mark.parametrize("nested", ["execute", "aexecute", "dispatch", "adispatch", "another engine"])
def test_what_a_simulated_tool_calls_is_simulated_too(nested):
    bank = Bank()
    engine, other = PythonToolEngine(bank.registry), PythonToolEngine(bank.registry)
    other.setup("inner")
    engine.setup("inner")

    def compose() -> dict:
        pay = ToolCall("bank::write", {"amount": 3})
        if nested == "dispatch":
            return {"value": bank.registry.dispatch("bank::write", {"amount": 3})}
        return (other if nested == "another engine" else engine).execute("inner", [pay])[0].to_dict()

    async def acompose() -> dict:
        if nested == "adispatch":
            return {"value": await bank.registry.adispatch("bank::write", {"amount": 3})}
        return (await engine.aexecute("inner", [ToolCall("bank::write_async", {"amount": 3})]))[0].to_dict()

    is_async = nested in ("aexecute", "adispatch")
    bank.registry.add(function_tool(acompose if is_async else compose, namespace="bank", name="compose"))
    engine.setup("s")
    batch = [ToolCall("bank::compose")]
    for [result] in (engine.simulate("s", batch), asyncio.run(engine.asimulate("s", batch))):
        if "dispatch" in nested:
            assert result.error_info.code == "tool.denied"
        else:
            assert result.result["metadata"] == SIMULATED
    assert bank.done == [] and engine.get_session_state("inner")["tool_executions"] == []
    assert engine.execute("s", batch)[0].error is None and bank.done == [3]


def test_a_nested_call_has_no_more_rights_than_the_simulation_it_is_part_of():
    bank = Bank()
    engine = PythonToolEngine(bank.registry)
    engine.setup("inner")

    def report() -> dict:
        return engine.execute("inner", [ToolCall("bank::unknown", {})])[0].to_dict()

    bank.registry.add(function_tool(report, namespace="bank", effects=Effects.READ))
    request = CallRequest(calls=[ToolCall("bank::report")], mode="simulate", scope=Dreamer())
    assert asyncio.run(engine.arun(request))[0].result["metadata"] == SIMULATED
    assert bank.done == []
    with simulating(), pytest.raises(Denied):
        bank.registry.dispatch("bank::write", {})
    assert bank.registry.dispatch("bank::write", {"amount": 2}) == 2


def test_an_engine_that_only_has_an_execute_of_its_own_is_not_asked_to_simulate_what_writes():
    class Older(ToolEngine):
        ran = ()

        def execute(self, session_id, tool_calls):
            self.ran = (*self.ran, *(call.name for call in tool_calls))
            return [ToolResult(call.call_id, call.name, "done") for call in tool_calls]

    registry = ToolRegistry([Tool(effects.value, "n", effects=effects) for effects in Effects])
    batch = [ToolCall(f"n::{effects.value}", {}, effects.value) for effects in Effects]
    expected = {"read": None, "write": "tool.denied", "unknown": None}

    def codes(results):
        return {result.call_id: result.error_info and result.error_info.code for result in results}

    engine = Older(registry)
    assert codes(simulate(engine, *batch)) == codes(asyncio.run(engine.asimulate("s", batch))) == expected
    request = CallRequest(calls=batch, session_id="s", mode="simulate", scope=Dreamer())
    assert codes(asyncio.run(engine.arun(request))) == {**expected, "unknown": "tool.denied"}
    inner = Older(registry)
    assert codes(simulate(MultiToolEngine(registry, {"n": inner}), *batch)) == expected
    assert "n::write" not in {*engine.ran, *inner.ran}
