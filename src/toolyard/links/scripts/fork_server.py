"""`ForkServer`: the process that a pool starts; it forks the workers inside the sandbox.

`Supervisor` starts workers, and restarts the fork server when it is lost.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import marshal
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from functools import cache
from importlib.resources import files
from types import CodeType
from typing import Any, Literal

import msgspec

from toolyard.links.scripts import sandbox
from toolyard.links.scripts.inside import kernel
from toolyard.links.scripts.worker import DeadlinePassed, ExchangeError, Worker, WorkerEnd, WorkerExchange, describe_end
from toolyard.loop.home import link_loop
from toolyard.model.errors import CallTimeout, Unavailable
from toolyard.schema.common_options import WorkerSettings

Role = Literal["serve", "declare"]

_MODULES = ("kernel", "serving", "declarations", "fork_server")
_BOOT = """
import marshal, sys, types
given = marshal.load(sys.stdin.buffer)
package = types.ModuleType("_inside")
package.__path__ = []
sys.modules["_inside"] = package
for name, code in given["modules"]:
    module = types.ModuleType("_inside." + name)
    module.__package__ = "_inside"
    sys.modules[module.__name__] = module
    exec(code, module.__dict__)
    setattr(package, name, module)
main = module.main
main(given["config"])
"""
_ANSWER_SECONDS = 10.0
_END_SECONDS = 10.0
_WORDS = 2000


class ForkServerBroken(Exception):
    """The fork server could not be started or does not respond; the text says why."""


class ForkServer:
    """The fork server process with its workers. Its methods block briefly and may be called from any thread."""

    def __init__(self, settings: WorkerSettings, level: sandbox.Level) -> None:
        self.settings = settings
        self.level = level
        self.through: tuple[str, ...] = ()
        """Module folders that scripts could not have read by their path; see `sandbox`."""
        self._names = (f"w{number}" for number in itertools.count(1))
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._folder: str | None = None
        self.is_broken = False

    def start(self) -> None:
        """Start it and wait until it is ready; `ForkServerBroken` says why it is not."""
        # The parent-death signal is tied to the starting thread, so a permanent thread must start it.
        link_loop.submit(self._spawn_process()).result()
        reply = self._receive_message(time.monotonic() + self.settings.start_seconds)
        if reply is None:
            words = self._read_stderr()
            self.close()
            raise ForkServerBroken(f"no worker can be started at level {self.level}{words}")
        self.through = tuple(reply["through"])

    def fork(self, role: Role) -> Worker:
        """Fork a worker; it reports itself when it is ready."""
        theirs: list[int] = []
        ours: list[int] = []
        for is_to_worker in (True, False, False, False):
            reader, writer = os.pipe()
            theirs.append(reader if is_to_worker else writer)
            ours.append(writer if is_to_worker else reader)
        worker = Worker(next(self._names), ours, self._end_worker)
        try:
            with self._lock:
                self._send({"do": "fork", "name": worker.name, "role": role}, theirs)
        except ForkServerBroken:
            worker.close()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        return worker

    def _end_worker(self, worker: Worker) -> WorkerEnd:
        """End a worker. If something that it started cannot be ended, end all other workers, too."""
        worker.close()
        reply = None
        with self._lock, contextlib.suppress(ForkServerBroken):
            self._send({"do": "end", "name": worker.name})
            reply = self._receive_message(time.monotonic() + _ANSWER_SECONDS)
            self.is_broken = reply is None or self.is_broken  # a late reply must not be taken for another's
        end = WorkerEnd(clean=False) if reply is None else msgspec.convert(reply, WorkerEnd)
        if not end.clean:
            self.close()
        return end

    def close(self) -> None:
        """End the fork server and all its workers."""
        self.is_broken = True
        control = self._control
        if control is not None:
            # Wakes the thread that waits for a response and holds the lock; closing the socket would not.
            with contextlib.suppress(OSError):
                control.shutdown(socket.SHUT_RDWR)
        # A second caller waits for the first, so that afterwards no process is left.
        with self._closing:
            with self._lock:
                control, self._control = self._control, None
                if control is not None:
                    control.close()
            self._wait_process()

    def _wait_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # bwrap exits after its first process, which ends the others before it exits.
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr is not None:
                process.stderr.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def disown(self) -> None:
        """Disown the process without ending it."""
        self.is_broken = True
        self._folder = None
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.returncode = 0  # The child process belongs to the parent, so it must not be waited for.
            if self._process.stderr is not None:
                self._process.stderr.close()

    async def _spawn_process(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control = theirs.fileno()
        with theirs:
            command = [sandbox.interpreter(), "-I", "-S", "-X", "utf8", "-c", _BOOT]
            if self.level == "bwrap":
                command = [*sandbox.bwrap(self.settings), *command]
            self._control = ours
            try:
                self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - it returns at once
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
                    env={}, pass_fds=[control], start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise ForkServerBroken(f"no worker can be started: {command[0]}: {error.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        # Computed while the interpreter starts; on failure, that reads an end of file and exits.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(marshal.dumps({"modules": _compile_modules(), "config": self._child_config(control)}))

    def _child_config(self, control: int) -> dict[str, Any]:
        settings, level = self.settings, self.level
        someone = sandbox.identity(settings)
        in_bwrap = level == "bwrap"
        own_count = in_bwrap and someone is None
        busy = 2 if own_count else sandbox.count_tasks(os.geteuid() if someone is None else someone[0])
        if not in_bwrap:
            self._folder = tempfile.mkdtemp(prefix="toolyard-workers-")
            if someone is not None:
                # It remains ours, since the owner of a folder can replace its contents.
                os.chmod(self._folder, 0o711)  # noqa: S103 - each has its own, 0700
        return {
            "control": control,
            "parent": None if in_bwrap else os.getpid(),
            "path": sandbox.module_places() if settings.imports == "site" else (),
            "uid": None if someone is None else someone[0],
            "gid": None if someone is None else someone[1],
            "env": sandbox.environment(settings),
            "work": self._folder or "/tmp",  # noqa: S108 - a private one
            "give": someone is not None and not in_bwrap,
            "own_files": someone is None and level == "landlock",
            "landlock": level != "rlimits" and kernel.landlock_abi() > 0,
            "readable": (*sandbox.readable(settings), *(("/proc",) if in_bwrap else ())),
            "seccomp": kernel.can_filter(),
            "memory_bytes": settings.memory_bytes,
            "cpu_seconds": settings.cpu_seconds,
            "files": settings.files,
            "file_bytes": settings.file_bytes,
            "tasks": busy + settings.workers * 2 + settings.processes,
            "max_answer_bytes": settings.max_answer_bytes,
        }

    def _send(self, message: dict[str, str], fds: list[int] | None = None) -> None:
        if self._control is None or self.is_broken:
            raise ForkServerBroken("the process that starts workers is gone")
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], fds or [])
        except OSError:
            self.is_broken = True
            raise ForkServerBroken(f"the process that starts workers is gone{self._read_stderr()}") from None

    def _receive_message(self, deadline: float) -> dict[str, Any] | None:
        if self._control is None:
            return None
        try:
            self._control.settimeout(max(deadline - time.monotonic(), 0))
            data = self._control.recv(65536)
        except OSError:
            return None
        finally:
            self._control.settimeout(None)
        reply: dict[str, Any] | None = json.loads(data) if data else None
        return reply

    def _read_stderr(self) -> str:
        if self._process is None or self._process.stderr is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        words = (self._process.stderr.read() or b"").decode("utf-8", "replace").strip()
        return f": {words[-_WORDS:]}" if words else ""


@cache
def _compile_modules() -> list[tuple[str, CodeType]]:
    """The modules, compiled; the child runs the same interpreter."""
    folder = files("toolyard.links.scripts.inside")
    codes: list[tuple[str, CodeType]] = []
    for name in _MODULES:
        text = folder.joinpath(f"{name}.py").read_text("utf-8")
        code = compile(text, f"<toolyard worker: {name}>", "exec", dont_inherit=True)
        codes.append((name, code))
    return codes


class Supervisor:
    """Starts workers. Its methods block briefly, and must not be called on the loop of links."""

    def __init__(self, settings: WorkerSettings, level: sandbox.Level, label: str) -> None:
        self._settings = settings
        self._level: sandbox.Level = level
        self._label = label
        self._lock = threading.Lock()
        self._fork_server: ForkServer | None = None
        self._is_closed = False

    def start(self, role: Role, deadline: float | None = None) -> Worker:
        """A ready worker. `Unavailable` if none can be started, `CallTimeout` if not in time."""
        try:
            return self._start_once(role, deadline)
        except ForkServerBroken:
            # The fork server was lost since its last use; if a new one fails too, give up.
            try:
                return self._start_once(role, deadline)
            except ForkServerBroken as error:
                raise Unavailable(f"{self._label}: {error}") from None

    def close(self) -> None:
        """End all workers; no more can be started."""
        with self._lock:
            self._is_closed = True
            if self._fork_server is not None:
                self._fork_server.close()

    def disown(self) -> None:
        """Disown all workers without ending them, since they belong to the parent process."""
        if self._fork_server is not None:
            self._fork_server.disown()

    def _start_once(self, role: Role, deadline: float | None) -> Worker:
        worker = self._open_fork_server().fork(role)
        end = time.monotonic() + self._settings.start_seconds
        try:
            reply = WorkerExchange(worker, self._settings).wait(end if deadline is None else min(end, deadline))
        except ExchangeError as error:
            ended = worker.end()
            if isinstance(error, DeadlinePassed) and deadline is not None and time.monotonic() >= deadline:
                raise CallTimeout(f"{self._label}: no worker was ready in time", effect="none") from None
            if ended.status is None and ended.fault is None:
                raise ForkServerBroken("the process that starts workers does not answer") from None
            raise Unavailable(f"{self._label}: a worker {describe_end(ended)}") from None
        if not reply.ready:
            worker.end()
            raise Unavailable(f"{self._label}: {reply.broken or 'a worker is not ready'}")
        return worker

    def _open_fork_server(self) -> ForkServer:
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"{self._label}: the workers are closed", retryable=False)
            if self._fork_server is not None and self._fork_server.is_broken:
                self._fork_server.close()
                self._fork_server = None
            if self._fork_server is None:
                fork_server = ForkServer(self._settings, self._level)
                fork_server.start()
                self._fork_server = fork_server
            return self._fork_server
