"""What programs and tools do wrong, and what becomes of it."""

import asyncio

import pytest

from toolyard import DefinitionError, Effects, PythonToolEngine, ToolCall, ToolRegistry, Unavailable, function_tool
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore


def test_what_is_no_call_is_the_programs_mistake_and_leaves_the_session_whole():
    with PythonToolEngine(ToolRegistry([function_tool(lambda: 1, namespace="n", name="one")])) as engine:
        engine.setup("s")
        for wrong in ({"name": "n::one"}, ToolCall("n::one", {}, 5), ToolCall(3), "n::one"):
            for ask in (engine.execute, engine.simulate):
                with pytest.raises(DefinitionError):
                    ask("s", [wrong])
        assert engine.get_session_state("s") == {"tool_executions": []}
        assert engine.execute("s", [ToolCall("n::one")])[0].result == 1


def test_a_sync_tool_that_raises_cancelled_error_has_failed_and_nothing_is_cancelled():
    def odd() -> int:
        raise asyncio.CancelledError

    with PythonToolEngine(ToolRegistry([function_tool(odd, namespace="n")])) as engine:
        engine.setup("s")
        for _ in range(2):
            assert engine.execute("s", [ToolCall("n::odd")])[0].error_info.code == "tool.execution_error"


def test_a_second_try_gets_the_arguments_as_they_were_sent():
    seen = []

    def flaky(items: list[int]) -> int:
        seen.append(list(items))
        items.clear()
        if len(seen) < 2:
            raise Unavailable("not yet")
        return len(seen)

    tool = function_tool(flaky, namespace="n", effects=Effects.READ)
    with PythonToolEngine(ToolRegistry([tool]), retries=2, retry_delay=0) as engine:
        engine.setup("s")
        assert engine.execute("s", [ToolCall("n::flaky", {"items": [1, 2]})])[0].result == 2
    assert seen == [[1, 2], [1, 2]]


@pytest.mark.parametrize("is_stored", [False, True], ids=["memory", "sqlite"])
async def test_whoever_sends_a_write_again_that_is_then_cut_off_is_told_so_and_does_not_run_it_again(
    is_stored, tmp_path
):
    ran, begun = [], asyncio.Event()

    async def pay(amount: int) -> str:
        ran.append(amount)
        begun.set()
        await asyncio.sleep(60)
        return "paid"

    registry = ToolRegistry([function_tool(pay, namespace="n", effects=Effects.WRITE)])
    sessions = Sessions(SqliteStore(tmp_path / "s.db") if is_stored else None)
    with PythonToolEngine(registry, sessions=sessions) as engine:
        engine.setup("s")
        call = [ToolCall("n::pay", {"amount": 5}, "c1")]
        first = asyncio.ensure_future(engine.aexecute("s", call))
        await begun.wait()
        second = asyncio.ensure_future(engine.aexecute("s", call))
        await asyncio.sleep(0.01)
        first.cancel()
        result = (await second)[0]
    assert (result.error_info.code, result.error_info.effect) == ("tool.interrupted", "unknown")
    assert ran == [5]
