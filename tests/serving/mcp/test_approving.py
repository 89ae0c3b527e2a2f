"""Held calls over MCP: whoever sits at the client is asked where a rule lets them decide, and else told where to."""

import asyncio
import re
import sys
from contextlib import contextmanager

import pytest
from mcp_rig.sdk_client import connect, describe_process
from msgspec.structs import replace
from waiting import until

from serving.mcp.mcp_support import BOTH, Session, SseClient, Stateless, StreamReader, make_request, read_error
from serving.service_support import served
from toolyard import ConfigError, Effects, function_tool
from toolyard.app.config import read_anything
from toolyard.calls.approval import Approval
from toolyard.serving.mcp.approving import describe_question

PAID = []
FORMS = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


def pay(amount: int) -> int:
    """Pay."""
    PAID.append(amount)
    return amount


@contextmanager
def serve_bank(server=None, sessions=None, **rule):
    PAID.clear()
    config = {"tools": [], "policy": {"rules": [{"ask": "bank::pay", **rule}]}}
    config |= {name: block for name, block in (("server", server), ("sessions", sessions)) if block is not None}
    options = {name: getattr(read_anything(config).server, name) for name in server or ()}
    with served(config, tools=[function_tool(pay, namespace="bank", effects=Effects.WRITE)], **options) as yard:
        yield yard


def answer_with(action, asked, **content):
    from mcp_types import ElicitResult

    async def answer(context, params):
        asked.append(params.message)
        return ElicitResult(action=action, content=content or None)

    return answer


async def call(server, callback, mode):
    async with connect(server, mode=mode, elicitation_callback=callback) as client:
        return await client.call_tool("bank__pay", {"amount": 5})


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
class TestAsked:
    async def test_accepting_runs_the_call_once(self, mode):
        asked = []
        with serve_bank(self=True) as yard:
            result = await call(f"{yard.url}/mcp", answer_with("accept", asked, reason="fine"), mode)
            assert result.structured_content == {"result": 5} and PAID == [5]
            [message] = asked
            assert "bank::pay" in message and '"amount":5' in message and "cannot be predicted" in message
            [record] = yard.service.yard.tool_engine.approvals.list().approvals
            assert (record.state, record.decided_by, record.reason) == ("used", "anonymous", "fine")

    async def test_declining_denies_the_call_and_cancelling_leaves_it_pending(self, mode):
        for action, code, state in (("decline", "tool.denied", "denied"), ("cancel", "tool.held", "pending")):
            with serve_bank(self=True) as yard:
                result = await call(f"{yard.url}/mcp", answer_with(action, []), mode)
                assert result.is_error and read_error(result)["code"] == code
                [record] = yard.service.yard.tool_engine.approvals.list().approvals
                assert record.state == state and PAID == []

    async def test_without_self_in_the_rule_the_caller_is_not_asked(self, mode):
        asked = []
        with serve_bank() as yard:
            result = await call(f"{yard.url}/mcp", answer_with("accept", asked), mode)
            error = read_error(result)
            assert asked == [] and error["code"] == "tool.held" and PAID == []
            assert error["details"]["approval"]["id"] in result.content[0].text

    async def test_a_client_without_elicitation_gets_the_held_result(self, mode):
        with serve_bank(self=True) as yard:
            result = await call(f"{yard.url}/mcp", None, mode)
            assert read_error(result)["code"] == "tool.held" and PAID == []


async def test_a_decision_elsewhere_ends_the_question():
    with serve_bank(self=True) as yard:
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
        with serve_bank(self=True) as yard:
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
    def test_an_answer_to_no_question_decides_nothing(self, state):
        with serve_bank(self=True) as yard:
            answers = {"approval": {"action": "accept"}}
            params = {"name": "bank__pay", "arguments": {"amount": 5}, "requestState": state, "inputResponses": answers}
            result = Stateless(yard).send("tools/call", params, meta=FORMS).json["result"]
            assert read_error(result)["code"] == "tool.held" and PAID == []


