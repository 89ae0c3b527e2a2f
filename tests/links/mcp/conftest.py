"""Servers for the tests of MCP links: real processes and real ports."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolyard.links.mcp import Handlers, LinkLimits, McpLink
from toolyard.model.bindings import McpServer

SERVERS = Path(__file__).parent / "servers"
SECRET = "s3cr3t-value-of-the-key"


def until(condition, seconds=10.0):
    """Wait for something that is to happen soon."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return True


def in_seconds(seconds):
    """A deadline."""
    return time.monotonic() + seconds


def is_alive(pid):
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def text_of(result):
    return result["content"][0]["text"]


def raw_server(mode, **options):
    """The server of one file, in one of its modes."""
    args = (str(SERVERS / "raw_stdio.py"), mode)
    return McpServer(name=f"stdio: {mode}", transport="stdio", command=sys.executable, args=args, **options)


@pytest.fixture
def links():
    """Makes links, and closes them."""
    made = []

    def make(server, handlers=None, **limits):
        link = McpLink(server, limits=LinkLimits(**limits), handlers=handlers or Handlers())
        made.append(link)
        return link

    yield make
    for link in made:
        link.close()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class SdkServer:
    """The official SDK's server in a process of its own."""

    def __init__(self, *args):
        self.port = free_port()
        self.args = args
        self.process = None
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        command = [sys.executable, str(SERVERS / "sdk_server.py"), self.args[0], str(self.port), *self.args[1:]]
        self.process = subprocess.Popen(command, env={**os.environ, "PYTHONWARNINGS": "ignore"})
        until(self._listens, 30)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def _listens(self):
        assert self.process.poll() is None, "the server did not start"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def sdk_server():
    """Starts SDK servers, and ends them."""
    started = []

    def start(*args):
        started.append(SdkServer(*args))
        return started[-1]

    yield start
    for server in started:
        server.stop()
