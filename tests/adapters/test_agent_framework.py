"""Microsoft Agent Framework, the real one, over its OpenAI client and an endpoint on this machine."""

from importlib import import_module
from typing import Any

import pytest

from .suite import AdapterSuite
from .yard import make_engine

pytestmark = pytest.mark.process
agent_framework = import_module("agent_framework")


class TestAgentFramework(AdapterSuite):
    name = "agent-framework"
    holds_calls = False

    async def drive(self, engine: Any, url: str, decision: bool | None = None) -> str | None:
        from agent_framework.openai import OpenAIChatClient

        adapter = import_module("toolyard.adapters.agent_framework")
        client = OpenAIChatClient(model="fake", base_url=url, api_key="none")
        agent = agent_framework.Agent(client, tools=adapter.make_function_tools(engine))
        session = agent.create_session()
        result = await agent.run("Go on.", session=session)
        if not result.user_input_requests:
            return None
        [pause] = result.user_input_requests
        assert pause.function_call.name == "desk__refund"
        if decision is None:
            return None
        answer = pause.to_function_approval_response(approved=decision)
        await agent.run(agent_framework.Message("user", [answer]), session=session)
        return next((approval.id for approval in engine.approvals.list().approvals), None)


async def test_a_program_that_calls_a_tool_itself_approves_nothing() -> None:
    engine = make_engine()
    tools = import_module("toolyard.adapters.agent_framework").make_function_tools(engine)
    refund = next(tool for tool in tools if tool.name == "desk__refund")
    assert (await refund.invoke(arguments={"order": 1042}, skip_parsing=True))["error_info"]["code"] == "tool.held"
    assert (await refund(order=1042))[0].text.startswith('{"error": {"code": "tool.held"')
    assert [approval.state for approval in engine.approvals.list().approvals] == ["pending"]
