"""The one path: every way a call can end is a result, recorded, with the right code and effect."""

import asyncio
import datetime

import pytest
from call_support import SOON, Hung, call, codes, engine_of, executions, registry_of, until

from toolyard.calls.policy import Policy, Rule
from toolyard.engines.base import ToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.errors import CallTimeout, Denied, InvalidOutput, NoEngine, ToolFailed, Unavailable
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.words.redactor import REDACTED, Redactor


def add(x: int, y: int = 1) -> int:
    return x + y


class Raising(ToolEngine):
    """Raises what it was made with."""

    def __init__(self, error, effects=Effects.UNKNOWN):
        super().__init__(ToolRegistry([Tool("a", "n", parameters={"type": "object"}, effects=effects)]))
        self.error = error
        self.setup("s")

    def answer(self, invocation):
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "effect"),
    [
        (ValueError("x"), "tool.execution_error", "unknown"),
        (SystemExit(1), "tool.execution_error", "unknown"),
        (ToolFailed("x"), "tool.execution_error", "unknown"),
        (Unavailable("x"), "tool.unavailable", None),
        (CallTimeout("x"), "tool.timeout", "unknown"),
        (Denied("x"), "tool.denied", "none"),
        (InvalidOutput("x"), "tool.invalid_output", "done"),
        (NoEngine("x"), "tool.no_engine", "none"),
        (ToolFailed("x", effect="done"), "tool.execution_error", "done"),
    ],
)
async def test_whatever_an_engine_raises_is_a_result_with_its_code_and_effect(error, code, effect):
    for verb in ("execute", "aexecute", "simulate", "asimulate"):
        engine = Raising(error)
        results = getattr(engine, verb)("s", [call("a", "id")])
        result = (await results if verb.startswith("a") else results)[0]
        assert (result.error_info.code, result.call_id, result.name) == (code, "id", "n::a")
        assert effect in (None, result.error_info.effect)
        assert result.error == result.error_info.message
        assert len(executions(engine)) == (0 if "simulate" in verb else 1)


def test_a_read_that_fails_has_changed_nothing():
    for error in (ValueError("x"), CallTimeout("x"), ToolFailed("x", effect="done")):
        engine = Raising(error, Effects.READ)
        assert engine.execute("s", [call("a")])[0].error_info.effect == "none"
        assert executions(engine)[0]["tool_output"]["error_info"]["effect"] == "none"


def test_the_callers_mistakes_are_results_and_lose_nobody_elses():
    engine = engine_of(add)
    results = engine.execute(
        "s", [call("add", x=1), call("ad", x=1), call("add", x="no"), ToolCall("n::add", "{"), call("add", x=2)]
    )
    assert [result.result for result in results] == [2, None, None, None, 3]
    assert codes(engine) == [None, "tool.not_found", "tool.invalid_args", "tool.invalid_args", None]
    assert all(result.error_info.effect == "none" for result in results[1:4])
    assert "n::add" in results[1].error_info.hint
    assert results[2].error_info.details["violations"]


@pytest.mark.parametrize(
    "arguments",
    [{"x": float("nan")}, {"x": {1, 2}}, {"x": datetime.date(2026, 1, 1)}, {1: 2}, {"x": object()}, [1], 5, None],
    ids=["nan", "set", "date", "key", "object", "list", "number", "none"],
)
@pytest.mark.parametrize("settings", [{}, {"timeout": 60}], ids=["short", "long"])
def test_arguments_that_are_no_json_are_refused_recorded_and_readable(arguments, settings):
    engine = engine_of(add, **settings)
    assert engine.execute("s", [ToolCall("n::add", arguments)])[0].error_info.code == "tool.invalid_args"
    assert engine.execute("s", [ToolCall("n::none", arguments)])[0].error_info.code == "tool.not_found"
    assert codes(engine) == ["tool.invalid_args", "tool.not_found"]
    engine.setup("t", initial_state=engine.get_session_state("s"))
    assert engine.state_hash("s") == engine.state_hash("t")


def test_a_repair_is_told_and_what_was_sent_is_what_is_recorded():
    engine = engine_of(add)
    result = engine.execute("s", [call("add", x="3")])[0]
    assert result.result == 4
    assert len(result.metadata["coercions"]) == 1
    recorded = executions(engine)[0]
    assert recorded["tool_call"]["arguments"] == {"x": "3"}
    assert recorded["tool_output"]["metadata"] == result.metadata


