"""`toolyard mcp`: one client over standard input and output, as a real process."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from waiting import SOON, until
from warm_python import warm_toolyard

from serving.mcp.mcp_support import META, make_request

pytestmark = pytest.mark.process

TOOLS = '''
import asyncio, os, subprocess, sys, threading, time
from toolyard import ToolContext, tool

@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

@tool
def loud(text: str) -> str:
    """Prints."""
    print("printed", text)
    os.write(1, b"written to 1\\n")
    subprocess.run(["echo", "echoed", text], check=True)
    return text

@tool
def read_input() -> str:
    """Reads standard input."""
    return sys.stdin.read() + os.read(0, 100).decode()

@tool
async def wait(path: str, ctx: ToolContext) -> str:
    """Waits until there is a file."""
    ctx.report(1, 2)
    ctx.log("waiting")
    open(path + ".begun", "w").close()
    try:
        while not os.path.exists(path):
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        open(path + ".cancelled", "w").close()
        raise
    return "ended"
'''


class Process:
    """The process and what it says, read by a thread."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        self.process = warm_toolyard().start(
            ["-m", "toolyard", "mcp", *arguments],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.messages = []
        self.junk = []
        self.errors = b""
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._drain)]
        for thread in self.threads:
            thread.start()

    def _read(self):
        for line in self.process.stdout:
            try:
                self.messages.append(json.loads(line))
            except ValueError:
                self.junk.append(line)

    def _drain(self):
        for line in self.process.stderr:
            self.errors += line

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, body):
        self.write(json.dumps(body).encode() + b"\n")

    def answer(self, number):
        def found():
            return [each for each in self.messages if each.get("id") == number and "method" not in each]

        assert until(lambda: found() or self.process.poll() is not None)
        assert found(), self.errors
        return found()[-1]

    def ask(self, method, params=None, number=1):
        self.send(make_request(method, params, number))
        return self.answer(number)

    def call(self, name, arguments=None, number=1, **meta):
        params = {"name": name, "arguments": arguments or {}, **({"_meta": meta} if meta else {})}
        return self.ask("tools/call", params, number)

    def told(self, method):
        return [each["params"] for each in self.messages if each.get("method") == method]

    def finish(self):
        """Close its input; its exit code."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(3 * SOON)
        for thread in self.threads:
            thread.join(SOON)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@contextmanager
def started(folder, *arguments):
    (folder / "tools.py").write_text(TOOLS)
    (folder / "yard.yaml").write_text("tools:\n  registry:\n    - {type: python, target: tools.py, namespace: desk}\n")
    process = Process(folder, "yard.yaml", *arguments)
    try:
        yield process
        assert process.junk == []
    finally:
        if process.process.poll() is None:
            process.process.kill()
        process.finish()


def test_a_client_begins_lists_calls_and_leaves(tmp_path):
    with started(tmp_path) as process:
        greeting = process.ask("initialize", {"protocolVersion": "2025-06-18"}, 0)["result"]
        assert greeting["protocolVersion"] == "2025-06-18"
        process.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        names = [tool["name"] for tool in process.ask("tools/list", number=1)["result"]["tools"]]
        assert names == ["desk__add", "desk__loud", "desk__read_input", "desk__wait"]
        assert process.call("desk__add", {"a": 1, "b": 2}, 2)["result"]["structuredContent"] == {"result": 3}
        assert process.call("desk__sub", number=3)["error"]["code"] == -32602
        assert process.ask("ping", number="four")["result"] == {}
        assert process.finish() == 0


def test_both_kinds_of_version_work_on_one_connection(tmp_path):
    with started(tmp_path) as process:
        found = process.ask("server/discover", {"_meta": META}, 1)["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        assert process.call("desk__add", {"a": 1, "b": 2}, 2, **META)["result"]["resultType"] == "complete"
        assert "resultType" not in process.call("desk__add", {"a": 1, "b": 2}, 3)["result"]
        other = {**META, "io.modelcontextprotocol/protocolVersion": "2027-01-01"}
        assert process.ask("tools/list", {"_meta": other}, 4)["error"]["code"] == -32022
        assert process.ask("ping", {"_meta": META}, 5)["error"]["code"] == -32601


def test_what_tools_print_does_not_reach_the_client(tmp_path):
    with started(tmp_path) as process:
        assert process.call("desk__loud", {"text": "hello"})["result"]["structuredContent"] == {"result": "hello"}
        assert until(lambda: b"echoed hello" in process.errors)
        assert process.call("desk__read_input", number=2)["result"]["structuredContent"] == {"result": ""}
        process.finish()
        assert b"printed hello" in process.errors
        assert b"written to 1" in process.errors


@pytest.mark.parametrize(
    "line", [b"{", b"nonsense", b"[]", b"3", b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b"\xff"]
)
def test_a_line_that_is_no_message_is_answered_and_the_next_one_works(tmp_path, line):
    with started(tmp_path) as process:
        process.write(line + b"\n\n  \r\n")
        assert until(lambda: process.messages)
        assert process.messages[0]["error"]["code"] in (-32700, -32600)
        assert process.ask("ping")["result"] == {}
        assert len(process.messages) == 2


def test_a_line_that_is_too_long_is_dropped_as_it_comes(tmp_path):
    with started(tmp_path) as process:
        process.write(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"')
        for _ in range(80):
            process.write(b"x" * 65536)
        process.write(b'"}}\n')
        process.send(make_request("ping", number=2))
        assert process.answer(2)["result"] == {}
        assert process.messages[0]["error"]["code"] == -32600


def test_calls_run_at_once_and_answers_come_as_they_are_ready(tmp_path):
    with started(tmp_path) as process:
        for number in range(3):
            process.send(
                make_request("tools/call", {"name": "desk__wait", "arguments": {"path": f"f{number}"}}, number)
            )
        assert until(lambda: all((tmp_path / f"f{number}.begun").exists() for number in range(3)))
        assert process.call("desk__add", {"a": 1, "b": 2}, 9)["result"]["structuredContent"] == {"result": 3}
        for number in (2, 0, 1):
            (tmp_path / f"f{number}").touch()
            assert process.answer(number)["result"]["structuredContent"] == {"result": "ended"}


def test_a_cancelled_call_stops_and_is_not_answered(tmp_path):
    with started(tmp_path) as process:
        process.send(make_request("tools/call", {"name": "desk__wait", "arguments": {"path": "f"}}, 5))
        assert until((tmp_path / "f.begun").exists)
        process.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        assert until((tmp_path / "f.cancelled").exists)
        assert process.ask("ping", number=6)["result"] == {}
        assert not [each for each in process.messages if each.get("id") == 5]


def test_progress_and_log_lines_come_before_the_answer(tmp_path):
    (tmp_path / "f").touch()
    with started(tmp_path) as process:
        process.call("desk__wait", {"path": "f"}, 1, progressToken="p")
        assert process.told("notifications/progress") == [{"progressToken": "p", "progress": 1, "total": 2}]
        assert [line["data"] for line in process.told("notifications/message")] == ["waiting"]
        process.ask("logging/setLevel", {"level": "error"}, 2)
        process.call("desk__wait", {"path": "f"}, 3)
        assert len(process.told("notifications/message")) == 1


def test_the_end_of_input_waits_for_what_runs(tmp_path):
    with started(tmp_path) as process:
        process.send(make_request("tools/call", {"name": "desk__wait", "arguments": {"path": "f"}}, 5))
        assert until((tmp_path / "f.begun").exists)
        process.process.stdin.close()
        (tmp_path / "f").touch()
        assert process.finish() == 0
        assert process.answer(5)["result"]["structuredContent"] == {"result": "ended"}


def test_calls_that_do_not_end_are_cancelled_at_the_end(tmp_path):
    (tmp_path / "late.yaml").write_text(
        "tools: [{type: python, target: tools.py, namespace: desk}]\nserver: {shutdown_timeout: 0.2}\n"
    )
    (tmp_path / "tools.py").write_text(TOOLS)
    process = Process(tmp_path, "late.yaml")
    process.send(make_request("tools/call", {"name": "desk__wait", "arguments": {"path": "f"}}, 5))
    assert until((tmp_path / "f.begun").exists)
    assert process.finish() == 0
    assert (tmp_path / "f.cancelled").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_gracefully(tmp_path, number):
    with started(tmp_path) as process:
        assert process.ask("ping")["result"] == {}
        process.process.send_signal(number)
        assert process.process.wait(SOON) == 0


def test_a_client_that_is_gone_leaves_no_process(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "toolyard", "mcp", "--domains", "core"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdin.write(json.dumps(make_request("ping")).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"] == {}
    process.stdout.close()
    process.stdin.write(json.dumps(make_request("ping")).encode() + b"\n")
    process.stdin.close()
    assert process.wait(SOON) == 0


def test_the_search_mode_and_sessions_can_be_asked_for(tmp_path):
    with started(tmp_path, "--expose", "search", "--sessions") as process:
        names = [tool["name"] for tool in process.ask("tools/list")["result"]["tools"]]
        assert names[:2] == ["search_tools", "call_tool"]
        assert "toolyard.session_open" in names
        called = process.call("call_tool", {"name": "desk__add", "arguments": {"a": 1, "b": 2}}, 2)
        assert called["result"]["structuredContent"] == {"result": 3}


def test_a_client_is_told_when_the_catalog_changes(tmp_path):
    with started(tmp_path) as process:
        process.ask("initialize", {"protocolVersion": "2025-06-18"}, 0)
        listening = {"notifications": {"toolsListChanged": True}, "_meta": META}
        process.send(make_request("subscriptions/listen", listening, "sub"))
        assert until(lambda: process.told("notifications/subscriptions/acknowledged"))
        (tmp_path / "tools.py").write_text(TOOLS.replace("def add(", "def plus("))
        os.kill(process.process.pid, signal.SIGHUP)
        changed = "notifications/tools/list_changed"
        assert until(lambda: len([each for each in process.messages if each.get("method") == changed]) >= 2)
        names = [tool["name"] for tool in process.ask("tools/list", number=2)["result"]["tools"]]
        assert "desk__plus" in names
        process.process.stdin.close()
        assert process.finish() == 0
        assert process.answer("sub")["result"]["resultType"] == "complete"


def test_input_and_output_may_be_files(tmp_path):
    (tmp_path / "in").write_text(json.dumps(make_request("ping")) + "\n" + json.dumps(make_request("ping", number=2)))
    with (tmp_path / "in").open() as source, (tmp_path / "out").open("wb") as sink:
        command = ["-m", "toolyard", "mcp", "--domains", "core"]
        done = warm_toolyard().run(command, cwd=tmp_path, stdin=source, stdout=sink, timeout=3 * SOON)
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in (tmp_path / "out").read_text().splitlines()] == [1, 2]


def test_input_and_output_may_be_one_socket(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = ["-m", "toolyard", "mcp", "--domains", "core"]
        process = warm_toolyard().start(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
        theirs.close()
        with process, ours.makefile("rb") as answers:
            for number in (1, 2):
                ours.sendall(json.dumps(make_request("ping", number=number)).encode() + b"\n")
                assert json.loads(answers.readline())["id"] == number
            call = make_request("tools/call", {"name": "echo", "arguments": {"text": "x"}}, 3)
            ours.sendall(json.dumps(call).encode())
            ours.shutdown(socket.SHUT_WR)
            assert json.loads(answers.readline())["id"] == 3
            assert answers.read() == b""
            assert process.wait(3 * SOON) == 0


def test_an_invalid_config_is_reported_on_standard_error(tmp_path):
    (tmp_path / "bad.yaml").write_text("tools: []\nserver: {mcp: {expos: all}}\n")
    command = ["-m", "toolyard", "mcp", "bad.yaml"]
    done = warm_toolyard().run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=3 * SOON)
    assert (done.returncode, done.stdout) == (2, "")
    assert "server.mcp: unknown key 'expos'; did you mean 'expose'?" in done.stderr
