"""What every wire asks of the engine."""

import asyncio
import time

from toolyard import Tool, function_tool
from toolyard.calls.request import CallRequest
from toolyard.model.call import ToolCall


async def test_calls_without_a_session_have_no_key_that_another_could_share():
    from toolyard import ToolEngine, ToolRegistry

    seen = []

    class Looking(ToolEngine):
        async def answer(self, invocation):
            seen.append(invocation.idempotency_key)

    with Looking(ToolRegistry([Tool("a", "x")])) as engine:
        await engine.arun(CallRequest(calls=[ToolCall("x::a", {}, "call_0")]))
        engine.setup("s")
        await engine.arun(CallRequest(calls=[ToolCall("x::a", {}, "call_0")], session_id="s"))
    assert seen[0] is None and seen[1] is not None


async def test_a_long_batch_gives_way():
    from toolyard import PythonToolEngine, ToolRegistry

    async def busy(n: int) -> int:
        time.sleep(0.002)  # noqa: ASYNC251 - what a tool should not do, and some do
        return n

    with PythonToolEngine(ToolRegistry([function_tool(busy, namespace="w")])) as engine:
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await engine.arun(CallRequest(calls=[ToolCall("w::busy", {"n": n}) for n in range(50)]))
        task.cancel()
    assert turns > 5