@pytest.mark.process
async def test_over_standard_input_and_output_too(tmp_path):
    (tmp_path / "bank.py").write_text(
        "from toolyard import tool\n\n@tool(effects='write')\ndef pay(amount: int) -> int:\n    return amount\n"
    )
    (tmp_path / "yard.yaml").write_text(
        "tools: [{type: python, target: bank.py, namespace: bank}]\npolicy: {rules: [{ask: 'bank::*', self: true}]}\n"
    )
    command = [sys.executable, "-m", "toolyard", "mcp", "-c", str(tmp_path / "yard.yaml")]
    asked = []
    result = await call(describe_process(command), answer_with("accept", asked), "legacy")
    assert result.structured_content == {"result": 5} and len(asked) == 1


def read_held(result):
    """Of a `CallToolResult`: the error of a call that waits, and what a model reads of it."""
    assert read_error(result)["code"] == "tool.held" and PAID == []
    return read_error(result), result["content"][0]["text"]


class TestWhereToDecide:
    def test_a_held_result_names_the_address_that_the_client_reached_the_server_by(self):
        # A rule by which it can be decided over HTTP at all: without keys all who come are one caller.
        with serve_bank(self=True) as yard:
            error, text = read_held(Stateless(yard).call("bank__pay", {"amount": 5}).json["result"])
            approval = error["details"]["approval"]
            assert approval["url"] == f"http://127.0.0.1:{yard.port}/v1/approvals/{approval['id']}"
            assert f"POST {approval['url']}:approve" in text
            assert "approvals approve" not in text  # which finds nothing that is kept in memory
            assert yard.ask("GET", f"/v1/approvals/{approval['id']}").json["state"] == "pending"

    @pytest.mark.parametrize("way", [Stateless, Session, SseClient])
    def test_the_operators_address_goes_before_it_on_every_transport(self, way):
        with serve_bank(server={"public_url": "https://tools.example/yard/"}) as yard:
            client = way(yard)
            if way is SseClient:
                result = client.ask("tools/call", {"name": "bank__pay", "arguments": {"amount": 5}})["result"]
                client.stream.close()
            else:
                result = client.call("bank__pay", {"amount": 5}).json["result"]
            error, text = read_held(result)
            assert error["details"]["approval"]["url"].startswith("https://tools.example/yard/v1/approvals/")
            assert error["details"]["approval"]["url"] in text

    def test_calls_in_a_session_of_the_engine_say_it_too(self):
        with serve_bank(server={"mcp": {"sessions": True}}) as yard:
            client = Stateless(yard)
            opened = client.call("toolyard.session_open").json["result"]["structuredContent"]
            calls = [{"name": "bank::pay", "arguments": {"amount": 5}}]
            arguments = {"session_id": opened["session_id"], "calls": calls}
            done = client.call("toolyard.session_execute", arguments).json["result"]["structuredContent"]
            [result] = done["results"]
            assert result["error_info"]["details"]["approval"]["url"].startswith(f"http://127.0.0.1:{yard.port}/v1/")

    @pytest.mark.parametrize(
        "url",
        [
            *("tools.example", "ftp://tools.example", "https://a.example/?key=x", "https://u:p@h"),
            *("https://a.example/v1", "https://a.example/mcp", "https://a.example/v1/tools/"),
        ],
    )
    def test_an_invalid_public_url_is_a_config_error_with_its_place(self, url):
        with pytest.raises(ConfigError, match=r"server\.public_url: "), serve_bank(server={"public_url": url}):
            pass


class ElicitingClient:
    """A raw client whose user can be asked."""

    def __init__(self, yard):
        told = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
        opened = yard.post("/mcp", make_request("initialize", told, 0), headers=BOTH)
        self.headers = {**BOTH, "mcp-session-id": opened.headers["mcp-session-id"]}

    def call(self, yard):
        body = make_request("tools/call", {"name": "bank__pay", "arguments": {"amount": 5}}, 1)
        return StreamReader(yard, "POST", "/mcp", body, {**self.headers, "mcp-protocol-version": "2025-11-25"})

    def answer(self, yard, number):
        return yard.post("/mcp", accept(number), headers=self.headers)


