"""Processes that send too much or end early: the cost is bounded, and the error says why."""

import asyncio
import sys

import pytest
from waiting import until

from links.mcp.conftest import in_seconds, raw_server, text_of
from toolyard.links.mcp.stdio import Child
from toolyard.model.bindings import McpServer
from toolyard.model.errors import Interrupted, Unavailable

pytestmark = pytest.mark.process


def test_a_process_that_sends_requests_and_reads_no_answer_is_ended(links):
    link = links(raw_server("plain"))
    with pytest.raises(Interrupted, match="does not read what it is sent"):
        link.call("ask_on", {}, deadline=in_seconds(60))
    assert text_of(link.call("echo", {"text": "on"}, deadline=in_seconds(60))) == "on"


def test_a_flood_of_notifications_is_slowed_down_and_the_answer_arrives(links):
    link = links(raw_server("plain"))
    assert text_of(link.call("flood", {}, deadline=in_seconds(60))) == "flooded"
    assert link.state == "up"


def test_a_process_that_closes_its_input_is_replaced_before_the_next_call(links):
    link = links(raw_server("plain"))
    assert text_of(link.call("close_input", {})) == "closed"
    assert text_of(link.call("echo", {"text": "on"}, deadline=in_seconds(30))) == "on"


async def test_a_process_that_ended_before_it_was_registered_is_not_waited_for():
    ended = asyncio.Event()

    class Watcher(asyncio.SubprocessProtocol):
        def process_exited(self):
            ended.set()

    transport, _ = await asyncio.get_running_loop().subprocess_exec(Watcher, "true")
    await ended.wait()
    assert Child(transport).exited.is_set()
    transport.close()


@pytest.mark.parametrize("pause", [0, 0.05])
def test_the_stderr_of_a_process_that_dies_at_once_is_in_the_error(links, pause):
    # It closes its pipes before it says why.
    code = (
        "import os, sys, time; sys.stdin.close(); os.close(1); "
        f"time.sleep({pause}); sys.stderr.write('the licence has run out'); sys.exit(4)"
    )
    link = links(McpServer(name="dying", transport="stdio", command=sys.executable, args=("-S", "-c", code)))
    with pytest.raises(Unavailable, match="the licence has run out"):
        link.list_tools(timeout=30)
    until(lambda: "the licence has run out" in (link.error or ""))
