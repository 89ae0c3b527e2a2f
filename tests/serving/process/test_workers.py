"""Several processes on one port."""

import json
import os
import re
import signal

import pytest
from waiting import is_alive, until

from serving.process_support import refused, served
from serving.routes.test_events import Stream

pytestmark = pytest.mark.process

TOOLS = """
import os
from toolyard import tool

@tool
def pid() -> int:
    "Who answers."
    return os.getpid()
"""


def write_yard(folder):
    (folder / "who.py").write_text(TOOLS)
    document = {
        "tools": [{"type": "python", "target": "who.py", "namespace": "who"}],
        "sessions": {"store": "sqlite", "path": "s.db"},
        "server": {"shutdown_timeout": 5},
    }
    (folder / "yard.json").write_text(json.dumps(document))
    return folder


@pytest.fixture
def yard(tmp_path):
    return write_yard(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the shared server serves: besides the function, a file."""
    folder = write_yard(tmp_path_factory.mktemp("yard"))
    (folder / "more.yaml").write_text("more: [{name: one}]")
    document = json.loads((folder / "yard.json").read_text())
    document["tools"].append({"type": "file", "path": "more.yaml"})
    (folder / "yard.json").write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """Two workers, for those who do not end them."""
    with served(folder, "yard.json", "--port", "0", "--workers", "2") as found:
        yield found


def who(server):
    status, answer = server.invoke("who::pid")
    assert status == 200, answer
    return answer["result"]["result"]


def test_streams_of_all_workers_tell_of_the_calls_of_all_in_one_order(server):
    # Whichever worker has which: each tells of everything.
    streams = [Stream(server) for _ in range(6)]
    answered = []
    until(lambda: answered.append(who(server)) or (len(set(answered)) == 2 and len(answered) > 5))
    told = [[stream.read("call.ended")[1]["id"] for _ in answered] for stream in streams]
    assert len(set(told[0])) == len(answered) and told == [told[0]] * 6
    for stream in streams:
        stream.close()


def test_a_session_begun_in_one_worker_goes_on_in_the_other(server):
    assert server.ask("/v1/sessions", {"session_id": "s"})[0] == 201
    seen = set()

    def call():
        status, answer = server.ask("/v1/sessions/s/execute", {"calls": [{"name": "who::pid"}]})
        assert status == 200, answer
        seen.add(answer["results"][0]["result"])
        return len(seen) == 2

    until(call)


def test_all_workers_answer_on_one_port_one_that_dies_is_replaced_and_all_end_with_their_parent(yard):
    with served(yard, "yard.json", "--port", "0", "--workers", "2") as server:
        assert server.said["workers"] == 2
        assert server.said["pid"] == server.pid
        seen = set()
        until(lambda: seen.add(who(server)) or len(seen) == 2)
        assert server.pid not in seen
        victim = min(seen)
        os.kill(victim, signal.SIGKILL)
        until(lambda: not is_alive(victim))
        fresh = set()
        until(lambda: fresh.add(who(server)) or len(fresh - {victim}) == 2)
        assert fresh - seen
        code, err = server.stop()
    assert code == 0
    assert err.count("toolyard serves 1 tool") == 1
    assert re.search(rf"worker {victim} ended \(signal 9\); another one is started", err)
    assert not any(map(is_alive, seen | fresh))


def test_workers_whose_parent_was_killed_stop_by_themselves(yard):
    with served(yard, "yard.json", "--port", "0", "--workers", "2") as server:
        seen = set()
        until(lambda: seen.add(who(server)) or len(seen) == 2)
        os.kill(server.pid, signal.SIGKILL)
        assert until(lambda: not any(map(is_alive, seen)))


def test_a_hangup_reaches_every_worker(server, folder):
    assert len(server.ask("/v1/tools")[1]) == 2
    (folder / "more.yaml").write_text("more: [{name: one}, {name: two}]")
    os.kill(server.pid, signal.SIGHUP)
    in_a_row = []

    def everywhere():
        in_a_row.append(len(server.ask("/v1/tools")[1]))
        return in_a_row[-30:] == [3] * 30

    assert until(everywhere)


def test_several_workers_without_a_shared_store_are_refused_with_the_reason(tmp_path):
    code, err = refused(tmp_path, "--port", "0", "--workers", "2")
    assert code == 2
    assert "store: sqlite or store: postgres" in err


def test_what_keeps_workers_from_starting_is_said_once_and_ends_the_parent(yard):
    (yard / "who.py").write_text("this is no Python")
    code, err = refused(yard, "yard.json", "--port", "0", "--workers", "2", "--strict")
    assert code == 1
    assert err.count("who.py") >= 1
    assert err.count("toolyard: ") == 1
