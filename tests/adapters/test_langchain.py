"""LangChain and LangGraph, the real ones, over LangChain's OpenAI model and an endpoint on this machine."""

from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest

from .model_server import ModelServer
from .suite import AdapterSuite, error_in
from .yard import CASES, HELD, answer_of, case_of, make_engine

pytestmark = pytest.mark.process


def make_tools(engine: Any, **options: Any) -> list[Any]:
    tools: list[Any] = import_module("toolyard.adapters.langchain").YardToolkit(engine, **options).get_tools()
    return tools


def make_tool(name: str) -> Any:
    return next(tool for tool in make_tools(make_engine()) if tool.metadata["toolyard"] == name)


class TestLangChain(AdapterSuite):
    name = "langchain"

    def make_agent(self, engine: Any, url: str) -> Any:
        from langchain.agents import create_agent
        from langchain_openai import ChatOpenAI
        from langgraph.checkpoint.memory import InMemorySaver

        model = ChatOpenAI(base_url=url, api_key="none", model="fake", use_responses_api=False)
        return create_agent(model, make_tools(engine), checkpointer=InMemorySaver())

    async def drive(self, engine: Any, url: str, decision: bool | None = None) -> str | None:
        from langgraph.types import Command

        agent = self.make_agent(engine, url)
        config = {"configurable": {"thread_id": uuid4().hex}}
        state = await agent.ainvoke({"messages": [("user", "Go on.")]}, config)
        if "__interrupt__" not in state:
            return None
        [pause] = state["__interrupt__"]
        if decision is not None:
            answer = {"type": "approve"} if decision else {"type": "reject", "message": "not today"}
            await agent.ainvoke(Command(resume={"decisions": [answer]}), config)
        return pause.value["approval"]

    def test_a_graph_in_a_thread_pauses_and_goes_on_too(self) -> None:
        from langgraph.types import Command

        engine, config = make_engine(), {"configurable": {"thread_id": "t"}}
        with ModelServer(HELD.call) as model:
            agent = self.make_agent(engine, model.url)
            [pause] = agent.invoke({"messages": [("user", "Go on.")]}, config)["__interrupt__"]
            agent.invoke(Command(resume=True), config)
        assert pause.value["action_requests"][0]["args"] == HELD.call.arguments
        assert engine.histories() == [[(HELD.call.call_id, "refunded")]]
        assert engine.begun == ["t"]

    async def test_a_refusal_is_recorded_with_its_reason(self) -> None:
        engine = make_engine()
        with ModelServer(HELD.call) as model:
            await self.drive(engine, model.url, False)
            error = error_in(model.read(HELD.call.call_id) or "")["error"]
        [approval] = engine.approvals.list().approvals
        assert (approval.state, approval.reason) == ("denied", "not today")
        assert error["code"] == "tool.denied" and "not today" in error["message"]


def test_outside_a_graph_a_held_call_says_so() -> None:
    said = make_tool("desk::refund").invoke({"order": 1042})
    assert error_in(said)["error"]["code"] == "tool.held"


def test_a_tool_by_itself_gives_the_whole_result_as_artifact() -> None:
    case = case_of("$ref")
    call = {"type": "tool_call", "id": "c1", "name": "x", "args": case.call.arguments}
    message = make_tool(case.call.name).invoke(call)
    assert message.artifact["result"] == answer_of(case).result
    assert (message.tool_call_id, message.artifact["call_id"], message.status) == ("c1", "c1", "success")


def test_an_error_is_a_message_that_says_so() -> None:
    call = {"type": "tool_call", "id": "c1", "name": "x", "args": {}}
    assert make_tool("desk::error").invoke(call).status == "error"


def test_namespaces_choose_the_tools() -> None:
    [only] = make_tools(make_engine(), namespaces=["My API (v2.1)"])
    assert only.metadata == {"toolyard": "My API (v2.1)::get", "effects": "unknown"}
    assert len(make_tools(make_engine())) == len(CASES)