def accept(number):
    return {"jsonrpc": "2.0", "id": number, "result": {"action": "accept"}}


def test_over_sse_the_question_comes_on_the_stream():
    with serve_bank(self=True) as yard:
        client = SseClient(yard)
        with client.stream:
            client.ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {"elicitation": {}}}, 0)
            client.post(make_request("tools/call", {"name": "bank__pay", "arguments": {"amount": 5}}, 1))
            question = client.stream.wait(2)[1]
            assert question["method"] == "elicitation/create" and "bank::pay" in question["params"]["message"]
            assert PAID == [] and client.post(accept(question["id"])).status == 202
            assert client.answer(1)["result"]["structuredContent"] == {"result": 5} and PAID == [5]


@pytest.mark.parametrize("length", [10, 3700, 3990, 200_000])
def test_a_question_that_is_too_long_says_how_much_of_it_is_not_shown(length):
    approval = Approval(
        **dict.fromkeys(("owner", "caller", "session_id", "definition_hash", "digest", "rule"), "x"),
        id="ab-1",
        tool="mail::send",
        call_id=None,
        rule_number=1,
        approvers=(),
        self_allowed=True,
        arguments={"body": "x" * length, "to": "all@corp.example"},
    )
    message = describe_question(approval)["message"]
    cut = re.search(r"\n([\d,]+) more characters are NOT shown: look at approval ab-1 before you accept$", message)
    assert ("all@corp.example" in message) is (cut is None) is (length < 3990)
    if cut is not None:
        whole = describe_question(replace(approval, arguments={"body": "x" * 10, "to": "all@corp.example"}))["message"]
        shown = len(message[: cut.start()].removesuffix("..."))
        assert shown + int(cut[1].replace(",", "")) == len(whole) + length - 10


class TestOtherWorkers:
    """Workers that share a store: each request of a client may come to another one."""

    @pytest.fixture
    def workers(self, tmp_path):
        store = {"sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
        with serve_bank(self=True, **store) as one, serve_bank(self=True, **store) as two:
            yield one, two

    @pytest.mark.parametrize("answered", [0, 1])
    def test_a_client_of_one_worker_is_asked_by_another_and_may_answer_to_either(self, workers, answered):
        client = ElicitingClient(workers[0])
        with client.call(workers[1]) as stream:
            assert until(lambda: any(each.get("method") == "elicitation/create" for each in stream.messages))
            [question] = [each for each in stream.messages if each.get("method") == "elicitation/create"]
            assert client.answer(workers[answered], question["id"]).status == 202
            assert until(lambda: stream.over)
            assert stream.messages[-1]["result"]["structuredContent"] == {"result": 5} and PAID == [5]

    def test_an_answer_posted_to_another_worker_reaches_the_sse_stream(self, workers):
        one, two = workers
        client = SseClient(one)
        with client.stream:
            client.ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {"elicitation": {}}}, 0)
            client.post(make_request("tools/call", {"name": "bank__pay", "arguments": {"amount": 5}}, 1))
            question = client.stream.wait(2)[1]
            client.found = two
            assert client.post(accept(question["id"])).status == 202
            assert client.answer(1)["result"]["structuredContent"] == {"result": 5}

    def test_an_answer_to_no_question_is_not_stored(self, workers):
        client = ElicitingClient(workers[0])
        for number in ("made up", 7, None):
            assert client.answer(workers[1], number).status == 202
        assert workers[1].service.records.all("mcp_mail") == []

    def test_a_client_that_shows_no_forms_gets_the_held_result_from_every_worker(self, workers):
        session = Session(workers[0])
        session.served = workers[1]
        error, _ = read_held(session.call("bank__pay", {"amount": 5}).json["result"])
        assert error["code"] == "tool.held" and PAID == []
