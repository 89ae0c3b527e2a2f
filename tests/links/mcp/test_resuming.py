"""Resuming a stream: a request that the server has received is never sent again; and lost sessions."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import SOON, until

from links.fake_server import respond
from links.mcp.conftest import in_seconds, text_of
from links.mcp.test_streamable import legacy, server_at, works  # noqa: F401 - a fixture
from links.mcp.web_server import WebServer, event, respond_result, respond_rpc_error, stream, text
from toolyard.model.errors import CallTimeout, Interrupted, ToolFailed

BROKEN = event("", number=7, retry=10)


def error(code, message):
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


def called(server, name="pay"):
    return [m for m in server.sent if m["method"] == "tools/call" and m["params"]["name"] == name]


def wait_for_ever(connection, request):
    connection.settimeout(SOON)
    connection.recv(1)
    return False


@pytest.mark.parametrize(
    ("get", "kind"),
    [
        (respond(404), Interrupted),
        (respond(405), ToolFailed),
        (respond(403), ToolFailed),
        (respond(400, error(-32000, "no session")), Interrupted),
        (respond(400, error(-32602, "what?")), ToolFailed),
        (wait_for_ever, CallTimeout),
    ],
    ids=["forgotten", "no stream", "forbidden", "forgotten by text", "refused", "silent"],
)
def test_a_stream_that_cannot_be_taken_up_leaves_the_effect_unknown_and_is_not_sent_again(legacy, links, get, kind):  # noqa: F811
    legacy.calls["pay"] = stream(BROKEN)
    legacy.get = get
    link = links(server_at(legacy))
    link.list_tools()
    if kind is Interrupted:
        legacy.methods["ping"] = get
    with pytest.raises(kind) as raised:
        link.call("pay", {}, deadline=in_seconds(1.5 if kind is CallTimeout else 20))
    assert raised.value.info.effect == "unknown"
    assert len(called(legacy)) == 1
    legacy.get = respond(405)
    assert works(link)


def test_a_lost_stream_of_a_read_only_tool_has_no_effect(legacy, links):  # noqa: F811
    legacy.calls["pay"] = stream(BROKEN)
    legacy.get = respond(404)
    with pytest.raises(Interrupted) as raised:
        links(server_at(legacy)).call("pay", {}, reads=True)
    assert (raised.value.info.effect, raised.value.info.retryable) == ("none", True)


def test_an_error_on_the_resumed_stream_is_passed_on(legacy, links):  # noqa: F811
    ours = {"code": "tool.denied", "message": "no", "retryable": False, "effect": "none"}

    def resumed(connection, request):
        number = called(legacy)[0]["id"]
        error = {"code": -32000, "message": "no", "data": ours}
        stream(event({"jsonrpc": "2.0", "id": number, "error": error}))(connection, request)

    legacy.calls["pay"] = stream(BROKEN)
    legacy.get = resumed
    with pytest.raises(Exception, match="no") as raised:
        links(server_at(legacy)).call("pay", {})
    assert (raised.value.info.code, raised.value.info.effect) == ("tool.denied", "none")


def test_a_server_that_knows_no_ping_keeps_its_session(legacy, links):  # noqa: F811
    legacy.methods["ping"] = respond_rpc_error(-32601, "Method not found", status=400)
    legacy.calls["browse"] = respond_rpc_error(-32602, "what?", status=400)
    link = links(server_at(legacy))
    with pytest.raises(ToolFailed, match="what"):
        link.call("browse", {})
    assert len(called(legacy, "browse")) == 1


@pytest.mark.parametrize("status", [400, 404])
def test_calls_that_learn_late_of_a_lost_session_are_made_again_too(legacy, links, status):  # noqa: F811
    """Calls were sent at the same time; the server has restarted, and one hears of it after the session has ended."""
    link, both = links(server_at(legacy)), threading.Barrier(2)
    link.list_tools()
    legacy.session = "s-2"
    refuse = legacy.methods["ping"] = respond_rpc_error(-32000, "No valid session ID", status=status)

    def answer(connection, request):
        if request.headers["mcp-session-id"] == legacy.session:
            return respond_result(text("on"))(connection, request)
        if both.wait(SOON) == 0:
            until(lambda: [message["method"] for message in legacy.sent].count("initialize") == 2)
        return refuse(connection, request)

    legacy.methods["tools/call"] = answer
    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(works, [link, link]))


@pytest.mark.parametrize(
    ("code", "message"), [(-32602, "no browser session named 'x'"), (-32000, "Session expired"), (-32001, "no session")]
)
def test_a_tool_error_about_sessions_does_not_end_the_session(legacy, links, code, message):  # noqa: F811
    legacy.calls["browse"] = respond_rpc_error(code, message, status=400)
    link = links(server_at(legacy))
    for _ in range(3):
        with pytest.raises(ToolFailed, match=message.partition(" '")[0]):
            link.call("browse", {})
        assert link.state == "up"
    assert len(called(legacy, "browse")) == 3
    assert len([m for m in legacy.sent if m["method"] == "initialize"]) == 1


def test_a_lost_session_is_renewed_once_and_then_the_servers_error_is_passed_on(links):
    with WebServer(modern=False) as server:
        lost = respond_rpc_error(-32000, "Bad Request: No valid session ID provided", status=400)
        server.calls["once"] = server.calls["always"] = lost
        server.methods["ping"] = lost
        link = links(server_at(server))
        with pytest.raises(ToolFailed, match="No valid session ID"):
            link.call("always", {})
        assert len(called(server, "always")) == 2
        del server.methods["ping"], server.calls["once"]
        assert text_of(link.call("once", {"text": "on"})) == "on"
