"""OpenAI Agents, the real ones, over their Responses model and an endpoint on this machine."""

from importlib import import_module
from typing import Any

import pytest

from .model_server import ModelServer
from .suite import AdapterSuite
from .yard import CASES, HELD, make_engine

pytestmark = pytest.mark.process
agents = import_module("agents")


@pytest.fixture(autouse=True)
def traces_stay_here() -> None:
    agents.set_trace_processors([])


class TestOpenAIAgents(AdapterSuite):
    name = "openai-agents"

    def make_agent(self, engine: Any, url: str) -> Any:
        from openai import AsyncOpenAI

        adapter = import_module("toolyard.adapters.openai_agents")
        client = AsyncOpenAI(base_url=url, api_key="none")
        model = agents.OpenAIResponsesModel("fake", openai_client=client)
        return agents.Agent(name="clerk", model=model, tools=adapter.make_function_tools(engine))

    async def drive(self, engine: Any, url: str, decision: bool | None = None) -> str | None:
        agent = self.make_agent(engine, url)
        result = await agents.Runner.run(agent, "Go on.")
        if not result.interruptions:
            return None
        [pause] = result.interruptions
        [approval] = engine.approvals.list(state="pending").approvals
        assert pause.raw_item.call_id == approval.call_id
        if decision is not None:
            state = result.to_state()
            (state.approve if decision else state.reject)(pause)
            await agents.Runner.run(agent, state)
        return approval.id

    async def test_a_run_goes_on_in_the_session_of_its_group(self) -> None:
        engine = make_engine()
        for call in (CASES[0].call, CASES[3].call):
            with ModelServer(call) as model:
                agent = self.make_agent(engine, model.url)
                await agents.Runner.run(agent, "Go on.", run_config=agents.RunConfig(group_id="chat-1"))
        assert engine.begun == ["chat-1"]

    async def test_a_held_call_that_nobody_was_asked_about_stays_held(self) -> None:
        from agents.tool_context import ToolContext

        engine = make_engine()
        tools = import_module("toolyard.adapters.openai_agents").make_function_tools(engine)
        refund = next(tool for tool in tools if tool.name == "desk__refund")
        context = ToolContext(None, tool_name=refund.name, tool_call_id="c", tool_arguments="{}")
        assert '"tool.held"' in await refund.on_invoke_tool(context, '{"order": 1042}')
        assert engine.approvals.list().approvals[0].state == "pending"
        assert HELD.call.name == engine.approvals.list().approvals[0].tool
