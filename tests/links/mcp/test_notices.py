"""Progress and log messages of a call: delivered outside of the loop of links, and never breaking it."""

import asyncio
import json
import threading

import pytest
from waiting import SOON, until

from links.mcp.conftest import in_seconds, raw_server, text_of
from links.mcp.test_sse import SseServer
from links.mcp.test_streamable import server_at
from links.mcp.web_server import WebServer, event, reply_event, stream, text
from toolyard.links.mcp.notices import MAX_QUEUED, Notices
from toolyard.loop.home import home_loop, link_loop
from toolyard.model.bindings import McpServer
from toolyard.model.call import LogLine, Progress
from toolyard.model.errors import SyncInAsyncError

HUGE = "9" * 400


def said_by(request, *numbers):
    """Progress of a call, as raw as a server may write it."""
    token = request.json["params"]["_meta"]["progressToken"]
    head = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'
    return b"".join(event(f'{head}{token},"progress":{number},"total":{HUGE}}}}}') for number in numbers)


@pytest.fixture(params=["sse", "http"])
def server(request):
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


def test_progress_with_a_number_too_large_is_dropped(server, links):
    link, seen = links(server), []
    for _ in range(2):
        assert text_of(link.call("work", {}, notify=seen.append, deadline=in_seconds(20))) == "done"
    assert seen == [Progress(1.0), Progress(2.0)] * 2
    assert link.state == "up"


def test_a_failing_progress_handler_does_not_fail_the_call(server, links, caplog):
    def broken(notice):
        raise RuntimeError("user code")

    link = links(server)
    for _ in range(2):
        assert text_of(link.call("work", {}, notify=broken, deadline=in_seconds(20))) == "done"
    assert link.state == "up"
    assert "user code" in caplog.text


def test_a_slow_progress_handler_does_not_delay_other_calls(server, links):
    link, go_on, began = links(server), threading.Event(), threading.Event()
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


def test_a_stuck_progress_handler_delays_the_result_for_a_limited_time(server, links):
    link, go_on, seen = links(server), threading.Event(), []

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
