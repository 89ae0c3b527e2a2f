"""Calls for which the server requests input: the deadline covers all rounds."""

import asyncio
import threading

import pytest
from waiting import SOON

from links.fake_server import respond
from links.mcp.conftest import in_seconds, text_of
from links.mcp.test_streamable import server_at
from links.mcp.web_server import WebServer, respond_result, text
from toolyard.links.mcp import Handlers
from toolyard.model.errors import CallTimeout, Denied, ToolFailed

ASK = {"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create", "params": {}}}}
ACCEPT = {"action": "accept", "content": {}}


@pytest.fixture
def server():
    with WebServer() as made:
        yield made


def in_turn(*acts):
    left = list(acts)
    return lambda connection, request: (left.pop(0) if len(left) > 1 else left[0])(connection, request)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_takes_too_long_ends_the_call_in_time_with_effect_unknown(server, links, is_async):
    go_on = threading.Event()

    def slow(params):
        go_on.wait(SOON)
        return ACCEPT

    async def aslow(params):
        await asyncio.to_thread(slow, params)

    server.calls["ask"] = respond_result(ASK)
    link = links(server_at(server), Handlers(elicitation=aslow if is_async else slow))
    link.list_tools()
    # What was left of the half second when it was asked.
    with pytest.raises(CallTimeout, match=r"within 0\.[45]") as raised:
        link.call("ask", {}, deadline=in_seconds(0.5))
    assert raised.value.info.effect == "unknown"
    assert not go_on.is_set()
    assert text_of(link.call("echo", {"text": "on"})) == "on"
    go_on.set()


def test_a_pause_between_rounds_ends_with_the_deadline(server, links):
    server.calls["wait"] = respond_result({"resultType": "input_required", "requestState": "z"})
    link = links(server_at(server))
    link.list_tools()
    with pytest.raises(CallTimeout, match=r"within 0\.[12]") as raised:
        link.call("wait", {}, deadline=in_seconds(0.2))
    assert raised.value.info.effect == "unknown"


@pytest.mark.parametrize("status", [403, 429, 503])
def test_the_effect_of_a_failure_after_the_first_round_is_unknown(server, links, status):
    server.calls["ask"] = in_turn(respond_result(ASK), respond(status))
    with pytest.raises(Exception, match=str(status)) as raised:
        links(server_at(server), Handlers(elicitation=lambda params: ACCEPT)).call("ask", {})
    assert raised.value.info.effect == "unknown"
    assert len([m for m in server.sent if m["method"] == "tools/call"]) == 2


def test_a_handler_that_says_no_leaves_the_effect_unknown(server, links):
    def no(params):
        raise Denied("not today")

    server.calls["ask"] = respond_result(ASK)
    with pytest.raises(Denied, match="not today") as raised:
        links(server_at(server), Handlers(elicitation=no)).call("ask", {})
    assert raised.value.info.effect == "unknown"


def test_rounds_continue_until_the_result(server, links):
    server.calls["ask"] = in_turn(
        respond_result(ASK), respond_result({**ASK, "requestState": "s"}), respond_result(text("done"))
    )
    link = links(server_at(server), Handlers(elicitation=lambda params: ACCEPT), max_rounds=2)
    assert text_of(link.call("ask", {})) == "done"
    sent = [m["params"] for m in server.sent if m["method"] == "tools/call"]
    assert [(p.get("inputResponses"), p.get("requestState")) for p in sent] == [
        (None, None),
        ({"q": ACCEPT}, None),
        ({"q": ACCEPT}, "s"),
    ]
    server.calls["ask"] = respond_result(ASK)
    with pytest.raises(ToolFailed, match="too many times"):
        link.call("ask", {})
