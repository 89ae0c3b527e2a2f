"""The client with `toolyard serve`: a server that is restarted, and several processes behind one address."""

import json
import os
import signal
import socket
import subprocess
from contextlib import contextmanager

import pytest
from waiting import SOON
from warm_python import warm_toolyard

from toolyard import Tool, ToolCall
from toolyard.client import RemoteToolEngine

pytestmark = pytest.mark.process

CALC = ToolCall("core::calc", {"expression": "6 * 7"})


@pytest.fixture
def config(tmp_path):
    """A yard that keeps its sessions, at a port that stays the same."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = tmp_path / "yard.yaml"
    path.write_text(
        "tools: {registry: [{type: domains, domains: [core]}]}\n"
        f"sessions: {{store: sqlite, path: {tmp_path / 'yard.db'}}}\n"
        f"server: {{port: {port}, log: 'off'}}\n"
    )
    return path


@contextmanager
def serving(config, *options):
    command = ["-m", "toolyard", "serve", str(config), *options]
    with warm_toolyard().start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield process, json.loads(line)["url"]
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(2 * SOON)


def results(engine):
    return [item["tool_output"]["result"] for item in engine.get_session_state("s")["tool_executions"]]


def test_a_program_goes_on_after_its_server_was_killed_and_came_back(config):
    with serving(config) as (process, url):
        engine = RemoteToolEngine(url, retry_delay=0.01)
        engine.setup("s")
        assert engine.execute("s", [CALC])[0].result["value"] == 42
        os.kill(process.pid, signal.SIGKILL)
        process.wait(SOON)
        info = engine.execute("s", [CALC])[0].error_info
        assert (info.code, info.retryable) == ("tool.unavailable", True)
        assert engine.tool_registry.refresh().sources[0].state == "stale"
    with serving(config) as (_, again), engine:
        assert again == url
        assert engine.execute("s", [CALC])[0].result["value"] == 42
        assert len(results(engine)) == 2
        assert engine.tool_registry.refresh().ok


@pytest.mark.soak  # `serving/process/test_workers.py` has the same for plain requests
def test_several_processes_behind_one_address_are_one_server(config):
    with serving(config, "--workers", "3") as (_, url):
        first = RemoteToolEngine(url)
        first.setup("s")
        first.tool_registry.add(Tool("noted", "later", parameters={"type": "object"}))
        for turn in range(12):
            # A connection belongs to one process; a new engine may meet another.
            with RemoteToolEngine(url, retries=5) as engine:
                assert engine.execute("s", [CALC])[0].result["value"] == 42
                assert len(results(engine)) == turn + 1
        first.close()
