"""The official SDK's servers, over every transport, in both eras of the protocol."""

import asyncio
import json
import sys
import threading

import pytest

from links.mcp.conftest import SERVERS, in_seconds, text_of, until
from toolyard.links.mcp import Handlers
from toolyard.model.bindings import McpServer
from toolyard.model.context import Progress
from toolyard.model.errors import CallTimeout, Denied

MODERN, LEGACY = "2026-07-28", "2025-11-25"
KINDS = {
    "stdio": (MODERN, None, ""),
    "sse": (LEGACY, ("sse",), "/sse"),
    "http": (MODERN, ("http",), "/mcp"),
    "http json": (MODERN, ("http", "json"), "/mcp"),
    "http old": (LEGACY, ("http", "legacy"), "/mcp"),
    "http old json": (LEGACY, ("http", "legacy", "json"), "/mcp"),
    "http old stateless": (LEGACY, ("http", "legacy", "stateless", "json"), "/mcp"),
}
DEAF = ("http json", "http old stateless")
"""Kinds of this server that do not notice when nobody waits any more; `test_streamable` shows that we hang up."""


@pytest.fixture(params=list(KINDS))
def kind(request):
    return request.param


@pytest.fixture
def server(kind, sdk_server):
    _, args, path = KINDS[kind]
    if args is None:
        script = str(SERVERS / "sdk_server.py")
        return McpServer(name="sdk", transport="stdio", command=sys.executable, args=(script, "stdio"))
    return McpServer(name="sdk", url=sdk_server(*args).url + path)


def test_tools_are_listed_and_called_in_the_newest_protocol_there_is(kind, server, links):
    link = links(server)
    assert [tool["name"] for tool in link.list_tools().tools][:2] == ["echo", "slow"]
    assert text_of(link.call("echo", {"text": "hé"})) == "hé"
    assert link.protocol == KINDS[kind][0]
    assert link.server_info["name"] == "sdk"


def test_progress_comes_where_the_server_has_a_way_to_send_it(kind, server, links):
    seen = []
    links(server).call("progress", {}, notify=seen.append)
    expected = [] if "json" in kind or "stateless" in kind else [Progress(float(n), 3.0, f"step {n}") for n in range(3)]
    assert seen == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "stateless" not in kind])  # that has nobody to tell
def test_a_change_of_the_tools_is_heard(kind, server, links):
    link = links(server)
    heard = []
    link.watch(heard.append)
    link.list_tools()
    # The stream for such things is opened beside the calls.
    assert until(lambda: [link.call("change", {}), "changed" in heard][1])


def test_a_call_past_its_deadline_is_cancelled_at_the_server(kind, server, links):
    link = links(server)
    link.list_tools()
    with pytest.raises(CallTimeout):
        link.call("slow", {"text": "30"}, deadline=in_seconds(0.4))
    if kind not in DEAF:
        until(lambda: json.loads(text_of(link.call("cancelled", {}))) == ["30"])
    assert text_of(link.call("echo", {"text": "on"})) == "on"


async def test_a_cancelled_task_is_cancelled_at_the_server(kind, server, links):
    link = links(server)
    await link.alist_tools()
    task = asyncio.create_task(link.acall("slow", {"text": "30"}))
    await asyncio.sleep(0.4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if kind not in DEAF:
        async with asyncio.timeout(10):
            while json.loads(text_of(await link.acall("cancelled", {}))) != ["30"]:  # noqa: ASYNC110 - it is the server
                await asyncio.sleep(0.05)


def test_slow_calls_run_side_by_side(server, links):
    link = links(server)
    link.list_tools()
    found = []

    def call(number):
        found.append(text_of(link.call("slow", {"text": f"0.{number}"}, deadline=in_seconds(20))))

    threads = [threading.Thread(target=call, args=(number,)) for number in (9, 7, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["0.5", "0.7", "0.9"]


def who(params):
    assert params["message"] == "who?"
    return {"action": "accept", "content": {"name": "Ann"}}


def test_a_question_of_the_server_is_answered_by_the_handler(kind, server, links):
    if "old json" in kind or "stateless" in kind:
        return  # it has no way to ask
    link = links(server, Handlers(elicitation=who))
    state = "s1" if KINDS[kind][0] == MODERN else ""
    assert json.loads(text_of(link.call("ask", {}, deadline=in_seconds(20)))) == [state, {"name": "Ann"}]


def test_a_question_that_nobody_answers_is_a_clean_failure_in_the_new_protocol(sdk_server, links):
    link = links(McpServer(name="sdk", url=sdk_server("http").url + "/mcp"))
    with pytest.raises(Denied, match="asks for 'elicitation/create', which nobody here answers"):
        link.call("ask", {})


@pytest.mark.parametrize(("args", "transport"), [(("http",), "http"), (("sse",), "sse")])
def test_the_transport_is_found_at_a_bare_address(sdk_server, links, args, transport):
    server = sdk_server(*args)
    link = links(McpServer(name="sdk", url=server.url))
    assert text_of(link.call("echo", {"text": "found"})) == "found"
    assert link.protocol == (MODERN if transport == "http" else LEGACY)


@pytest.mark.parametrize("args", [("http",), ("http", "legacy"), ("sse",)])
def test_a_server_that_comes_back_is_found_again(sdk_server, links, args):
    server = sdk_server(*args)
    link = links(McpServer(name="sdk", url=server.url))
    heard = []
    link.watch(heard.append)
    link.list_tools()
    server.stop()
    until(lambda: "down" in heard, 20)
    server.start()
    until(lambda: heard.count("up") == 2, 20)
    assert text_of(link.call("echo", {"text": "again"})) == "again"


@pytest.mark.parametrize("args", [("http",), ("http", "legacy")])
def test_a_server_that_was_restarted_unnoticed_is_greeted_anew_by_the_next_call(sdk_server, links, args):
    server = sdk_server(*args)
    link = links(McpServer(name="sdk", url=server.url + "/mcp"))
    link.list_tools()
    server.stop()
    server.start()
    assert text_of(link.call("echo", {"text": "again"})) == "again"
