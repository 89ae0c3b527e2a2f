"""`WorkerPool`: several server processes on one port, supervised by a parent that serves no requests itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Literal

import msgspec

from toolyard.app.blocks import ServerBlock
from toolyard.app.config import Config
from toolyard.model.errors import ConfigError
from toolyard.serving.monitoring import SHARED_VARIABLE

_POLL_SECONDS = 0.2
_RESTART_SECONDS = 1.0
"""Seconds between restarts of workers: what ended one may end its replacement at once."""
_KILL_SECONDS = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def check_shared(config: Config) -> None:
    """Raise `ConfigError` if several workers would not share sessions."""
    if config.sessions.store == "memory":
        raise ConfigError(
            "several workers need sessions that all of them see; give the config a `sessions` block with "
            "store: sqlite or store: postgres, or use one worker"
        )


def send_banner(link: socket.socket, text: str) -> None:
    """Send the banner to the parent, which also tells it that this worker accepts connections."""
    link.sendall(msgspec.json.encode(text) + b"\n")


def notify_systemd(state: Literal["READY=1", "STOPPING=1"]) -> None:
    """Notify systemd if it started this process as a `Type=notify` service."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place.startswith(("/", "@")):
        # The address of an abstract socket begins with NUL. Errors are ignored: systemd may not be listening.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, suppress(OSError):
            line.setblocking(False)
            line.sendto(state.encode(), "\0" + place[1:] if place[0] == "@" else place)


class _Worker:
    def __init__(self, command: Sequence[str], listener: socket.socket, environment: dict[str, str]) -> None:
        self.link, theirs = socket.socketpair()
        with theirs:
            passed = (listener.fileno(), theirs.fileno())
            self.process = subprocess.Popen(  # noqa: S603 - our own command line
                [*command, "--fd", str(passed[0]), "--link", str(passed[1])], pass_fds=passed, env=environment
            )
        self._received = b""

    def read_banner(self) -> str | None:
        """Receive from the worker; return its banner once that is complete, else None."""
        self._received += self.link.recv(65536)
        return msgspec.json.decode(self._received, type=str) if self._received.endswith(b"\n") else None


class WorkerPool:
    """Starts the workers, replaces those that die, forwards signals, and stops them at the end."""

    def __init__(
        self, command: Sequence[str], listener: socket.socket, block: ServerBlock, *, say: Callable[[str], None]
    ) -> None:
        self._command = list(command)
        self._listener = listener
        self._block = block
        self._say = say
        self._environment = dict(os.environ)
        self._workers: list[_Worker] = []
        self._replaced_at = 0.0
        """When a worker was last replaced, by the monotonic clock."""
        self._stopping = False
        self._hung_up = False

    def run(self, ready: Callable[[str], None]) -> bool:
        """Run the workers until SIGTERM or SIGINT. When all accept connections, `ready` is called with the banner.

        Return False if the first worker failed to start; it has reported the reason.
        """
        with tempfile.TemporaryDirectory(prefix="toolyard-metrics-", ignore_cleanup_errors=True) as folder:
            self._environment[SHARED_VARIABLE] = folder
            before = {number: signal.signal(number, self._handle_signal) for number in _SIGNALS}
            try:
                return self._run(ready)
            finally:
                self._stop()
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _run(self, ready: Callable[[str], None]) -> bool:
        # Start one first: an error that keeps it from starting affects all of them, and should be reported once.
        banner = self._begin_worker()
        if banner is None:
            return self._stopping
        for _ in range(self._block.workers - 1):
            self._begin_worker()
        if self._stopping:
            return True
        ready(banner)
        while not self._stopping:
            time.sleep(_POLL_SECONDS)
            self._replace_dead()
        return True

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hung_up = True
        else:
            self._stopping = True

    def _begin_worker(self) -> str | None:
        worker = _Worker(self._command, self._listener, self._environment)
        self._workers.append(worker)
        worker.link.settimeout(_POLL_SECONDS)
        while not self._stopping and worker.process.poll() is None:
            with suppress(TimeoutError):
                banner = worker.read_banner()
                if banner is not None:
                    return banner
        return None

    def _replace_dead(self) -> None:
        now = time.monotonic()
        for worker in [item for item in self._workers if item.process.poll() is not None]:
            self._workers.remove(worker)
            worker.link.close()
            code = worker.process.returncode
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._say(f"worker {worker.process.pid} ended ({how}); another one is started")
        if len(self._workers) < self._block.workers and now - self._replaced_at >= _RESTART_SECONDS:
            self._replaced_at = now
            self._workers.append(_Worker(self._command, self._listener, self._environment))
        if self._hung_up and self._workers:
            self._hung_up = False
            # One is enough: it signals the reload to the others through the store.
            self._workers[0].process.send_signal(signal.SIGHUP)

    def _stop(self) -> None:
        notify_systemd("STOPPING=1")
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.terminate()
        until = time.monotonic() + self._block.shutdown_timeout + _KILL_SECONDS
        for worker in self._workers:
            try:
                worker.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._say(f"worker {worker.process.pid} did not stop and is killed")
                worker.process.kill()
                worker.process.wait()
            worker.link.close()


def own_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line that runs toolyard with these arguments."""
    return [sys.executable, "-m", "toolyard", *arguments]
