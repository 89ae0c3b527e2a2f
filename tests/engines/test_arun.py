"""`arun`: the engine's door for the other side of a wire."""

import asyncio
import threading

import pytest

from engines.engine_support import SOON, call, registry_of
from toolyard import (
    MultiToolEngine,
    PythonToolEngine,
    ToolCall,
    ToolContext,
    ToolEngine,
    ToolRegistry,
    ToolResult,
    function_tool,
)
from toolyard.calls.batch import CallRequest
from toolyard.model.errors import DefinitionError, UnknownSessionError
from toolyard.tools.core import load_tools

RAN = []


def note(word: str) -> str:
    """Write it down."""
    RAN.append(word)
    return word


async def slow(word: str) -> str:
    """Take its time."""
    RAN.append("begun")
    await asyncio.sleep(0.05)
    RAN.remove("begun")
    RAN.append(word)
    return word


def told(ctx: ToolContext) -> dict:
    """What came along."""
    return {
        "context": dict(ctx.context),
        "trace": dict(ctx.trace),
        "session": ctx.session_id,
        "call": ctx.call_id,
    }


class Nothing:
    """A scope without anything in it."""

    can_list_all = False

    def can_see(self, tool):
        return False

    can_list = can_see

    def can_call(self, mode, tool):
        return False


class Older(ToolEngine):
    """Overrides `execute` itself."""

    type_name = "older"

    def execute(self, session_id, tool_calls):
        return [ToolResult(each.call_id, each.name, f"older {note(each.arguments['word'])}") for each in tool_calls]


@pytest.fixture
def engine():
    RAN.clear()
    with PythonToolEngine(registry_of(note, slow, told)) as made:
        yield made


async def test_calls_without_a_session_are_answered_in_order_and_kept_nowhere(engine):
    results = await engine.arun(CallRequest(calls=[call("note", "c1", word="a"), call("nope", "c2")]))
    assert [result.call_id for result in results] == ["c1", "c2"]
    assert results[0].result == "a" and results[1].error_info.code == "tool.not_found"
    assert len(engine.sessions) == 0


async def test_calls_in_a_session_are_kept_in_it(engine):
    engine.setup("s")
    await engine.arun(CallRequest(calls=[call("note", word="a")], session_id="s"))
    assert len(engine.get_session_state("s")["tool_executions"]) == 1
    await engine.arun(CallRequest(calls=[call("note", word="a")], session_id="s", mode="simulate"))
    assert len(engine.get_session_state("s")["tool_executions"]) == 1


async def test_context_and_trace_reach_the_tool_in_and_out_of_a_session(engine):
    engine.setup("s")
    for session in (None, "s"):
        request = CallRequest(calls=[call("told", "c1")], session_id=session, context={"a": 1}, trace={"b": 2})
        [result] = await engine.arun(request)
        assert result.result == {"context": {"a": 1}, "trace": {"b": 2}, "session": session, "call": "c1"}


async def test_a_session_of_another_owner_is_unknown(engine):
    engine.setup("s", owner="me")
    with pytest.raises(UnknownSessionError):
        await engine.arun(CallRequest(calls=[call("note", word="a")], session_id="s"))
    with pytest.raises(UnknownSessionError):
        await engine.arun(CallRequest(calls=[call("note", word="a")], session_id="s", owner="you"))
    [result] = await engine.arun(CallRequest(calls=[call("note", word="a")], session_id="s", owner="me"))
    assert result.result == "a"


async def test_each_call_has_the_requests_time(engine):
    [late] = await engine.arun(CallRequest(calls=[call("slow", word="late")], timeout=0.01))
    assert late.error_info.code == "tool.timeout"
    [fine] = await engine.arun(CallRequest(calls=[call("slow", word="fine")], timeout=SOON))
    assert fine.result == "fine"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "5", True])
async def test_a_timeout_that_is_none_is_the_callers_mistake(engine, timeout):  # noqa: ASYNC109
    with pytest.raises(DefinitionError, match="timeout"):
        await engine.arun(CallRequest(calls=[call("note", word="a")], timeout=timeout))
    assert RAN == []


async def test_concurrent_duplicates_in_a_session_run_once(engine):
    engine.setup("s")
    request = CallRequest(calls=[call("slow", "c1", word="once")], session_id="s", replay=True)
    answers = await asyncio.gather(*(engine.arun(request) for _ in range(10)))
    assert RAN == ["once"]
    assert {result.result for [result] in answers} == {"once"}
    assert len(engine.get_session_state("s")["tool_executions"]) == 1


async def test_concurrent_calls_with_one_id_that_differ_are_a_conflict_for_all_but_one(engine):
    engine.setup("s")
    requests = [
        CallRequest(calls=[call("slow", "c1", word=word)], session_id="s", replay=True) for word in ("a", "b", "c")
    ]
    answers = [result for [result] in await asyncio.gather(*map(engine.arun, requests))]
    assert len(RAN) == 1
    assert sorted(result.error_info.code if result.is_error else "ok" for result in answers) == [
        *("call.conflict", "call.conflict", "ok"),
    ]


class Wrapping(PythonToolEngine):
    """Overrides `execute`, and ends in ours."""

    executes_by_super = True

    def execute(self, session_id, tool_calls, **options):
        return super().execute(session_id, tool_calls, **options)


