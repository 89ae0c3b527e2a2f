"""Held calls over MCP: whoever sits at the client is asked where a rule lets them decide, and else told where to."""

import asyncio
import sys
from contextlib import contextmanager

import mcp_types
import pytest
from mcp import Client, StdioServerParameters

from serving.mcp.mcp_support import Stateless
from serving.service_support import served
from toolyard import Effects, function_tool

PAID = []
FORMS = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


def pay(amount: int) -> int:
    """Pay."""
    PAID.append(amount)
    return amount


@contextmanager
def bank(**rule):
    PAID.clear()
    config = {"tools": [], "policy": {"rules": [{"ask": "bank::pay", **rule}]}}
    with served(config, tools=[function_tool(pay, namespace="bank", effects=Effects.WRITE)]) as yard:
        yield yard


def person(action, asked, **content):
    async def answer(context, params):
        asked.append(params.message)
        return mcp_types.ElicitResult(action=action, content=content or None)

    return answer


async def call(server, callback, mode):
    async with Client(server, mode=mode, elicitation_callback=callback) as client:
        return await client.call_tool("bank__pay", {"amount": 5})


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
class TestAsked:
    async def test_who_accepts_has_the_call_run_once_with_what_they_saw(self, mode):
        asked = []
        with bank(self=True) as yard:
            result = await call(f"{yard.url}/mcp", person("accept", asked, reason="fine"), mode)
            assert result.structured_content == {"result": 5} and PAID == [5]
            [message] = asked
            assert "bank::pay" in message and '"amount":5' in message and "cannot be foreseen" in message
            [record] = yard.service.yard.tool_engine.approvals.list().approvals
            assert (record.state, record.decided_by, record.reason) == ("used", "anonymous", "fine")

    async def test_who_declines_has_it_denied_and_who_cancels_leaves_it_to_others(self, mode):
        for action, code, state in (("decline", "tool.denied", "denied"), ("cancel", "tool.held", "pending")):
            with bank(self=True) as yard:
                result = await call(f"{yard.url}/mcp", person(action, []), mode)
                assert result.is_error and result.structured_content["error"]["code"] == code
                [record] = yard.service.yard.tool_engine.approvals.list().approvals
                assert record.state == state and PAID == []

    async def test_nobody_is_asked_about_a_call_of_their_own_without_a_rule_that_says_so(self, mode):
        asked = []
        with bank() as yard:
            result = await call(f"{yard.url}/mcp", person("accept", asked), mode)
            error = result.structured_content["error"]
            assert asked == [] and error["code"] == "tool.held" and PAID == []
            assert error["details"]["approval"]["id"] in result.content[0].text

    async def test_a_client_that_shows_no_forms_is_told_where_to_decide(self, mode):
        with bank(self=True) as yard:
            result = await call(f"{yard.url}/mcp", None, mode)
            assert result.structured_content["error"]["code"] == "tool.held" and PAID == []


async def test_a_decision_elsewhere_ends_the_question():
    with bank(self=True) as yard:
        approvals, shown = yard.service.yard.tool_engine.approvals, asyncio.Event()

        async def think(context, params):
            shown.set()
            await asyncio.sleep(60)

        calling = asyncio.create_task(call(f"{yard.url}/mcp", think, "legacy"))
        await shown.wait()
        approvals.approve(approvals.list().approvals[0].id)
        assert (await calling).structured_content == {"result": 5}


class TestInputRequests:
    """On the wire of 2026-07-28."""

    def test_the_same_call_with_the_answer_runs_and_the_state_is_the_approval(self):
        with bank(self=True) as yard:
            first = Stateless(yard).call("bank__pay", {"amount": 5}, meta=FORMS).json["result"]
            assert first["resultType"] == "input_required"
            assert first["inputRequests"]["approval"]["method"] == "elicitation/create"
            answered = {"inputResponses": {"approval": {"action": "accept", "content": {}}}}
            params = {
                "name": "bank__pay",
                "arguments": {"amount": 5},
                "requestState": first["requestState"],
                **answered,
            }
            done = Stateless(yard).send("tools/call", params, meta=FORMS).json["result"]
            assert (done["resultType"], done["structuredContent"]) == ("complete", {"result": 5}) and PAID == [5]

    @pytest.mark.parametrize("state", ["made up", 5, "0" * 24 + "-1", None])
    def test_an_answer_to_what_nobody_asked_decides_nothing(self, state):
        with bank(self=True) as yard:
            answers = {"approval": {"action": "accept"}}
            params = {"name": "bank__pay", "arguments": {"amount": 5}, "requestState": state, "inputResponses": answers}
            result = Stateless(yard).send("tools/call", params, meta=FORMS).json["result"]
            assert result["structuredContent"]["error"]["code"] == "tool.held" and PAID == []


@pytest.mark.process
async def test_over_standard_input_and_output_too(tmp_path):
    (tmp_path / "bank.py").write_text(
        "from toolyard import tool\n\n@tool(effects='write')\ndef pay(amount: int) -> int:\n    return amount\n"
    )
    (tmp_path / "yard.yaml").write_text(
        "tools: [{type: python, target: bank.py, namespace: bank}]\npolicy: {rules: [{ask: 'bank::*', self: true}]}\n"
    )
    arguments = ["-m", "toolyard", "mcp", "-c", str(tmp_path / "yard.yaml")]
    asked = []
    server = StdioServerParameters(command=sys.executable, args=arguments)
    result = await call(server, person("accept", asked), "legacy")
    assert result.structured_content == {"result": 5} and len(asked) == 1
