"""Servers for tests of MCP links: real processes and ports."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import is_alive, until

from toolyard.links.mcp import Handlers, LinkLimits, McpLink
from toolyard.model.bindings import McpServer

SERVERS = Path(__file__).parent / "servers"
SECRET = "s3cr3t-value-of-the-key"


def in_seconds(seconds):
    """A deadline."""
    return time.monotonic() + seconds


def text_of(result):
    return result["content"][0]["text"]


def raw_server(mode, **options):
    """The command of `raw_stdio.py` in one of its modes."""
    args = (str(SERVERS / "raw_stdio.py"), mode)
    return McpServer(name=f"stdio: {mode}", transport="stdio", command=sys.executable, args=args, **options)


@pytest.fixture
def links():
    """Creates links and closes them."""
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


class SdkServers:
    """A process that has imported the official SDK and forks servers."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(SERVERS / "sdk_server.py"), "fork"],
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, *args):
        """Start a server in its own process; returns its id."""
        print(json.dumps(args), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def close(self):
        self.process.communicate()


class SdkServer:
    """The official SDK's server in its own process."""

    def __init__(self, servers, *args):
        self.port = free_port()
        self.servers = servers
        self.args = args
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self.pid = self.servers.start(self.args[0], self.port, *self.args[1:])
        until(self._listens)

    def stop(self):
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: not is_alive(self.pid))

    def _listens(self):
        assert is_alive(self.pid), "the server did not start"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture(scope="session")
def sdk_servers():
    """The process that starts SDK servers."""
    servers = SdkServers()
    yield servers
    servers.close()


@pytest.fixture
def sdk_server(sdk_servers):
    """Starts SDK servers and stops them."""
    started = []

    def start(*args):
        started.append(SdkServer(sdk_servers, *args))
        return started[-1]

    yield start
    for server in started:
        server.stop()
