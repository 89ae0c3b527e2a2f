"""The official SDK's servers, over every transport, in both eras of the protocol."""

import asyncio
import json
import sys
import threading

import pytest
from waiting import SOON, until

from links.mcp.conftest import SERVERS, SdkServer, in_seconds, text_of
from toolyard.links.mcp import Handlers, LinkLimits, McpLink
from toolyard.model.bindings import McpServer
from toolyard.model.call import Progress
from toolyard.model.errors import CallTimeout, Denied

pytestmark = pytest.mark.process

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


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request):
    return request.param


def who(params):
    assert params["message"] == "who?"
    return {"action": "accept", "content": {"name": "Ann"}}


@pytest.fixture(scope="module")
def link(kind, sdk_servers):
    """One link to one server of each kind: the tests of a kind follow each other there."""
    _, args, path = KINDS[kind]
    if args is None:
        command = (str(SERVERS / "sdk_server.py"), "stdio")
        server, place = None, McpServer(name="sdk", transport="stdio", command=sys.executable, args=command)
    else:
        server = SdkServer(sdk_servers, *args)
        place = McpServer(name="sdk", url=server.url + path)
    found = McpLink(place, limits=LinkLimits(connect_seconds=SOON), handlers=Handlers(elicitation=who))
    yield found
    found.close()
    if server is not None:
        server.stop()


def test_tools_are_listed_and_called_in_the_newest_protocol_there_is(kind, link):
    assert [tool["name"] for tool in link.list_tools().tools][:2] == ["echo", "slow"]
    assert text_of(link.call("echo", {"text": "hé"})) == "hé"
    assert link.protocol == KINDS[kind][0]


def test_progress_comes_where_the_server_has_a_way_to_send_it(kind, link):
    seen = []
    link.call("progress", {}, notify=seen.append)
    expected = [] if "json" in kind or "stateless" in kind else [Progress(float(n), 3.0, f"step {n}") for n in range(3)]
    assert seen == expected


# A stateless one has nobody to tell.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "stateless" not in kind], indirect=True)
def test_a_change_of_the_tools_is_heard(kind, link):
    heard = []
    link.watch(heard.append)
    link.list_tools()
    # The stream for such things is opened beside the calls.
    assert until(lambda: [link.call("change", {}), "changed" in heard][1])


def test_a_call_past_its_deadline_is_cancelled_at_the_server(kind, link):
    link.list_tools()
    with pytest.raises(CallTimeout):
        link.call("slow", {"text": "600"}, deadline=in_seconds(0.4))
    if kind not in DEAF:
        until(lambda: "600" in json.loads(text_of(link.call("cancelled", {}))))
    assert text_of(link.call("echo", {"text": "on"})) == "on"


async def test_a_cancelled_task_is_cancelled_at_the_server(kind, link):
    await link.alist_tools()
    task = asyncio.create_task(link.acall("slow", {"text": "601"}))
    while "601" not in json.loads(text_of(await link.acall("begun", {}))):  # noqa: ASYNC110 - it is the server
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if kind not in DEAF:
        async with asyncio.timeout(SOON):
            while "601" not in json.loads(text_of(await link.acall("cancelled", {}))):  # noqa: ASYNC110 - it is the server
                await asyncio.sleep(0.05)


def test_slow_calls_run_side_by_side(link):
    found = []

    def call(name):
        found.append(text_of(link.call("hold", {"text": name}, deadline=in_seconds(SOON))))

    threads = {name: threading.Thread(target=call, args=(name,)) for name in ("first", "second", "third")}
    for thread in threads.values():
        thread.start()
    until(lambda: threads.keys() <= set(json.loads(text_of(link.call("begun", {})))))
    for name in reversed(threads):
        link.call("release", {"text": name})
        threads[name].join(SOON)
    assert found == ["third", "second", "first"]


def test_a_question_of_the_server_is_answered_by_the_handler(kind, link):
    if "old json" in kind or "stateless" in kind:
        return  # it has no way to ask
    state = "s1" if KINDS[kind][0] == MODERN else ""
    assert json.loads(text_of(link.call("ask", {}, deadline=in_seconds(SOON)))) == [state, {"name": "Ann"}]


def test_a_question_that_nobody_answers_is_a_clean_failure_in_the_new_protocol(sdk_server, links):
    link = links(McpServer(name="sdk", url=sdk_server("http").url + "/mcp"))
    with pytest.raises(Denied, match="asks for 'elicitation/create', which has no handler here"):
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
    until(lambda: "down" in heard)
    server.start()
    until(lambda: heard.count("up") == 2)
    assert text_of(link.call("echo", {"text": "again"})) == "again"


@pytest.mark.parametrize("args", [("http",), ("http", "legacy")])
def test_a_server_that_was_restarted_unnoticed_is_greeted_anew_by_the_next_call(sdk_server, links, args):
    server = sdk_server(*args)
    link = links(McpServer(name="sdk", url=server.url + "/mcp"))
    link.list_tools()
    server.stop()
    server.start()
    assert text_of(link.call("echo", {"text": "again"})) == "again"
