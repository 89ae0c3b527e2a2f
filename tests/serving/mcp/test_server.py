"""What goes on beside the requests of MCP clients, and what a tool says to the client of its call."""

import re
import threading

import pytest
from waiting import until

from serving.mcp.mcp_support import Session, SseClient, make_request, read_events, read_result
from serving.service_support import CORE, served
from toolyard import ToolContext, function_tool
from toolyard.model.errors import SessionError


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_a_failing_store_is_reported_until_it_works_again(shared):
    with served(shared) as one, served(shared) as two:
        client = SseClient(one)
        with client.stream:
            records, broken = one.service.records, threading.Event()
            real = records.aversion

            async def aversion(kind):
                if broken.is_set():
                    raise SessionError("the store does not answer")
                return await real(kind)

            records.aversion = aversion
            broken.set()
            assert until(lambda: one.service.failing.get("mcp") == "SessionError")
            client.found = two
            assert client.post(make_request("ping", number=7)).status == 202
            broken.clear()
            assert client.answer(7)["result"] == {}
            assert until(lambda: "mcp" not in one.service.failing)


class InvalidNotice:
    """What cannot even be shown."""

    def __repr__(self):
        raise ValueError("no")


def odd(ctx: ToolContext) -> str:
    """Logs what is no JSON."""
    loop = []
    loop.append(loop)
    for data in (object(), InvalidNotice(), loop, "\ud800", {1, 2}, {"deep": {("a", 1): 2}}):
        ctx.log(data, "warning")
    ctx.log("odd level", ["x"])
    ctx.report("much")
    return "said"


def test_data_that_is_not_json_is_logged_as_its_repr():
    with served(tools=[function_tool(odd, namespace="desk")]) as found:
        params = {"name": "desk__odd", "_meta": {"progressToken": "p"}}
        answer = Session(found).send("tools/call", params)
        assert read_result(answer)["structuredContent"] == {"result": "said"}
        told = [
            each["params"]["data"] for each in read_events(answer.body) if each.get("method") == "notifications/message"
        ]
        assert re.match("<object object", told[0])
        assert told[1] == "<InvalidNotice>"
        assert len(told) >= 6
