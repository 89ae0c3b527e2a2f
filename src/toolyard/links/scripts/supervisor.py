"""`Supervisor`: starts workers and ends them, and starts the fork server again when it is lost."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from toolyard.links.scripts.errors import how
from toolyard.links.scripts.fork_server import ForkServer, ForkServerBroken
from toolyard.links.scripts.settings import Ended, Level, Role, WorkerSettings
from toolyard.links.scripts.worker import Late, Trouble, Worker, WorkerExchange
from toolyard.model.errors import CallTimeout, Unavailable


class Supervisor:
    """Its methods block for a moment; they may be called from any thread but the one of the links' loop."""

    def __init__(self, settings: WorkerSettings, level: Level, label: str) -> None:
        self._settings = settings
        self._level: Level = level
        self._label = label
        self._lock = threading.Lock()
        self._fork_server: ForkServer | None = None
        self._is_closed = False

    def start(self, role: Role, deadline: float | None = None) -> Worker:
        """A worker that is ready. `Unavailable` if there is none to be had, `CallTimeout` if not in time."""
        try:
            return self._start(role, deadline)
        except ForkServerBroken:
            # It was lost since it was last used; a second failure is no accident.
            try:
                return self._start(role, deadline)
            except ForkServerBroken as error:
                raise Unavailable(f"{self._label}: {error}") from None

    def get_ready(self, role: Role) -> None:
        """Start the process that workers are forked from. If it cannot be, whoever needs one will hear of it."""
        with suppress(ForkServerBroken, Unavailable):
            self._open_fork_server(role)

    def end(self, worker: Worker) -> Ended:
        """End a worker. Where something of it cannot be ended, everybody of its fork_server is."""
        fork_server = worker.fork_server
        ended = fork_server.end(worker)
        if not ended.clean:
            fork_server.close()
        return ended

    def close(self) -> None:
        """End everybody; nobody is started any more."""
        with self._lock:
            self._is_closed = True
            if self._fork_server is not None:
                self._fork_server.close()

    def let_go(self) -> None:
        """Forget everybody without ending them: they belong to the process that this is a copy of."""
        if self._fork_server is not None:
            self._fork_server.let_go()

    def exchange(self, worker: Worker) -> WorkerExchange:
        """One question to a worker."""
        return WorkerExchange(worker, self._settings)

    def _start(self, role: Role, deadline: float | None) -> Worker:
        worker = self._open_fork_server(role).fork(role)
        end = time.monotonic() + self._settings.start_seconds
        try:
            reply = self.exchange(worker).wait(end if deadline is None else min(end, deadline))
        except Trouble as trouble:
            ended = self.end(worker)
            if isinstance(trouble, Late) and deadline is not None and time.monotonic() >= deadline:
                raise CallTimeout(f"{self._label}: no worker was ready in time", effect="none") from None
            if ended.status is None and ended.fault is None:
                raise ForkServerBroken("the process that makes workers does not answer") from None
            raise Unavailable(f"{self._label}: a worker {how(ended)}") from None
        if not reply.ready:
            self.end(worker)
            raise Unavailable(f"{self._label}: {reply.broken or 'a worker is not ready'}")
        return worker

    def _open_fork_server(self, role: Role) -> ForkServer:
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"{self._label}: the workers are closed", retryable=False)
            if self._fork_server is not None and self._fork_server.is_broken:
                self._fork_server.close()
                self._fork_server = None
            if self._fork_server is None:
                fork_server = ForkServer(self._settings, self._level, role)
                fork_server.start()
                self._fork_server = fork_server
            return self._fork_server
