"""`toolyard serve` in its own process."""

import json
import os
import selectors
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager

from waiting import SOON
from warm_python import warm_toolyard


class Served:
    """A running server: its address and its output."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        line = self._line()
        assert line, process.communicate()[1]
        self.said = json.loads(line)
        self.url = self.said["url"]
        self.port = self.said["port"]

    def _line(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(3 * SOON), "it never said that it is ready"
        return self.process.stdout.readline()

    def ask(self, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=SOON) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def invoke(self, name, **args):
        return self.ask(f"/v1/tools/{name}:invoke", {"args": args})

    def stop(self, number=signal.SIGTERM):
        """Stop it; returns its exit code and its standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, err = self.process.communicate(timeout=3 * SOON)
        return self.process.returncode, err


def started(folder, *arguments, env=None):
    """Start the process, without waiting until it serves."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TOOL_REGISTRY", "TOOLYARD"))}
    return warm_toolyard().start(
        ["-m", "toolyard", "serve", *arguments],
        cwd=folder,
        env={**environment, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def served(folder, *arguments, env=None):
    """A server that is ready, and is stopped on exit."""
    process = started(folder, *arguments, env=env)
    try:
        yield Served(process)
    finally:
        if not process.stdout.closed:
            process.terminate()
            try:
                process.communicate(timeout=3 * SOON)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def refused(folder, *arguments, env=None):
    """The output and exit code of a server that refuses to start."""
    process = started(folder, *arguments, env=env)
    out, err = process.communicate(timeout=3 * SOON)
    assert out == ""
    return process.returncode, err