async def test_duplicates_run_once_by_way_of_an_engine_that_wraps_execute_too():
    RAN.clear()
    with Wrapping(registry_of(note, slow)) as engine:
        engine.setup("s")
        engine.setup("own")
        request = CallRequest(calls=[call("slow", "c1", word="once")], session_id="s", replay=True)
        answers = await asyncio.gather(*(engine.arun(request) for _ in range(3)))
        assert {result.result for [result] in [*answers, await engine.arun(request)]} == {"once"}
        assert RAN.count("once") == 1
        for _ in range(2):
            await engine.aexecute("own", [call("note", "c1", word="twice")])
        assert RAN.count("twice") == 2


async def test_calls_outside_of_sessions_do_not_wait_for_each_other(engine):
    async with asyncio.timeout(SOON):
        await asyncio.gather(*(engine.arun(CallRequest(calls=[call("slow", "c1", word=str(n))])) for n in range(50)))
    assert len(RAN) == 50


async def test_a_cancelled_request_is_recorded_as_interrupted(engine):
    engine.setup("s")
    request = CallRequest(calls=[call("note", "c1", word="a"), call("slow", "c2", word="b")], session_id="s")
    task = asyncio.create_task(engine.arun(request))
    while "begun" not in RAN:  # noqa: ASYNC110 - an event would have to belong to this test's loop
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    outputs = [entry["tool_output"] for entry in engine.get_session_state("s")["tool_executions"]]
    assert outputs[0]["result"] == "a"
    assert outputs[1]["error_info"]["code"] == "tool.interrupted"
    request = CallRequest(calls=[call("slow", "c2", word="b")], session_id="s", replay=True)
    [again] = await engine.arun(request)
    assert again.error_info.code == "tool.interrupted", "what may have taken effect is not run again unasked"


@pytest.mark.parametrize("session", [None, "s"])
async def test_an_engine_in_the_older_style_is_bound_by_scope_and_definitions_too(session):
    RAN.clear()
    with Older(registry_of(note)) as engine:
        engine.setup("s")
        calls = [call("note", "c1", word="a")]
        [hidden] = await engine.arun(CallRequest(calls=calls, session_id=session, scope=Nothing()))
        assert (hidden.call_id, hidden.error_info.code) == ("c1", "tool.not_found")
        [stale] = await engine.arun(CallRequest(calls=calls, session_id=session, definitions=frozenset()))
        assert stale.error_info.code == "catalog.stale"
        assert RAN == []
        [tool] = engine.tool_registry.get("n::note")
        known = frozenset({tool.definition_hash})
        mixed = [*calls, ToolCall("n::nope", {}, "c2"), call("note", "c3", word="b")]
        results = await engine.arun(CallRequest(calls=mixed, session_id=session, definitions=known))
        assert [result.call_id for result in results] == ["c1", "c2", "c3"]
        assert [result.result for result in results] == ["older a", None, "older b"]


async def test_an_older_engine_among_others_answers_calls_without_a_session():
    RAN.clear()
    registry = registry_of(note, namespace="old")
    registry.add(*registry_of(note, namespace="new").all_tools())
    old, new = Older(registry), PythonToolEngine(registry)
    with MultiToolEngine(registry, engines={"old": old, "new": new}) as engine:
        calls = [ToolCall("old::note", {"word": "a"}), ToolCall("new::note", {"word": "b"})]
        results = await engine.arun(CallRequest(calls=calls))
        assert [result.result for result in results] == ["older a", "b"]
        assert len(engine.sessions) == 0
        [hidden] = await engine.arun(CallRequest(calls=calls[:1], scope=Nothing()))
        assert hidden.error_info.code == "tool.not_found"


async def test_something_that_is_no_call_is_the_programs_mistake(engine):
    with pytest.raises(DefinitionError):
        await engine.arun(CallRequest(calls=[{"name": "n::note"}]))


@pytest.mark.parametrize(
    "asked",
    [
        ToolCall("core::echo", {"text": "hi"}),
        ToolCall("core::echo", {"text": "hi"}, "c1"),
        ToolCall("core::echo", {"text": 5}),
        ToolCall("core::echo", {}),
        ToolCall("core::echo", {"text": "a", "more": 1}),
        ToolCall("core::echo", '{"text": "hi"}'),
        ToolCall("core::echo", "{"),
        ToolCall("core::calc", {"expression": "19*23"}),
        ToolCall("core::calc", {"expression": "1/0"}),
        ToolCall("core::calc", {"expression": "9" * 999 + "*9"}),
        ToolCall("echo", {"text": "bare"}),
        ToolCall("core::nope", {}),
        ToolCall("core::echo", {"text": "hi"}, None, "ffff"),
    ],
    ids=str,
)
async def test_a_call_by_itself_gives_the_same_with_a_deadline_and_without(asked):
    tools = load_tools()
    with PythonToolEngine(ToolRegistry(tools)) as short, PythonToolEngine(ToolRegistry(tools), timeout=60) as long:
        request = CallRequest(calls=[asked])
        assert await short.arun(request) == await long.arun(request)
        assert await short.arun(request) == await long.arun(request), "nothing of the first is left"


async def test_a_call_by_itself_of_a_tool_that_may_block_runs_in_a_thread():
    ran_in = []

    def blocking() -> None:
        ran_in.append(threading.current_thread())

    with PythonToolEngine(ToolRegistry([function_tool(blocking, namespace="w")])) as engine:
        await engine.arun(CallRequest(calls=[ToolCall("w::blocking")]))
    assert ran_in[0] is not threading.current_thread()
