"""What tools say while they run, told to the client whatever it is."""

import re

from serving.mcp.mcp_support import Session, read_events, read_result
from serving.service_support import served
from toolyard import ToolContext, function_tool


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
