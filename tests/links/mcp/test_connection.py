"""Calls for which the server requests input, and the messages that it sends during a call."""

import asyncio
import json
import re
import threading
import time

import pytest
from waiting import SOON, until

from links.fake_server import respond
from links.mcp.conftest import in_seconds, raw_server, text_of
from links.mcp.test_sse import SseServer
from links.mcp.test_streamable import server_at
from links.mcp.web_server import WebServer, event, reply_event, respond_result, stream, text
from toolyard.links.mcp import Handlers
from toolyard.links.mcp.connection import MAX_QUEUED, Notices
from toolyard.loop.home import home_loop, link_loop
from toolyard.model.bindings import McpServer
from toolyard.model.call import LogLine, Progress
from toolyard.model.errors import CallTimeout, Denied, SyncInAsyncError, ToolFailed

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


def test_a_round_that_ends_with_the_deadline_is_told_with_the_seconds_of_the_whole_call(server, links):
    deadline, never = [0.0], threading.Event()

    def late(params):
        until(lambda: time.monotonic() > deadline[0] - 0.2)
        return ACCEPT

    server.calls["ask"] = in_turn(respond_result(ASK), lambda connection, request: never.wait(SOON))
    link = links(server_at(server), Handlers(elicitation=late))
    link.list_tools()
    deadline[0] = in_seconds(1.0)
    with pytest.raises(CallTimeout) as raised:
        link.call("ask", {}, deadline=deadline[0])
    never.set()
    assert float(re.search(r"within (\S+) s", str(raised.value))[1]) > 0.2
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


HUGE = "9" * 400


def said_by(request, *numbers):
    """Progress of a call, as raw as a server may write it."""
    token = request.json["params"]["_meta"]["progressToken"]
    head = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'
    return b"".join(event(f'{head}{token},"progress":{number},"total":{HUGE}}}}}') for number in numbers)


@pytest.fixture(params=["sse", "http"])
def working_server(request):
    """A server whose tool `work` says how far it has got: 1, a number that nothing can hold, and 2."""
    if request.param == "http":
        with WebServer() as web:
            web.calls["work"] = stream(lambda asked: said_by(asked, 1, HUGE, 2), reply_event(text("done")))
            yield server_at(web)
        return
    with SseServer() as sse:

        def work(asked):
            sse.say(said_by(asked, 1, HUGE, 2))
            sse.say({"jsonrpc": "2.0", "id": asked.json["id"], "result": text("done")})

        sse.tools["work"] = work
        yield McpServer(name="sse", url=f"{sse.url}/sse", transport="sse")


def test_progress_with_a_number_too_large_is_dropped(working_server, links):
    link, seen = links(working_server), []
    for _ in range(2):
        assert text_of(link.call("work", {}, notify=seen.append, deadline=in_seconds(20))) == "done"
    assert seen == [Progress(1.0), Progress(2.0)] * 2
    assert link.state == "up"


def test_a_failing_progress_handler_does_not_fail_the_call(working_server, links, caplog):
    def broken(notice):
        raise RuntimeError("user code")

    link = links(working_server)
    for _ in range(2):
        assert text_of(link.call("work", {}, notify=broken, deadline=in_seconds(20))) == "done"
    assert link.state == "up"
    assert "user code" in caplog.text


def test_a_slow_progress_handler_does_not_delay_other_calls(working_server, links):
    link, go_on, began = links(working_server), threading.Event(), threading.Event()
    order = []

    def slow(notice):
        assert not link_loop.is_here()
        began.set()
        assert go_on.wait(SOON)
        order.append(notice.progress)

    def work():
        link.call("work", {}, notify=slow, deadline=in_seconds(30))
        order.append("answered")

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(SOON)
    assert text_of(link.call("echo", {"text": "meanwhile"}, deadline=in_seconds(20))) == "meanwhile"
    go_on.set()
    thread.join(SOON)
    assert order == [1.0, 2.0, "answered"]  # what came before the answer is told before it


def test_a_stuck_progress_handler_delays_the_result_for_a_limited_time(working_server, links):
    link, go_on, seen = links(working_server), threading.Event(), []

    def stuck(notice):
        seen.append(notice.progress)
        go_on.wait(SOON)

    assert text_of(link.call("work", {}, notify=stuck, deadline=in_seconds(1))) == "done"
    go_on.set()
    assert text_of(link.call("echo", {"text": "on"}, deadline=in_seconds(20))) == "on"
    assert seen == [1.0]


async def finish(notices):
    async with notices:
        pass


def test_a_full_queue_drops_the_oldest_notices():
    go_on, seen = threading.Event(), []

    def tell(notice):
        assert go_on.wait(SOON)
        seen.append(notice)

    notices = Notices(tell)
    notices(LogLine("first"))
    until(lambda: not notices._waiting)  # it is being told
    notices(LogLine("dropped"))
    for number in range(MAX_QUEUED + 9):
        notices(Progress(float(number)))
    go_on.set()
    asyncio.run(finish(notices))
    assert seen == [LogLine("first"), *(Progress(float(number)) for number in range(9, MAX_QUEUED + 9))]
    notices(Progress(1.0))  # too late
    for _ in range(MAX_QUEUED + 1):
        notices(LogLine("more"))
    assert len(seen) == 1 + MAX_QUEUED


def test_blocking_on_the_loop_of_links_is_refused():
    async def wait():
        return None

    async def wrong():
        home_loop.run(wait(), twin="the_twin()")

    with pytest.raises(SyncInAsyncError, match=r"loop of links.*the_twin\(\)"):
        link_loop.submit(wrong()).result(SOON)


@pytest.mark.process
def test_frequent_change_notifications_are_combined(links):
    link, heard = links(raw_server("plain")), []
    link.watch(heard.append)
    link.call("echo", {})
    link.call("changes", {}, deadline=in_seconds(30))
    until(lambda: heard.count("changed") >= 2)  # the first at once, and one for all that came after
    assert heard.count("changed") < 50
    assert text_of(link.call("echo", {"text": "on"})) == "on"


@pytest.mark.parametrize("error", [f'{{"code":{HUGE},"message":"no"}}', '"no"'])
def test_an_error_with_an_invalid_code_fails_only_its_call(links, error):
    with WebServer() as web:
        web.calls["odd"] = stream(lambda asked: event(f'{{"jsonrpc":"2.0","id":{asked.json["id"]},"error":{error}}}'))
        link = links(server_at(web))
        with pytest.raises(Exception, match=r"refused the request \(0\): no"):
            link.call("odd", {})
        assert json.loads(json.dumps(link.call("echo", {"text": "on"})))["content"]
