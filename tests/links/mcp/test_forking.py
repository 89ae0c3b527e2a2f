"""Forking a process with links: neither side uses or ends the connections of the other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from links.mcp.conftest import SERVERS
from links.mcp.web_server import WebServer
from toolyard.loop import threads
from toolyard.loop.home import HomeLoop

pytestmark = pytest.mark.process

CALLER = Path(__file__).with_name("forked_caller.py")


def run(*args):
    done = subprocess.run([sys.executable, str(CALLER), *args], capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def by(said, who):
    return [item for item in said if item["who"] == who]


@pytest.fixture(scope="module", params=["stdio", "http"])
def said(request):
    if request.param == "stdio":
        return run("stdio", str(SERVERS / "raw_stdio.py"))
    with WebServer(modern=False) as server:
        found = run("http", f"{server.url}/mcp")
        sessions = [message for message in server.sent if message["method"] == "initialize"]
        assert len(sessions) == 2  # the child has its own
        return found


def test_each_side_gets_the_answers_to_its_own_calls(said):
    for who in ("before", "child", "parent", "after"):
        assert by(said, who)
        assert {item["got"] for item in by(said, who)} == {who}


def test_the_child_begins_anew_and_the_parent_keeps_its_server(said):
    (born,) = by(said, "born")
    assert born["state"] == "new"
    before, after = by(said, "before")[0], by(said, "after")[0]
    assert before["pid"] == after["pid"]
    assert not before["pid"] or {item["pid"] for item in by(said, "child")} != {before["pid"]}


def test_the_last_to_give_back_closes_in_the_child_as_well(said):
    assert by(said, "child closed")[0] == {"who": "child closed", "state": "closed", "leases": 0}
    assert by(said, "closed")[0]["state"] == "closed"


def test_a_loop_begins_anew_though_its_lock_was_held_at_the_fork():
    loop = HomeLoop("forked")

    async def answer():
        return 7

    assert loop.run(answer(), twin="x") == 7
    old = loop._loop
    with loop._lock:
        loop.reset_in_child()
        assert loop.run(answer(), twin="x") == 7
    assert loop._loop is not old
    assert old in threads._kept_alive  # it is the parent's; what it holds must not be tidied up here
    threads._kept_alive.remove(old)
    loop.close()
    old.call_soon_threadsafe(old.stop)