def test_what_the_policy_refuses_is_recorded_and_never_runs():
    ran = []

    def write():
        ran.append(1)

    engine = engine_of(write, add, policy=Policy([Rule("deny", tools="n::write")]))
    results = engine.execute("s", [call("write"), call("add", x=1)])
    assert codes(engine) == ["tool.denied", None]
    assert (results[0].error_info.effect, results[1].result) == ("none", 2)
    assert not ran


@pytest.mark.parametrize("settings", [{}, {"timeout": 60}], ids=["short", "long"])
def test_secrets_are_hidden_in_all_an_error_says(settings):
    def leak(x: int = 0):
        raise ToolFailed("token hunter22 is wrong", hint="not hunter22", details={"sent": ["hunter22"]})

    engine = engine_of(leak, redactor=Redactor(["hunter22"]), **settings)
    results = engine.execute("s", [call("leak"), call("leak", x="hunter22")])
    for result, item in zip(results, executions(engine), strict=True):
        assert "hunter22" not in str(result)
        assert "hunter22" not in str(item["tool_output"])
    assert REDACTED in results[0].error


def test_results_name_the_call_they_answer():
    engine = engine_of(add)
    pinned = engine.tool_registry.snapshot.names["n::add"][0].tool.fingerprint
    result = engine.execute("s", [ToolCall("n::add", {"x": 1}, "id", pinned)])[0]
    assert (result.call_id, result.name, result.overload) == ("id", "n::add", pinned)
    assert executions(engine)[0]["tool_output"] == result.to_dict()


def test_every_result_is_what_the_session_says_it_was():
    def boom():
        raise ValueError("b")

    engine = engine_of(add, boom, output_check="strict")
    calls = [call("add", "1", x=1), call("add", x="2"), call("boom"), call("gone"), ToolCall("add", {"x": 1})]
    results = engine.execute("s", calls)
    assert [item["tool_output"] for item in executions(engine)] == [result.to_dict() for result in results]


async def test_both_twins_say_the_same():
    def boom():
        raise ValueError("b")

    registry = registry_of(add, boom)
    calls = [call("add", "1", x=1), call("add", x="2"), call("boom"), call("gone"), call("add", x="no")]
    one, two = PythonToolEngine(registry), PythonToolEngine(registry)
    one.setup("s")
    await two.asetup("s")
    assert one.execute("s", calls) == await two.aexecute("s", calls)
    assert one.simulate("s", calls) == await two.asimulate("s", calls)
    assert one.state_hash("s") == await two.astate_hash("s")


async def test_a_cancelled_call_is_recorded_as_interrupted_and_what_was_answered_stays():
    began = asyncio.Event()

    async def wait():
        began.set()
        await asyncio.sleep(SOON)

    engine = engine_of(add, wait)
    task = asyncio.ensure_future(engine.aexecute("s", [call("add", x=1), call("wait"), call("add", x=2)]))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert codes(engine) == [None, "tool.interrupted"]
    assert executions(engine)[1]["tool_output"]["error_info"]["effect"] == "unknown"
    assert engine.execute("s", [call("add", x=5)])[0].result == 6


async def test_a_cancelled_simulation_leaves_nothing():
    began = asyncio.Event()

    async def wait():
        began.set()
        await asyncio.sleep(SOON)

    engine = engine_of(add, wait)
    before = engine.state_hash("s")
    task = asyncio.ensure_future(engine.asimulate("s", [call("add", x=1), call("wait")]))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.state_hash("s") == before
    assert not engine.sessions.find("s").gate.busy


async def test_a_blocking_call_that_is_cancelled_holds_the_session_until_its_thread_ends():
    hung = Hung()

    def hang():
        return hung()

    engine = engine_of(hang, add)
    task = asyncio.ensure_future(engine.aexecute("s", [call("hang")]))
    await asyncio.to_thread(hung.began.wait, SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.sessions.find("s").gate.busy
    assert codes(engine) == ["tool.interrupted"]
    hung.end.set()
    await asyncio.to_thread(until, lambda: not engine.sessions.find("s").gate.busy)
    assert engine.execute("s", [call("add", x=1)])[0].result == 2


def test_a_session_that_is_torn_down_by_its_own_call_answers_and_is_gone():
    holder = []

    def suicide() -> int:
        holder[0].teardown("s")
        return 1

    engine = engine_of(suicide, add)
    holder.append(engine)
    results = engine.execute("s", [call("suicide"), call("add", x=1)])
    assert [result.result for result in results] == [1, 2]
    assert engine.get_session_state("s") is None
    with pytest.raises(KeyError):
        engine.execute("s", [call("add", x=1)])
