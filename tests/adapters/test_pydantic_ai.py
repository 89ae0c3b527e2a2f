"""Pydantic AI, the real one, over its OpenAI model and an endpoint on this machine."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from .model_server import ModelServer
from .suite import AdapterSuite
from .yard import case_of, make_engine

pytestmark = pytest.mark.process
pydantic_ai = import_module("pydantic_ai")


class TestPydanticAI(AdapterSuite):
    name = "pydantic-ai"
    declines = {"sound": "was not sent: this model cannot read audio files"}

    async def drive(self, engine: Any, url: str, decision: bool | None = None) -> str | None:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        adapter = import_module("toolyard.adapters.pydantic_ai")
        agent = pydantic_ai.Agent(
            OpenAIChatModel("fake", provider=OpenAIProvider(base_url=url, api_key="none")),
            toolsets=[adapter.YardToolset(engine, max_retries=3)],
            output_type=[str, pydantic_ai.DeferredToolRequests],
        )
        result = await agent.run("Go on.")
        if not isinstance(result.output, pydantic_ai.DeferredToolRequests):
            return None
        [call] = result.output.approvals
        if decision is not None:
            answers = pydantic_ai.DeferredToolResults(approvals={call.tool_call_id: decision})
            await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
        return result.output.metadata[call.tool_call_id]["approval"]

    async def test_the_model_may_correct_wrong_arguments_as_often_as_it_may_retry(self) -> None:
        wrong = [replace(case_of("wrong arguments").call, call_id=f"w{number}") for number in range(5)]
        with ModelServer(*wrong) as model, pytest.raises(pydantic_ai.UnexpectedModelBehavior, match="retries"):
            await self.drive(make_engine(), model.url)
        assert len(model.requests) == 4

    async def test_a_terminal_error_costs_no_retries(self) -> None:
        failing = [replace(case_of("error").call, call_id=f"e{number}") for number in range(5)]
        with ModelServer(*failing) as model:
            await self.drive(make_engine(), model.url)
        assert len(model.requests) == 6
